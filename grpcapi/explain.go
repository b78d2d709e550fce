package grpcapi

import (
	"cmp"
	"context"
	"net/netip"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"isthmus/federation"
	"isthmus/internal/adminapi"
)

// Question asks what a proxy gets that sends this authority and context token in a Get.
type Question struct {
	Authority, Token string
	Addr             netip.Addr // only this address; zero: all
	Limit            int        // addresses to list, those that are not served first; the others are counted
}

// Explanation is what that proxy gets, and why not the rest.
type Explanation struct {
	*federation.Explanation
	Authority string // with the port
	Service   federation.ServiceID
	Port      uint16
	Namespace string // of the client, from its token
	Client    federation.Client
	Refusal   error               // with which a new stream would be refused now; nil: it would be served
	Held      []adminapi.HeldView // what proxies have of the service, the views with the most streams first
	MoreHeld  int                 // how many views are left out
}

// Explain explains what a proxy gets. It uses the view that the proxy's stream would use,
// with what that has remembered. Errors are status errors.
func (s *Server) Explain(ctx context.Context, q Question) (*Explanation, error) {
	to, err := parseAuthority(q.Authority, s.opts.ClusterDomain)
	if err != nil {
		return nil, err
	}
	held, more := s.heldViews(to.service)
	who := parseToken(q.Token)
	st := newGetStream(s, to, who, nil, nil) // it sends nothing, and is not registered
	defer st.close()
	st.updateZone()
	if !st.viewFits && !s.makeRoom() {
		return nil, statusTooMuch.Err()
	}
	set, _, _ := st.newest() // switches to the view that this client shares with most others
	if set.Reason == federation.TooManyPorts {
		return nil, st.refusal(set) // the table has read nothing that it could explain
	}
	x, ok := s.table.Explain(ctx, federation.Question{Key: st.view.key, Addr: q.Addr, Limit: q.Limit})
	if !ok {
		return nil, status.Errorf(codes.DeadlineExceeded, "not explained: %s has too many addresses, or the gateway too much to do", st.name())
	}
	return &Explanation{
		Explanation: x, Authority: st.name(), Service: to.service, Port: to.port,
		Namespace: who.Namespace, Client: st.client, Refusal: st.refusal(x.Set), Held: held, MoreHeld: more,
	}, nil
}

// ViewStatus describes a view, for debug pages.
type ViewStatus struct {
	adminapi.View
	Service federation.ServiceID // zero: the destination is an address
}

// Views lists all views, those with the most streams first.
func (s *Server) Views() []ViewStatus {
	var list []ViewStatus
	for _, u := range s.getViews.uses() {
		k := u.key
		list = append(list, ViewStatus{Service: k.Service, View: adminapi.View{
			Method: "Get", Destination: target{k.Service, k.Client.Instance, k.Port}.authority(s.opts.ClusterDomain),
			Node: k.Client.Node, Zone: k.Client.Zone, Streams: u.streams, Endpoints: len(u.newest.Endpoints),
		}})
	}
	for _, u := range s.profileViews.uses() {
		v := ViewStatus{Service: u.key.Service, View: adminapi.View{Method: "GetProfile", Namespace: u.key.Namespace, Streams: u.streams}}
		if v.Destination = u.key.Addr.String(); !u.key.Addr.IsValid() {
			v.Destination = targetOf(u.key).authority(s.opts.ClusterDomain)
		}
		if u.newest.Endpoint != nil {
			v.Endpoints = 1
		}
		list = append(list, v)
	}
	slices.SortStableFunc(list, func(a, b ViewStatus) int {
		return cmp.Or(cmp.Compare(b.Streams, a.Streams), cmp.Compare(a.Destination, b.Destination), cmp.Compare(a.Method, b.Method),
			cmp.Compare(a.Node, b.Node), cmp.Compare(a.Zone, b.Zone), cmp.Compare(a.Namespace, b.Namespace))
	})
	return list
}

const (
	slowAfter = time.Second
	// maxHeld is how many views of a service are described.
	maxHeld = 100
)

// heldViews describes the views of a service that streams use, and counts those that are
// left out.
func (s *Server) heldViews(svc federation.ServiceID) (list []adminapi.HeldView, more int) {
	for v, streams := range s.streams.byView(svc) {
		list = append(list, s.heldView(v, streams))
	}
	slices.SortFunc(list, func(a, b adminapi.HeldView) int {
		return cmp.Or(cmp.Compare(b.Streams, a.Streams), cmp.Compare(a.Destination, b.Destination), cmp.Compare(a.Node, b.Node), cmp.Compare(a.Zone, b.Zone))
	})
	n := min(len(list), maxHeld)
	return list[:n], len(list) - n
}

// heldView describes a view with these streams.
func (s *Server) heldView(v *getView, streams []*stream) adminapi.HeldView {
	newest, _ := v.get()
	k, now := v.key, s.now()
	held := adminapi.HeldView{
		Destination: target{k.Service, k.Client.Instance, k.Port}.authority(s.opts.ClusterDomain),
		Node:        k.Client.Node, Zone: k.Client.Zone, Streams: len(streams), Version: newest.Version, Endpoints: len(newest.Endpoints),
	}
	for _, st := range streams {
		switch st.heldSet.Load() {
		case nil:
			held.Waiting++
		case newest:
			held.UpToDate++
		}
		if since := st.sending.Load(); since != 0 && time.Duration(now-since) >= slowAfter {
			held.Slow++
		}
		if at := st.takenAt.Load(); at != 0 {
			if last := s.began.Add(time.Duration(at)); last.After(held.LastMessage) {
				held.LastMessage = last
			}
		}
	}
	return held
}

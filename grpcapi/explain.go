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

// Question contains the arguments of Server.Explain.
type Question struct {
	Authority string
	Token     string
	Addr      netip.Addr // limits the explanation to this address; the zero Addr means all addresses
	Limit     int        // maximum number of addresses to list; further addresses are only counted
}

// Explanation describes which endpoints the proxy receives, and why it does not receive the others.
type Explanation struct {
	*federation.Explanation
	Authority string // including the port
	Service   federation.ServiceID
	Port      uint16
	Namespace string // of the client, from its context token
	Client    federation.Client
	Refusal   error               // the error with which a new stream would be refused now, or nil
	Held      []adminapi.HeldView // the sets that proxies of the service have, the most used views first
	MoreHeld  int                 // number of views that Held omits
}

// ViewStatus describes a view for the debug API.
type ViewStatus struct {
	adminapi.View
	Service federation.ServiceID // zero if the destination is an address
}

type explainer struct{ server *Server }

func (x explainer) explain(ctx context.Context, q Question) (*Explanation, error) {
	to, err := parseAuthority(q.Authority, x.server.opts.ClusterDomain)
	if err != nil {
		return nil, err
	}
	held, more := x.heldViews(to.service)
	who := parseToken(q.Token)
	st := newGetStream(x.server, to, who, nil, nil) // sends no messages and is not registered
	defer st.close()
	st.updateZone()
	if !st.viewFits && !x.server.makeRoom() {
		return nil, statusTooMuch.Err()
	}
	set, _, _ := st.newest() // switches to the view that the client would use
	if set.Reason == federation.TooManyPorts {
		return nil, st.refusal(set) // the table has not read anything that could be explained
	}

	answer, ok := x.server.table.Explain(ctx, federation.Question{Key: st.view.key, Addr: q.Addr, Limit: q.Limit})
	if !ok {
		return nil, status.Errorf(codes.DeadlineExceeded,
			"%s: the explanation took too long: the service has too many addresses, or the replica is overloaded",
			st.name())
	}
	return &Explanation{
		Explanation: answer,
		Authority:   st.name(),
		Service:     to.service,
		Port:        to.port,
		Namespace:   who.Namespace,
		Client:      st.client,
		Refusal:     st.refusal(answer.Set),
		Held:        held,
		MoreHeld:    more,
	}, nil
}

func (x explainer) views() []ViewStatus {
	var list []ViewStatus
	for _, u := range x.server.getViews.uses() {
		list = append(list, x.ofGet(u))
	}
	for _, u := range x.server.profileViews.uses() {
		list = append(list, x.ofProfile(u))
	}
	slices.SortStableFunc(list, func(a, b ViewStatus) int {
		return cmp.Or(
			cmp.Compare(b.Streams, a.Streams),
			cmp.Compare(a.Destination, b.Destination),
			cmp.Compare(a.Method, b.Method),
			cmp.Compare(a.Node, b.Node),
			cmp.Compare(a.Zone, b.Zone),
			cmp.Compare(a.Namespace, b.Namespace),
		)
	})
	return list
}

func (x explainer) ofGet(u getUse) ViewStatus {
	return ViewStatus{
		Service: u.key.Service,
		View: adminapi.View{
			Method:      "Get",
			Destination: x.destination(u.key),
			Node:        u.key.Client.Node,
			Zone:        u.key.Client.Zone,
			Streams:     u.streams,
			Endpoints:   len(u.newest.Endpoints),
		},
	}
}

func (x explainer) ofProfile(u viewUse[federation.ProfileKey, *federation.Profile]) ViewStatus {
	destination := u.key.Addr.String()
	if !u.key.Addr.IsValid() {
		destination = targetOf(u.key).authority(x.server.opts.ClusterDomain)
	}
	endpoints := 0
	if u.newest.Endpoint != nil {
		endpoints = 1
	}
	return ViewStatus{
		Service: u.key.Service,
		View: adminapi.View{
			Method:      "GetProfile",
			Destination: destination,
			Namespace:   u.key.Namespace,
			Streams:     u.streams,
			Endpoints:   endpoints,
		},
	}
}

func (x explainer) destination(k federation.Key) string {
	return target{k.Service, k.Client.Instance, k.Port}.authority(x.server.opts.ClusterDomain)
}

const (
	// slowAfter is how long a send may block before its stream is considered slow.
	slowAfter = time.Second
	// maxHeld is the maximum number of views described per service.
	maxHeld = 100
)

func (x explainer) heldViews(svc federation.ServiceID) (list []adminapi.HeldView, more int) {
	for v, streams := range x.server.streams.byView(svc) {
		list = append(list, x.heldView(v, streams))
	}
	slices.SortFunc(list, func(a, b adminapi.HeldView) int {
		return cmp.Or(
			cmp.Compare(b.Streams, a.Streams),
			cmp.Compare(a.Destination, b.Destination),
			cmp.Compare(a.Node, b.Node),
			cmp.Compare(a.Zone, b.Zone),
		)
	})
	n := min(len(list), maxHeld)
	return list[:n], len(list) - n
}

func (x explainer) heldView(v *getView, streams []*stream) adminapi.HeldView {
	newest, _ := v.get()
	now := x.server.now()
	held := adminapi.HeldView{
		Destination: x.destination(v.key),
		Node:        v.key.Client.Node,
		Zone:        v.key.Client.Zone,
		Streams:     len(streams),
		Version:     newest.Version,
		Endpoints:   len(newest.Endpoints),
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
		if at := st.sentAt.Load(); at != 0 {
			last := x.server.began.Add(time.Duration(at))
			if last.After(held.LastMessage) {
				held.LastMessage = last
			}
		}
	}
	return held
}

package grpcapi

import (
	"context"
	"net/netip"

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
	st := s.newGet(to, who, nil, nil) // it sends nothing, and is not registered
	defer st.close()
	st.updateZone()
	if !st.fits && !s.roomFor(0) {
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

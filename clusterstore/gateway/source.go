package gateway

import (
	"iter"
	"net/netip"
	"slices"
	"strconv"
	"sync"

	"isthmus/federation"
)

// Source is an immutable snapshot of a cluster behind gateways. When the gateways change, a new
// Source replaces the old one.
type Source struct {
	Cluster   federation.Source // the cluster behind the gateways
	Name      federation.ClusterName
	Domain    string    // the cluster's DNS domain
	Addresses []Address // of the gateways; dead ones are only used if all are dead
}

const sliceName = "gateways" // of the slice that contains the gateways, in explanations

var (
	_ federation.Explainer = (*Source)(nil)
	_ federation.Reachable = (*Source)(nil)
)

// Same reports whether two sources look the same to clients. The result is false if the receiver is
// nil.
func (s *Source) Same(o *Source) bool {
	return s != nil && s.Cluster == o.Cluster && s.Name == o.Name && s.Domain == o.Domain &&
		sameUse(s.Addresses, o.Addresses)
}

// State returns the state of a Service in the cluster.
func (s *Source) State(svc federation.ServiceID) federation.ServiceState { return s.Cluster.State(svc) }

// Declares reports whether the Service in the cluster declares a port.
func (s *Source) Declares(svc federation.ServiceID, port uint16) bool {
	return s.Cluster.Declares(svc, port)
}

// Reachable reports whether the cluster has a gateway with a usable address, even if all probes of
// the address fail.
func (s *Source) Reachable() bool {
	return slices.ContainsFunc(s.Addresses, func(a Address) bool { return a.usable() })
}

// Reader returns a reader whose endpoints are the gateways through which clients reach a service
// port.
func (s *Source) Reader(svc federation.ServiceID, port uint16) federation.Reader {
	return &reader{
		behind:    s.Cluster.Reader(svc, port),
		endpoints: sync.OnceValue(func() []*federation.Endpoint { return s.endpoints(svc, port) }),
	}
}

// reader reads one service port. The endpoints of a reader do not change, because its Source is
// immutable.
type reader struct {
	behind    federation.Reader
	endpoints func() []*federation.Endpoint
	last      *federation.Slice // nil if the last share had no endpoints
}

// Read returns the gateways if the cluster has endpoints for the service port. Gateways cannot
// forward traffic to ports that the Service does not declare.
func (r *reader) Read() federation.Share {
	share := r.behind.Read()
	out := federation.Share{State: share.State, Undeclared: share.Undeclared}
	if share.State != federation.Present || share.Undeclared {
		return out
	}
	now := count(share.Slices)
	if now == (federation.Behind{}) {
		r.last = nil
		return out
	}
	if r.last == nil || *r.last.Behind != now {
		r.last = &federation.Slice{Name: sliceName, Behind: &now}
		if now.Ready > 0 {
			r.last.Endpoints = r.endpoints()
		}
	}
	out.Slices = []*federation.Slice{r.last}
	return out
}

// The count function returns the number of endpoints in the slices, counting each address only
// once. An endpoint of a dual-stack Service has two addresses, so the result is the number of IPv4
// addresses or of IPv6 addresses, whichever is larger.
func count(list []*federation.Slice) (n federation.Behind) {
	var counted map[netip.AddrPort]bool // nil if there is only one slice, which has no duplicates
	if len(list) > 1 {
		counted = make(map[netip.AddrPort]bool)
	}
	number := func(of func(*federation.Slice) []*federation.Endpoint) int {
		v4, v6 := 0, 0
		for _, l := range list {
			for _, e := range of(l) {
				if counted[e.Addr] {
					continue
				}
				if counted != nil {
					counted[e.Addr] = true
				}
				if e.Addr.Addr().Is4() {
					v4++
				} else {
					v6++
				}
			}
		}
		return max(v4, v6)
	}
	n.Ready = number(func(l *federation.Slice) []*federation.Endpoint { return l.Endpoints })
	n.Unready = number(func(l *federation.Slice) []*federation.Endpoint { return l.Unready })
	return n
}

// The endpoints method returns the gateways as endpoints of a service port. The endpoints look like
// those of a Linkerd mirror Service.
func (s *Source) endpoints(svc federation.ServiceID, port uint16) []*federation.Endpoint {
	group := []federation.Label{
		{Name: "namespace", Value: svc.Namespace}, {Name: "service", Value: svc.Name},
		{Name: "target_cluster", Value: string(s.Name)},
		{Name: "target_service", Value: svc.Name},
		{Name: "target_service_namespace", Value: svc.Namespace},
	}
	var list []*federation.Endpoint
	for _, a := range used(s.Addresses) {
		list = append(list, &federation.Endpoint{
			Addr: a.Addr, Kind: federation.Address, Cluster: s.Name, Common: &federation.Common{
				Group: group, Identity: federation.Identity{DNS: a.Identity},
				Authority: svc.Name + "." + svc.Namespace + ".svc." + s.Domain + ":" + strconv.Itoa(int(port)),
			},
		})
	}
	slices.SortFunc(list, func(a, b *federation.Endpoint) int { return a.Addr.Compare(b.Addr) })
	return list
}

// Explain implements [federation.Explainer]. Explain describes the endpoints behind the gateways,
// and says why a gateway is not used.
func (s *Source) Explain(svc federation.ServiceID, port uint16) iter.Seq[federation.Considered] {
	return func(yield func(federation.Considered) bool) {
		if x, ok := s.Cluster.(federation.Explainer); ok {
			for c := range x.Explain(svc, port) {
				if c.Verdict == federation.Served {
					c.Verdict = federation.BehindGateway
					if len(s.Addresses) == 0 {
						c.Detail = "no address of a gateway is known"
					}
				}
				if !yield(c) {
					return
				}
			}
		}
		if len(s.Addresses) == 0 {
			return
		}
		share := s.Reader(svc, port).Read()
		for _, a := range s.Addresses {
			c := federation.Considered{Slice: sliceName, Addr: a.Addr, Changed: a.Since}
			switch {
			case share.State == federation.Present && share.Undeclared:
				c.Verdict = federation.NoSuchPort
				c.Detail = "the Service does not declare the port"
			case len(share.Slices) == 0 || share.Slices[0].Behind.Ready == 0:
				c.Verdict = federation.NothingBehind
			case a.Dead && !AllDead(s.Addresses):
				c.Verdict = federation.GatewayDead
				c.Detail = a.Failure
			}
			if !yield(c) {
				return
			}
		}
	}
}

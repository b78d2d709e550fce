package cluster

import (
	"slices"

	"isthmus/federation"
)

// reader is a [federation.Reader] of one service port. It keeps the joined endpoints
// of each slice, with the stamp that the slice had.
type reader struct {
	// fixed
	state   *state
	service federation.ServiceID
	port    uint16

	share federation.Share
	spec  *Service // that the share is of
	parts []part   // sorted by key
	// explained gets what becomes of each address; nil: nobody asks.
	explained *[]federation.Considered
}

// part is the result of joining one slice.
type part struct {
	key     string
	stamp   uint64
	portRef portRef
	slice   *federation.Slice
}

// Read returns what the cluster offers now. Without the Service that is nothing, even
// if there are slices of it. While nothing has changed it returns the same slices, and
// in a changed slice the same pointers to equal endpoints.
func (r *reader) Read() federation.Share {
	r.state.mu.RLock()
	defer r.state.mu.RUnlock()
	e := r.state.services[r.service]
	r.share.State = e.state()
	if r.share.State != federation.Present {
		return federation.Share{State: r.share.State}
	}
	if r.spec != e.spec {
		r.useSpec(e.spec)
	}
	if ref := e.spec.portRef(r.port); !r.current(e.slices, ref) {
		r.read(e.slices, ref)
	}
	return r.share
}

// useSpec stores what the share takes from the Service.
func (r *reader) useSpec(s *Service) {
	r.spec = s
	r.share.NodeLocal, r.share.Undeclared = s.NodeLocal, !s.HasPort(r.port)
}

// current reports whether no slice has changed since the parts were made.
func (r *reader) current(list []*slice, ref portRef) bool {
	return slices.EqualFunc(r.parts, list, func(p part, l *slice) bool { return p.stamp == l.stamp && p.portRef == ref })
}

// read joins the slices that have changed.
func (r *reader) read(list []*slice, ref portRef) {
	parts := make([]part, 0, len(list))
	offered := make([]*federation.Slice, 0, len(list))
	old := r.parts
	for _, l := range list {
		for len(old) > 0 && old[0].key < l.key {
			old = old[1:]
		}
		before := part{slice: &federation.Slice{}}
		if len(old) > 0 && old[0].key == l.key {
			before = old[0]
		}
		p := part{key: l.key, stamp: l.stamp, portRef: ref, slice: before.slice}
		if before.stamp != l.stamp || before.portRef != ref {
			p.slice = r.join(l, ref, before.slice)
		}
		parts = append(parts, p)
		if len(p.slice.Endpoints)+len(p.slice.Unready) > 0 {
			offered = append(offered, p.slice)
		}
	}
	r.parts, r.share.Slices = parts, offered
}

// join makes endpoints of a slice's addresses, ready or not. before is the previous
// result: it is returned if nothing has changed, and otherwise its equal endpoints are
// used again.
func (r *reader) join(l *slice, ref portRef, before *federation.Slice) *federation.Slice {
	j := joiner{state: r.state, requested: r.port, mirror: &l.mirror, group: groupLabels(l, r.state.cluster)}
	if len(before.Endpoints) > 0 {
		j.common = before.Endpoints[0].Common // what changes shares it with what does not
	}
	made := &federation.Slice{Name: l.key}
	for i := range l.subsets {
		sub := &l.subsets[i]
		port, ok := sub.port(ref)
		if ok {
			made.Endpoints = slices.Grow(made.Endpoints, sub.ready)
		}
		for k := range sub.addresses {
			a := &sub.addresses[k]
			j.usePlace(a.place)
			why, at := j.place.why, port
			switch {
			case j.place.left:
				at = 0
			case !ok:
				why, at = federation.NoSuchPort, 0
			case k < sub.ready:
				made.Endpoints, why = j.endpoint(made.Endpoints, a, port, before.Endpoints)
			default:
				made.Unready = j.unready(made.Unready, a, port, before.Unready)
			}
			if r.explained != nil {
				r.explain(l, a, &j.place, at, why)
			}
		}
	}
	made.Endpoints = sortByAddr(made.Endpoints)
	made.Unready = slices.DeleteFunc(sortByAddr(made.Unready), func(e *federation.Endpoint) bool {
		_, served := findAddr(made.Endpoints, e.Addr)
		return served
	})
	if slices.Equal(made.Endpoints, before.Endpoints) && slices.Equal(made.Unready, before.Unready) {
		return before
	}
	return made
}

// portRef names a port of a slice: by the port's name, or just by number.
type portRef struct {
	name   string
	number uint16
	named  bool
}

// portRef translates a port of the Service. Ports of slices have the name of the
// Service's port; targetPort plays no role. A port that the Service does not declare
// for TCP is used as it is.
func (s *Service) portRef(port uint16) portRef {
	for _, p := range s.Ports {
		if p.Number == port {
			return portRef{name: p.Name, named: true}
		}
	}
	return portRef{number: port}
}

// port returns the port's number in this subset.
func (s *subset) port(ref portRef) (uint16, bool) {
	if !ref.named {
		return ref.number, true
	}
	for _, p := range s.ports {
		if p.name == ref.name {
			return p.number, p.number != 0
		}
	}
	return 0, false
}

package cluster

import (
	"slices"

	"isthmus/federation"
)

// reader is a [federation.Reader] of one service port. It remembers, for each
// slice, what it made of it and from which state of it.
type reader struct {
	// fixed
	state   *state
	service federation.ServiceID
	port    uint16

	share federation.Share
	parts []part // sorted by key
}

// part is what became of one slice.
type part struct {
	key    string
	stamp  uint64
	wanted wanted
	slice  *federation.Slice
}

// Read returns what the cluster offers now: nothing, if there is no such Service,
// even if there are slices of it. While nothing has changed it returns
// the same slices, and in a changed one the same pointers to equal endpoints.
func (r *reader) Read() federation.Share {
	r.state.mu.RLock()
	defer r.state.mu.RUnlock()
	e := r.state.services[r.service]
	r.share.State = e.state()
	if r.share.State != federation.Present {
		return federation.Share{State: r.share.State}
	}
	r.share.NodeLocal = e.spec.NodeLocal
	if t := e.spec.wanted(r.port); !r.current(e.slices, t) {
		r.read(e.slices, t)
	}
	return r.share
}

// current tells whether the parts are those of the slices as they are.
func (r *reader) current(list []*slice, t wanted) bool {
	return slices.EqualFunc(r.parts, list, func(p part, l *slice) bool { return p.stamp == l.stamp && p.wanted == t })
}

func (r *reader) read(list []*slice, t wanted) {
	parts := make([]part, 0, len(list))
	offered := make([]*federation.Slice, 0, len(list))
	old := r.parts
	for _, l := range list {
		for len(old) > 0 && old[0].key < l.key {
			old = old[1:]
		}
		p := part{key: l.key, stamp: l.stamp, wanted: t}
		switch {
		case len(old) == 0 || old[0].key != l.key:
			p.slice = r.join(l, t, &federation.Slice{})
		case old[0].stamp != l.stamp || old[0].wanted != t:
			p.slice = r.join(l, t, old[0].slice)
		default:
			p.slice = old[0].slice
		}
		parts = append(parts, p)
		if len(p.slice.Endpoints) > 0 {
			offered = append(offered, p.slice)
		}
	}
	r.parts, r.share.Slices = parts, offered
}

// join makes endpoints of a slice's addresses. It returns before if that says
// the same, and takes from it what is still right.
func (r *reader) join(l *slice, t wanted, before *federation.Slice) *federation.Slice {
	j := joiner{state: r.state, requested: r.port, data: l.data, group: group(l.data)}
	made := &federation.Slice{}
	for i := range l.data.subsets {
		sub := &l.data.subsets[i]
		port, ok := sub.port(t)
		if !ok {
			continue
		}
		made.Endpoints = slices.Grow(made.Endpoints, len(sub.addresses))
		for k := range sub.addresses {
			if e := j.endpoint(&sub.addresses[k], port, before.Endpoints); e != nil {
				made.Endpoints = append(made.Endpoints, e)
			}
		}
	}
	slices.SortStableFunc(made.Endpoints, func(a, b *federation.Endpoint) int { return a.Addr.Compare(b.Addr) })
	made.Endpoints = slices.CompactFunc(made.Endpoints, func(a, b *federation.Endpoint) bool { return a.Addr == b.Addr })
	if slices.Equal(made.Endpoints, before.Endpoints) {
		return before
	}
	return made
}

// wanted is what to look for in a slice: the port of that name, or just the number.
type wanted struct {
	name   string
	number uint16
	named  bool
}

// wanted resolves a port of the Service. Slices are asked by the name of the
// Service's port, never by its targetPort; a port that the Service does not
// declare is used as it is.
func (s *Service) wanted(port uint16) wanted {
	for _, p := range s.Ports {
		if p.Number == port {
			return wanted{name: p.Name, named: true}
		}
	}
	return wanted{number: port}
}

// port finds the number to use in this subset.
func (s *subset) port(t wanted) (uint16, bool) {
	if !t.named {
		return t.number, true
	}
	for _, p := range s.ports {
		if p.name == t.name {
			return p.number, p.number != 0
		}
	}
	return 0, false
}

package externalworkload

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// maxKept is how many endpoints API servers take in a slice.
const maxKept = 1000

// order plans the writes of slices of one address type, of each that gives endpoints to others after these.
func (p *plan) order(svc *corev1.Service, t discoveryv1.AddressType, all []*packed) {
	to := make(map[string]*packed) // workload → the slice that is to have it
	for _, x := range all {
		for i := range x.endpoints {
			to[x.endpoints[i].TargetRef.Name] = x
		}
	}
	var write func(x *packed)
	write = func(x *packed) {
		x.begun = true
		for _, other := range x.give(to) {
			if !other.begun {
				write(other)
			} else if !other.has {
				p.writeFirst(svc, other)
			}
		}
		p.write(svc, t, x)
	}
	for _, x := range all {
		if !x.begun {
			write(x)
		}
	}
}

// give finds what a slice gives to others, and returns these.
func (x *packed) give(to map[string]*packed) (others []*packed) {
	if x.slice == nil {
		return nil
	}
	for i := range x.slice.Endpoints {
		e := &x.slice.Endpoints[i]
		if other := to[workloadOf(x.slice, e)]; other != nil && other != x && other.differs {
			x.gives, others = append(x.gives, *e), append(others, other)
		}
	}
	return others
}

// writeFirst is for a slice that others wait for, for which it waits: it gets what is new now, and loses the rest
// later. A spare one, whose ports change, is made anew instead, unless the Service is being deleted.
func (p *plan) writeFirst(svc *corev1.Service, x *packed) {
	x.has = true
	switch {
	case !x.spare:
		x.first = true
		if both := x.both(svc); both != nil {
			p.update = append(p.update, both)
		}
	case svc.DeletionTimestamp == nil:
		p.remove = append(p.remove, x.slice)
		x.slice = nil
		x.gives = nil
	}
}

// write plans the write of a slice, if one is needed.
func (p *plan) write(svc *corev1.Service, t discoveryv1.AddressType, x *packed) {
	x.has = true
	switch {
	case x.slice == nil:
		p.create = append(p.create, newSlice(svc, t, x.group.ports, x.endpoints))
	case !x.differs:
	case len(x.gives) == 0:
		p.update = append(p.update, withContents(x.slice, svc, x.group.ports, x.endpoints))
	default:
		s := withContents(x.slice, svc, x.group.ports, x.endpoints)
		p.move = append(p.move, s)
		if both := x.both(svc); both != nil && !x.spare && !x.first {
			p.instead[s] = both
		}
	}
}

// both returns the slice with what it is to have and, as far as API servers take that, what it gives to others; nil:
// it has that already, since a slice was refused before.
func (x *packed) both(svc *corev1.Service) *discoveryv1.EndpointSlice {
	all := slices.Concat(x.endpoints, x.gives)
	both := withContents(x.slice, svc, x.group.ports, all[:min(len(all), maxKept)])
	if sameContents(both, x.slice) {
		return nil
	}
	return both
}

// sameContents reports whether two slices have equal endpoints, in whatever order, and labels.
func sameContents(a, b *discoveryv1.EndpointSlice) bool {
	sorted := func(s *discoveryv1.EndpointSlice) []discoveryv1.Endpoint {
		return slices.SortedFunc(slices.Values(s.Endpoints), func(x, y discoveryv1.Endpoint) int {
			return cmp.Compare(workloadOf(s, &x), workloadOf(s, &y))
		})
	}
	return maps.Equal(a.Labels, b.Labels) && equality.Semantic.DeepEqual(sorted(a), sorted(b))
}

package externalworkload

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"isthmus/clusterstore/decode"
)

// plan is the writes that make a Service's slices what they should be, in this order.
type plan struct {
	create, update []*discoveryv1.EndpointSlice
	// move are updates of slices that give endpoints to others, which have these by then.
	move   []*discoveryv1.EndpointSlice
	remove []*discoveryv1.EndpointSlice
	// instead has what is written in place of a move once a slice was refused, with the endpoints that it gives; none
	// if that is what there is by then, or if ports change: they would be under wrong ones.
	instead map[*discoveryv1.EndpointSlice]*discoveryv1.EndpointSlice
}

// newPlan plans the writes for a Service, given the workloads that it selects and its
// slices as they are. It changes none of them. After the end of ctx the plan is
// incomplete.
//
// Endpoints that do not change stay in their slice, and only slices that differ are
// written. New endpoints go into those first, then into others with room, then into slices
// that would be deleted, then into new ones. So full slices stay full, but sparse ones are not
// merged. No endpoint is missing between two writes: a slice that gives some to others is written
// after these (order.go). Only of a slice with more than 900, which others have made, some may be where slices
// exchange endpoints, or one was refused: API servers take no more than 1,000 in a slice.
//
// A Service that is being deleted gets no new slices; those that it has are kept up
// to date. Garbage collection removes them after it.
func newPlan(
	ctx context.Context,
	svc *corev1.Service,
	workloads []*decode.ExternalWorkload,
	existing []*discoveryv1.EndpointSlice,
) (plan, leftOut) {
	p := plan{instead: make(map[*discoveryv1.EndpointSlice]*discoveryv1.EndpointSlice)}
	var groups endpointGroups
	var left leftOut
	if selects(svc) {
		groups, left = newEndpointGroups(ctx, svc, workloads)
	}
	owned := make(map[discoveryv1.AddressType][]*discoveryv1.EndpointSlice)
	for _, s := range existing {
		if _, ok := groups[s.AddressType]; ok && isOwned(s, svc) {
			owned[s.AddressType] = append(owned[s.AddressType], s)
		} else {
			p.remove = append(p.remove, s)
		}
	}
	for _, t := range slices.Sorted(maps.Keys(groups)) {
		p.pack(svc, t, groups[t], owned[t])
	}
	if svc.DeletionTimestamp != nil {
		p.create = nil
	}
	return p, left
}

// pack distributes the endpoints of one address type over slices.
func (p *plan) pack(
	svc *corev1.Service, t discoveryv1.AddressType, groups map[portsKey]*group, existing []*discoveryv1.EndpointSlice,
) {
	slices.SortFunc(existing, func(a, b *discoveryv1.EndpointSlice) int { // the fullest first
		return cmp.Or(cmp.Compare(len(b.Endpoints), len(a.Endpoints)), cmp.Compare(a.Name, b.Name))
	})
	var all []*packed
	var spare []*discoveryv1.EndpointSlice // those that keep nothing
	for _, s := range existing {
		if x := keep(s, groups[newPortsKey(s.Ports)]); len(x.endpoints) > 0 {
			x.differs = !maps.Equal(s.Labels, sliceLabels(svc)) ||
				!equality.Semantic.DeepEqual(s.Endpoints, x.endpoints)
			all = append(all, x)
		} else {
			spare = append(spare, s)
		}
	}
	for _, g := range groups {
		g.fill(all)
	}
	p.order(svc, t, append(all, p.place(groups, spare)...))
}

// place puts what is left of the groups into spare slices and new ones. What is together in a spare slice, under
// other ports, stays together, in that slice if it can.
func (p *plan) place(groups map[portsKey]*group, spare []*discoveryv1.EndpointSlice) (all []*packed) {
	home := make(map[string]int) // workload → the spare slice that has it, less len(spare)
	for i, s := range spare {
		for j := range s.Endpoints {
			home[workloadOf(s, &s.Endpoints[j])] = i - len(spare)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(groups)) {
		g := groups[key]
		names := slices.SortedFunc(maps.Keys(g.endpoints), func(a, b string) int {
			return cmp.Or(cmp.Compare(home[a], home[b]), cmp.Compare(a, b))
		})
		for part := range slices.Chunk(names, maxEndpoints) {
			x := &packed{group: g, endpoints: g.take(part), differs: true}
			if at := home[part[len(part)/2]] + len(spare); at < len(spare) {
				x.slice, spare[at] = spare[at], nil // nil if another part has it
			}
			all = append(all, x)
		}
	}
	spare = slices.DeleteFunc(spare, func(s *discoveryv1.EndpointSlice) bool { return s == nil })
	for _, x := range all {
		if x.slice == nil && len(spare) > 0 {
			x.slice, spare = spare[0], spare[1:]
		}
		x.spare = x.slice != nil
	}
	p.remove = append(p.remove, spare...)
	return all
}

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

// packed is a slice as it is to be.
type packed struct {
	slice     *discoveryv1.EndpointSlice // as it is; nil: it is to be made
	spare     bool                       // nothing of what it has stays in it
	group     *group
	endpoints []discoveryv1.Endpoint
	differs   bool
	gives     []discoveryv1.Endpoint // that it has, and others are to have
	begun     bool                   // its write is being planned, or has been
	first     bool                   // it is written first with all that it has and is to have
	has       bool                   // there is a write by which it has its endpoints
}

// keep moves the endpoints that a slice has already from its group, which may be nil, to the slice, as they should be.
func keep(s *discoveryv1.EndpointSlice, g *group) *packed {
	x := &packed{slice: s, group: g}
	if g == nil {
		return x
	}
	for i := range s.Endpoints {
		name := workloadOf(s, &s.Endpoints[i])
		if _, ok := g.endpoints[name]; ok && len(x.endpoints) < maxEndpoints {
			x.endpoints = append(x.endpoints, g.take([]string{name})...)
		}
	}
	return x
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

// fill puts endpoints into slices of the group that have room: those that are written anyway first.
func (g *group) fill(kept []*packed) {
	names := slices.Sorted(maps.Keys(g.endpoints))
	for _, written := range []bool{true, false} {
		for _, x := range kept {
			if n := min(len(names), maxEndpoints-len(x.endpoints)); x.group == g && x.differs == written && n > 0 {
				x.endpoints, x.differs = append(x.endpoints, g.take(names[:n])...), true
				names = names[n:]
			}
		}
	}
}

// take moves endpoints out of the group.
func (g *group) take(names []string) (list []discoveryv1.Endpoint) {
	for _, name := range names {
		list = append(list, g.endpoints[name])
		delete(g.endpoints, name)
	}
	return list
}

// maxKept is how many endpoints API servers take in a slice.
const maxKept = 1000

// leftOut is what is left out of a Service's slices, and why. The first ones have a
// text; the others are counted.
type leftOut struct {
	named []string
	more  int
}

// add adds a problem of an object.
func (p *leftOut) add(object, format string, args ...any) {
	if len(p.named) == maxProblems {
		p.more++
		return
	}
	p.named = append(p.named, object+": "+fmt.Sprintf(format, args...))
}

// list returns the texts, and how many problems more there are.
func (p *leftOut) list() []string {
	if p.more == 0 {
		return p.named
	}
	return append(p.named[:len(p.named):len(p.named)], fmt.Sprintf("%d more", p.more))
}

// maxProblems is how many problems of one Service have a text.
const maxProblems = 10

package externalworkload

import (
	"cmp"
	"context"
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

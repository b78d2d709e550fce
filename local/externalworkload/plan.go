package externalworkload

import (
	"cmp"
	"context"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"isthmus/clusterstore/crd"
)

// plan is the writes that make a Service's slices what they should be.
type plan struct {
	create, update, remove []*discoveryv1.EndpointSlice
}

// newPlan plans the writes for a Service, given the workloads that it selects and its
// slices as they are. It changes none of them. After the end of ctx the plan is
// incomplete.
//
// Endpoints that do not change stay in their slice, and only slices that differ are
// written. New endpoints go into those first, then into others with room, then into slices
// that would be deleted, as far as what these had is in others by then, then into new ones. So
// full slices stay full, but sparse ones are not merged: that would take addresses away for a
// moment.
//
// A Service that is being deleted gets no new slices; those that it has are kept up
// to date. Garbage collection removes them after it.
func newPlan(ctx context.Context, svc *corev1.Service, workloads []*crd.ExternalWorkload, existing []*discoveryv1.EndpointSlice) (plan, leftOut) {
	var p plan
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

// packed is a slice that keeps endpoints, and those that it is to have.
type packed struct {
	slice     *discoveryv1.EndpointSlice
	group     *group
	endpoints []discoveryv1.Endpoint
	differs   bool
	loses     bool // some that it had
}

// pack distributes the endpoints of one address type over slices.
func (p *plan) pack(svc *corev1.Service, t discoveryv1.AddressType, groups map[portsKey]*group, existing []*discoveryv1.EndpointSlice) {
	slices.SortFunc(existing, func(a, b *discoveryv1.EndpointSlice) int { // the fullest first
		return cmp.Or(cmp.Compare(len(b.Endpoints), len(a.Endpoints)), cmp.Compare(a.Name, b.Name))
	})
	var kept []*packed
	var spare []*discoveryv1.EndpointSlice // those that keep nothing
	for _, s := range existing {
		if x := keep(s, groups[newPortsKey(s.Ports)]); len(x.endpoints) > 0 {
			x.loses = len(x.endpoints) < len(s.Endpoints)
			x.differs = !maps.Equal(s.Labels, sliceLabels(svc)) || !equality.Semantic.DeepEqual(s.Endpoints, x.endpoints)
			kept = append(kept, x)
		} else {
			spare = append(spare, s)
		}
	}
	for _, g := range groups {
		g.fill(kept)
	}
	var losing []*discoveryv1.EndpointSlice // written last: what they lose may come into others
	for _, x := range kept {
		list := &p.update
		if x.loses {
			list = &losing
		}
		if x.differs {
			*list = append(*list, withContents(x.slice, svc, x.group.ports, x.endpoints))
		}
	}
	p.place(svc, t, groups, spare)
	p.update = append(p.update, losing...)
}

// place puts what is left of the groups into spare slices and new ones. A spare slice is written once all that it had has come into
// others, or comes into it; at once if there can't be others, since the Service is being deleted.
func (p *plan) place(svc *corev1.Service, t discoveryv1.AddressType, groups map[portsKey]*group, spare []*discoveryv1.EndpointSlice) {
	home := make(map[string]int) // workload → the spare slice that has it
	for i, s := range spare {
		for j := range s.Endpoints {
			if svc.DeletionTimestamp == nil {
				home[workloadOf(s, &s.Endpoints[j])] = i
			}
		}
	}
	homeOf := func(name string) int {
		if i, ok := home[name]; ok {
			return i
		}
		return len(spare)
	}
	awaited := make([]int, len(spare)+1) // how many of a spare slice's endpoints have no slice yet
	for _, g := range groups {
		for name := range g.endpoints {
			awaited[homeOf(name)]++
		}
	}
	var free []*discoveryv1.EndpointSlice
	for i, s := range spare {
		if awaited[i] == 0 {
			free = append(free, s)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(groups)) {
		g := groups[key]
		// What is together in a spare slice, under other ports, stays together.
		names := slices.SortedFunc(maps.Keys(g.endpoints), func(a, b string) int {
			return cmp.Or(cmp.Compare(homeOf(a), homeOf(b)), cmp.Compare(a, b))
		})
		for part := range slices.Chunk(names, maxEndpoints) {
			for _, name := range part {
				at := homeOf(name)
				if awaited[at]--; awaited[at] == 0 && at < len(spare) {
					free = append(free, spare[at])
				}
			}
			if last := len(free) - 1; last < 0 {
				p.create = append(p.create, newSlice(svc, t, g.ports, g.take(part)))
			} else {
				p.update, free = append(p.update, withContents(free[last], svc, g.ports, g.take(part))), free[:last]
			}
		}
	}
	p.remove = append(p.remove, free...)
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

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
// Endpoints that do not change stay in their slice, and under that condition there is
// no plan with fewer writes, unless slices name a workload twice. Only slices that
// differ are written. New endpoints go first into those, then into slices that would
// be deleted, then into one slice that has room for all of them, then into new
// slices. So full slices stay full, but sparse ones are not merged: that would take
// addresses away for a moment.
//
// A Service that is being deleted gets no new slices; those that it has are kept up
// to date. Garbage collection removes them after it.
func newPlan(ctx context.Context, svc *corev1.Service, workloads []*crd.ExternalWorkload, existing []*discoveryv1.EndpointSlice) (plan, problems) {
	var p plan
	var groups endpointGroups
	var left problems
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
		pk := newPacking(svc, t, groups[t], owned[t])
		pk.fill()
		pk.place(pk.chunks())
		pk.addTo(&p)
	}
	if svc.DeletionTimestamp != nil {
		p.create = nil
	}
	return p, left
}

// packing distributes the endpoints of one address type over slices.
type packing struct {
	svc    *corev1.Service
	kind   discoveryv1.AddressType
	groups map[portsKey]*group // endpoints that have no slice yet
	keys   []portsKey          // of the groups, in order

	unchanged []*packed // slices that need no write
	updated   []*packed // slices that are written and keep endpoints
	spare     []*packed // slices that keep no endpoint: to be reused, or deleted
	created   []*packed
}

// packed is a slice and the endpoints that it is to have.
type packed struct {
	slice     *discoveryv1.EndpointSlice // nil: it does not exist yet
	group     *group
	endpoints []discoveryv1.Endpoint
}

func (x *packed) room() int { return maxEndpoints - len(x.endpoints) }

// newPacking sorts the slices by what has to be done with them. Those that are up to
// date keep their endpoints first, the fuller before the emptier: so a workload that
// is in several slices is taken out of those that are written anyway, or that have
// fewer endpoints.
func newPacking(svc *corev1.Service, t discoveryv1.AddressType, groups map[portsKey]*group, existing []*discoveryv1.EndpointSlice) *packing {
	pk := &packing{svc: svc, kind: t, groups: groups, keys: slices.Sorted(maps.Keys(groups))}
	type candidate struct {
		slice    *discoveryv1.EndpointSlice
		group    *group
		upToDate bool
	}
	list := make([]candidate, 0, len(existing))
	for _, s := range existing {
		g := groups[newPortsKey(s.Ports)]
		list = append(list, candidate{s, g, g != nil && pk.isUpToDate(s, g)})
	}
	slices.SortFunc(list, func(a, b candidate) int {
		if a.upToDate != b.upToDate {
			if a.upToDate {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(len(b.slice.Endpoints), len(a.slice.Endpoints)), cmp.Compare(a.slice.Name, b.slice.Name))
	})
	for _, c := range list {
		x := &packed{slice: c.slice, group: c.group}
		whole := x.keep()
		switch {
		case len(x.endpoints) == 0:
			pk.spare = append(pk.spare, x)
		case whole && c.upToDate:
			pk.unchanged = append(pk.unchanged, x)
		default:
			pk.updated = append(pk.updated, x)
		}
	}
	return pk
}

// isUpToDate reports whether all endpoints and labels of a slice are as they should
// be.
func (pk *packing) isUpToDate(s *discoveryv1.EndpointSlice, g *group) bool {
	for i := range s.Endpoints {
		e := &s.Endpoints[i]
		want, ok := g.endpoints[workloadOf(s, e)]
		if !ok || !equality.Semantic.DeepEqual(*e, want) {
			return false
		}
	}
	return maps.Equal(s.Labels, sliceLabels(pk.svc))
}

// keep moves the endpoints that the slice has already from its group to the slice, as
// they should be, and reports whether the slice has no others.
func (x *packed) keep() (whole bool) {
	if x.group == nil {
		return false
	}
	for i := range x.slice.Endpoints {
		name := workloadOf(x.slice, &x.slice.Endpoints[i])
		if e, ok := x.group.endpoints[name]; ok && x.room() > 0 {
			x.endpoints = append(x.endpoints, e)
			delete(x.group.endpoints, name)
		}
	}
	return len(x.endpoints) == len(x.slice.Endpoints)
}

// fill puts new endpoints into the slices that are written anyway, the fullest first.
func (pk *packing) fill() {
	slices.SortStableFunc(pk.updated, func(a, b *packed) int { return cmp.Compare(len(b.endpoints), len(a.endpoints)) })
	for _, x := range pk.updated {
		if x.room() == 0 || len(x.group.endpoints) == 0 {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(x.group.endpoints)) {
			if x.room() == 0 {
				break
			}
			x.endpoints = append(x.endpoints, x.group.endpoints[name])
			delete(x.group.endpoints, name)
		}
	}
}

// addTo turns the packing into writes.
func (pk *packing) addTo(p *plan) {
	for _, x := range pk.created {
		p.create = append(p.create, newSlice(pk.svc, pk.kind, x.group.ports, x.endpoints))
	}
	for _, x := range pk.updated {
		p.update = append(p.update, withContents(x.slice, pk.svc, x.group.ports, x.endpoints))
	}
	for _, x := range pk.spare {
		p.remove = append(p.remove, x.slice)
	}
}

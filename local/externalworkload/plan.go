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

// plan is the writes that bring a Service's slices to what they should be.
type plan struct {
	create, update, remove []*discoveryv1.EndpointSlice
}

// newPlan says what to write, given the workloads that the Service selects and
// its slices as they are. None of them is changed. Endpoints that stay as they
// are stay in their slice, and under that condition there is no plan with fewer
// writes, unless slices name a workload twice. See doc.go. Once ctx ends, the plan
// is of no use.
func newPlan(ctx context.Context, svc *corev1.Service, workloads []*crd.ExternalWorkload, existing []*discoveryv1.EndpointSlice) (plan, problems) {
	var p plan
	var o offer
	var left problems
	if selects(svc) {
		o, left = newOffer(ctx, svc, workloads)
	}
	owned := make(map[discoveryv1.AddressType][]*discoveryv1.EndpointSlice)
	for _, s := range existing {
		if _, ok := o[s.AddressType]; ok && isOwned(s, svc) {
			owned[s.AddressType] = append(owned[s.AddressType], s)
		} else {
			p.remove = append(p.remove, s)
		}
	}
	for _, t := range slices.Sorted(maps.Keys(o)) {
		pk := newPacking(svc, t, o[t], owned[t])
		pk.fill()
		pk.place(pk.chunks())
		pk.addTo(&p)
	}
	if svc.DeletionTimestamp != nil {
		p.create = nil
	}
	return p, left
}

// packing brings the endpoints of one address type into slices.
type packing struct {
	svc    *corev1.Service
	kind   discoveryv1.AddressType
	groups map[portsKey]*group // endpoints leave them as they get a place
	keys   []portsKey          // of the groups, in order

	right []*packed // slices that need no write
	open  []*packed // that must be updated and keep endpoints
	spare []*packed // that keep nothing: to be used anew, or removed
	fresh []*packed // to be created
}

// packed is a slice and what it is to hold.
type packed struct {
	slice     *discoveryv1.EndpointSlice // nil: it does not exist yet
	group     *group
	endpoints []discoveryv1.Endpoint
}

func (x *packed) room() int { return maxEndpoints - len(x.endpoints) }

// newPacking sorts the slices by what has to be done with them. Those that can
// stay as they are choose first what of their endpoints they keep, the fuller
// before the emptier: so a workload that stands in several slices leaves those
// that must be written anyway, or that more are likely to leave.
func newPacking(svc *corev1.Service, t discoveryv1.AddressType, groups map[portsKey]*group, existing []*discoveryv1.EndpointSlice) *packing {
	pk := &packing{svc: svc, kind: t, groups: groups, keys: slices.Sorted(maps.Keys(groups))}
	type candidate struct {
		slice *discoveryv1.EndpointSlice
		group *group
		right bool
	}
	list := make([]candidate, 0, len(existing))
	for _, s := range existing {
		g := groups[newPortsKey(s.Ports)]
		list = append(list, candidate{s, g, g != nil && pk.isRight(s, g)})
	}
	slices.SortFunc(list, func(a, b candidate) int {
		if a.right != b.right {
			if a.right {
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
		case whole && c.right:
			pk.right = append(pk.right, x)
		default:
			pk.open = append(pk.open, x)
		}
	}
	return pk
}

// isRight tells whether all that a slice says is right.
func (pk *packing) isRight(s *discoveryv1.EndpointSlice, g *group) bool {
	for i := range s.Endpoints {
		e := &s.Endpoints[i]
		want, ok := g.endpoints[workloadOf(s, e)]
		if !ok || !equality.Semantic.DeepEqual(*e, want) {
			return false
		}
	}
	return maps.Equal(s.Labels, sliceLabels(pk.svc))
}

// keep takes of its group the endpoints that the slice has already, as they
// should be, and tells whether that is all that it has.
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

// fill puts endpoints into the slices that are written anyway, the fullest first.
func (pk *packing) fill() {
	slices.SortStableFunc(pk.open, func(a, b *packed) int { return cmp.Compare(len(b.endpoints), len(a.endpoints)) })
	for _, x := range pk.open {
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
	for _, x := range pk.fresh {
		p.create = append(p.create, newSlice(pk.svc, pk.kind, x.group.ports, x.endpoints))
	}
	for _, x := range pk.open {
		p.update = append(p.update, changed(x.slice, pk.svc, x.group.ports, x.endpoints))
	}
	for _, x := range pk.spare {
		p.remove = append(p.remove, x.slice)
	}
}

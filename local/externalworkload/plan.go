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

// plan holds the writes that correct a Service's slices, in order of execution.
type plan struct {
	create, update []*discoveryv1.EndpointSlice
	// The move list contains updates that remove endpoints from slices after earlier writes have
	// added the endpoints to other slices.
	move   []*discoveryv1.EndpointSlice
	remove []*discoveryv1.EndpointSlice
	// For each update in the move list, the instead map may contain a replacement. The replacement
	// for an update keeps the endpoints that are to move to other slices. If the API server has
	// rejected any slice, the writer skips the updates in the move list and sends the replacements.
	// An update that may change the ports of a slice has no replacement, because a replacement
	// would apply the new ports to endpoints that need the old ports. Replacements that would not
	// change their slice are omitted.
	instead map[*discoveryv1.EndpointSlice]*discoveryv1.EndpointSlice
}

// newPlan plans the writes for a Service from the workloads that the Service selects and from the
// existing slices. The arguments are not modified. If ctx is canceled, the plan is incomplete.
//
// Unchanged endpoints stay in their slice, and only slices with different contents are written. New
// endpoints go first into slices that must be written anyway, and then into other slices that have
// room. If no slice has room, new endpoints are added to a slice that would otherwise be deleted,
// or else to a new slice. The plan does not move endpoints merely to balance or merge slices.
//
// If endpoints move between slices, the receiving slice is written first, so that no endpoint is
// missing between the two writes. A slice with more than 900 endpoints has no room for 100 more,
// because API servers accept at most 1,000 endpoints in a slice. Endpoints that move from a slice
// with more than 900 endpoints to another slice may therefore be missing temporarily. Isthmus
// itself never creates slices with more than 900 endpoints.
//
// The plan does not create slices for a Service that is being deleted. Existing slices of the
// Service are updated until garbage collection removes them.
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

func (p *plan) pack(
	svc *corev1.Service, t discoveryv1.AddressType, groups map[portsKey]*group, existing []*discoveryv1.EndpointSlice,
) {
	slices.SortFunc(existing, func(a, b *discoveryv1.EndpointSlice) int { // fullest first
		return cmp.Or(cmp.Compare(len(b.Endpoints), len(a.Endpoints)), cmp.Compare(a.Name, b.Name))
	})
	var all []*packed
	var spare []*discoveryv1.EndpointSlice // existing slices that cannot keep any endpoint unless their ports change
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

// place assigns the remaining endpoints to spare slices and to new slices. A spare slice is an
// existing slice that cannot keep any of its endpoints unless the ports of the slice change.
// Endpoints that share a spare slice stay together, and stay in that slice if possible. If the plan
// reuses a spare slice, the slice gets the ports of the endpoints that are assigned to it.
func (p *plan) place(groups map[portsKey]*group, spare []*discoveryv1.EndpointSlice) (all []*packed) {
	home := make(map[string]int) // workload → index of its spare slice, minus len(spare)
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
				x.slice, spare[at] = spare[at], nil // nil if another part uses it
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

// order determines the order in which the slices of one address type are written. If endpoints move
// between slices, the receiving slice is written first.
func (p *plan) order(svc *corev1.Service, t discoveryv1.AddressType, all []*packed) {
	to := make(map[string]*packed) // workload → slice that receives it
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

// writeFirst breaks a cycle of slices that wait for each other. The plan first adds new endpoints
// to the given slice, and later removes endpoints that move to other slices. Updating a spare slice
// would also change the ports of the endpoints that are still in the slice, so the plan replaces
// the spare slice with a new slice. If the Service is being deleted, spare slices are not replaced.
func (p *plan) writeFirst(svc *corev1.Service, x *packed) {
	x.has = true
	switch {
	case !x.spare:
		x.first = true
		if both := x.withMoved(svc); both != nil {
			p.update = append(p.update, both)
		}
	case svc.DeletionTimestamp == nil:
		p.remove = append(p.remove, x.slice)
		x.slice = nil
		x.gives = nil
	}
}

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
		if both := x.withMoved(svc); both != nil && !x.spare && !x.first {
			p.instead[s] = both
		}
	}
}

type packed struct {
	slice     *discoveryv1.EndpointSlice // existing slice; nil to create one
	spare     bool                       // the slice cannot keep any of its endpoints unless its ports change
	group     *group
	endpoints []discoveryv1.Endpoint
	differs   bool
	gives     []discoveryv1.Endpoint // existing endpoints that other slices receive
	begun     bool                   // planning of its write has begun
	first     bool                   // first written with existing and wanted endpoints
	has       bool                   // a planned write adds its endpoints
}

// If the slice already contains endpoints of the group, the keep function leaves up to maxEndpoints
// of them in the slice, and removes those endpoints from the group. If the group is nil, the slice
// keeps no endpoints.
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

// The give method records the endpoints that move from x to other slices, and returns those slices.
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

// withMoved returns the slice with both its wanted endpoints and the endpoints that move to other
// slices. The result has at most maxKept endpoints. If the slice already has these contents, the
// result is nil. An earlier plan may have written the same contents before the API server rejected
// another slice.
func (x *packed) withMoved(svc *corev1.Service) *discoveryv1.EndpointSlice {
	all := slices.Concat(x.endpoints, x.gives)
	both := withContents(x.slice, svc, x.group.ports, all[:min(len(all), maxKept)])
	if sameContents(both, x.slice) {
		return nil
	}
	return both
}

// The order of endpoints does not matter.
func sameContents(a, b *discoveryv1.EndpointSlice) bool {
	sorted := func(s *discoveryv1.EndpointSlice) []discoveryv1.Endpoint {
		return slices.SortedFunc(slices.Values(s.Endpoints), func(x, y discoveryv1.Endpoint) int {
			return cmp.Compare(workloadOf(s, &x), workloadOf(s, &y))
		})
	}
	return maps.Equal(a.Labels, b.Labels) && equality.Semantic.DeepEqual(sorted(a), sorted(b))
}

// maxKept is the maximum number of endpoints that API servers accept in a slice.
const maxKept = 1000

// leftOut collects the reasons why parts of a Service are missing from its slices. The first
// maxProblems reasons are stored, and further reasons are only counted.
type leftOut struct {
	named []string
	more  int
}

func (p *leftOut) add(object, format string, args ...any) {
	if len(p.named) == maxProblems {
		p.more++
		return
	}
	p.named = append(p.named, object+": "+fmt.Sprintf(format, args...))
}

func (p *leftOut) list() []string {
	if p.more == 0 {
		return p.named
	}
	return append(p.named[:len(p.named):len(p.named)], fmt.Sprintf("%d more", p.more))
}

const maxProblems = 10

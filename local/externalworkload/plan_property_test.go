package externalworkload

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"pgregory.net/rapid"

	"isthmus/clusterstore/crd"
)

// TestPlan: from any state of slices, one sync leads to one that a second sync
// does not change, that holds exactly the right endpoints, and by few
// writes: never more than to delete all slices and create them anew, and exactly
// as many as leastWrites returns, which is a lower bound.
//
// Behaviours: EW-31, EW-33, EW-34, EW-35, EW-37.
func TestPlan(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		svc := drawService(rt)
		list := drawWorkloads(rt)
		w := &world{t: t}
		for range rapid.IntRange(0, 3).Draw(rt, "rounds") { // a history: syncs of other times, and edits
			p, _ := newPlan(context.Background(), svc, list, w.slices)
			w.apply(p)
			edit(rt, w)
			changeInputs(rt, svc, list)
			if rapid.Bool().Draw(rt, "fewer") {
				list = list[rapid.IntRange(0, len(list)).Draw(rt, "cut"):]
			}
		}
		var before []*discoveryv1.EndpointSlice
		for _, s := range w.slices {
			before = append(before, s.DeepCopy())
		}
		want := rightEndpoints(svc, list)
		p, _ := newPlan(context.Background(), svc, list, w.slices)
		if !equality.Semantic.DeepEqual(before, w.slices) {
			rt.Fatal("the plan changed the slices it was made of")
		}
		if least, ok := leastWrites(svc, want, before); ok && p.size() != least {
			rt.Errorf("%d writes (%s), the least is %d", p.size(), p, least)
		}
		if all := rewrite(want, before); p.size() > all {
			rt.Errorf("%d writes (%s), a full rewrite takes %d", p.size(), p, all)
		}
		w.apply(p)
		if again, _ := newPlan(context.Background(), svc, list, w.slices); again.size() > 0 {
			rt.Errorf("a second sync writes: %s", again)
		}
		checkSlices(rt, svc, want, w.slices)
		checkStayed(rt, svc, before, w.slices)
	})
}

// placement is an endpoint, and the ports and type of its slice.
type placement struct {
	kind  discoveryv1.AddressType
	ports string
	name  string
}

// rightEndpoints is the reference for newEndpointGroups, for what the test draws.
func rightEndpoints(svc *corev1.Service, list []*crd.ExternalWorkload) map[placement]discoveryv1.Endpoint {
	right := make(map[placement]discoveryv1.Endpoint)
	if svc.Spec.Selector == nil {
		return right
	}
	for _, w := range list {
		for _, f := range svc.Spec.IPFamilies {
			kind, ip := discoveryv1.AddressTypeIPv4, w.Spec.WorkloadIPs[0].IP
			if f == corev1.IPv6Protocol {
				kind, ip = discoveryv1.AddressTypeIPv6, w.Spec.WorkloadIPs[1].IP
			}
			ready := w.Status.Conditions[0].Status == "True"
			right[placement{kind, fmt.Sprint("http=", w.Spec.Ports[0].Port), w.Name}] = discoveryv1.Endpoint{
				Addresses:  []string{ip},
				Conditions: discoveryv1.EndpointConditions{Ready: &ready, Serving: &ready, Terminating: new(false)},
				TargetRef:  &corev1.ObjectReference{Kind: "ExternalWorkload", Namespace: "ns", Name: w.Name, UID: w.UID},
			}
		}
	}
	return right
}

// places lists where a slice puts its endpoints.
func places(s *discoveryv1.EndpointSlice) (list []placement) {
	ports := ""
	for _, p := range s.Ports {
		ports += fmt.Sprint(*p.Name, "=", *p.Port)
	}
	for _, e := range s.Endpoints {
		name := ""
		if e.TargetRef != nil {
			name = e.TargetRef.Name
		}
		list = append(list, placement{s.AddressType, ports, name})
	}
	return list
}

// leastWrites is the least number of writes that bring slices to what they should
// be without moving an endpoint that stays as it is.
//
// Of each address type, a slice with anything wrong needs a write. Of each
// set of ports, slices that are written and keep an endpoint stay; together with any
// other writes they must have all endpoints that are not in unchanged slices, at most
// 100 each. Writing an unchanged slice would cost a write and give less room than a
// new slice. Slices that keep nothing can take any set of ports, or are deleted.
//
// Where a workload is in two slices it matters which one stays, and there is no bound:
// not ok.
func leastWrites(svc *corev1.Service, want map[placement]discoveryv1.Endpoint, before []*discoveryv1.EndpointSlice) (least int, ok bool) {
	seen := make(map[placement]bool)
	for _, s := range before {
		for _, at := range places(s) {
			if seen[at] {
				return 0, false
			}
			seen[at] = true
		}
	}
	written := make(map[discoveryv1.AddressType]int) // wrong slices
	keepers := make(map[placement]int)               // of them, those that keep something; by type and ports
	unplaced := make(map[placement]int)              // endpoints that are not in right slices; likewise
	portsOf := func(at placement) placement { return placement{kind: at.kind, ports: at.ports} }
	for at := range want {
		unplaced[portsOf(at)]++
	}
	for _, s := range before {
		if !owned(svc, s) || !slices.Contains(typesOf(svc), s.AddressType) {
			least++
			continue
		}
		all, kept := places(s), 0
		right := len(all) > 0 && len(all) <= maxEndpoints && maps.Equal(s.Labels, sliceLabels(svc))
		for i, at := range all {
			e, ok := want[at]
			right = right && ok && equality.Semantic.DeepEqual(e, s.Endpoints[i])
			if ok {
				kept++
			}
		}
		if right {
			unplaced[portsOf(all[0])] -= len(all)
			continue
		}
		written[s.AddressType]++
		if kept > 0 {
			keepers[portsOf(all[0])]++
		}
	}
	needed := make(map[discoveryv1.AddressType]int)
	for at, n := range unplaced {
		needed[at.kind] += max(keepers[at], (n+maxEndpoints-1)/maxEndpoints)
	}
	for _, kind := range typesOf(svc) {
		least += max(written[kind], needed[kind])
	}
	return least, true
}

// rewrite is how many writes it takes to delete all slices and create them anew.
func rewrite(want map[placement]discoveryv1.Endpoint, before []*discoveryv1.EndpointSlice) int {
	count := make(map[placement]int)
	for at := range want {
		count[placement{kind: at.kind, ports: at.ports}]++
	}
	n := len(before)
	for _, c := range count {
		n += (c + maxEndpoints - 1) / maxEndpoints
	}
	return n
}

func checkSlices(rt *rapid.T, svc *corev1.Service, want map[placement]discoveryv1.Endpoint, now []*discoveryv1.EndpointSlice) {
	found := make(map[placement]discoveryv1.Endpoint)
	for _, s := range now {
		if len(s.Endpoints) == 0 || len(s.Endpoints) > maxEndpoints || !owned(svc, s) || !maps.Equal(s.Labels, sliceLabels(svc)) {
			rt.Errorf("slice %s has %d endpoints, labels %v and owners %v", s.Name, len(s.Endpoints), s.Labels, s.OwnerReferences)
		}
		for i, at := range places(s) {
			if _, ok := found[at]; ok {
				rt.Errorf("%v twice", at)
			}
			found[at] = s.Endpoints[i]
		}
	}
	if !maps.EqualFunc(found, want, func(a, b discoveryv1.Endpoint) bool { return equality.Semantic.DeepEqual(a, b) }) {
		rt.Errorf("endpoints\n%v\nwant\n%v", found, want)
	}
}

// checkStayed: what was right, and once only, is in the slice that it was in.
func checkStayed(rt *rapid.T, svc *corev1.Service, before, after []*discoveryv1.EndpointSlice) {
	home := make(map[placement]string)
	for _, s := range before {
		for _, at := range places(s) {
			_, twice := home[at]
			if twice || len(s.Endpoints) > maxEndpoints || !owned(svc, s) {
				home[at] = ""
			} else {
				home[at] = s.Name
			}
		}
	}
	for _, s := range after {
		for _, at := range places(s) {
			if was := home[at]; was != "" && was != s.Name {
				rt.Errorf("%v has moved from %s to %s", at, was, s.Name)
			}
		}
	}
}

func owned(svc *corev1.Service, s *discoveryv1.EndpointSlice) bool {
	return len(s.OwnerReferences) > 0 && s.OwnerReferences[0].UID == svc.UID
}

func typesOf(svc *corev1.Service) (list []discoveryv1.AddressType) {
	if svc.Spec.Selector == nil {
		return nil
	}
	for _, f := range svc.Spec.IPFamilies {
		list = append(list, discoveryv1.AddressType(f))
	}
	return list
}

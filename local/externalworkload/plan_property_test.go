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
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"isthmus/clusterstore/decode"
)

// TestPlan checks that one sync corrects slices in any state. Afterwards, slices contain exactly
// the right endpoints, and a second sync changes nothing. A sync never needs more writes than
// replacing all slices. No endpoint is missing between writes.
//
// Behaviours: EW-31, EW-33, EW-34, EW-35, EW-37.
func TestPlan(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		svc := drawService(rt)
		list := drawWorkloads(rt)
		w := &world{t: t}
		for range rapid.IntRange(0, 3).Draw(rt, "rounds") { // the history consists of earlier syncs and edits
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
			rt.Fatal("newPlan changed its input slices")
		}
		if all := rewrite(want, before); p.size() > all {
			rt.Errorf("%d writes (%s), but replacing all slices needs %d", p.size(), p, all)
		}
		stay := make(map[placement]bool)
		for at := range want {
			at.ports = ""
			stay[at] = slices.Contains(anyPorts(before), at)
		}
		w.apply(p, func() {
			there := anyPorts(w.slices)
			for at, stays := range stay {
				if stays && !slices.Contains(there, at) {
					rt.Fatalf("%v is in no slice between two writes", at)
				}
			}
		})
		if again, _ := newPlan(context.Background(), svc, list, w.slices); again.size() > 0 {
			rt.Errorf("a second sync writes: %s", again)
		}
		checkSlices(rt, svc, want, w.slices)
		checkStayed(rt, svc, before, w.slices)
	})
}

// placement identifies an endpoint together with the ports and type of its slice.
type placement struct {
	kind  discoveryv1.AddressType
	ports string
	name  string
}

// rightEndpoints is the reference for newEndpointGroups, limited to the objects that the test
// draws.
func rightEndpoints(svc *corev1.Service, list []*decode.ExternalWorkload) map[placement]discoveryv1.Endpoint {
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
			right[placement{
				kind, fmt.Sprint(svc.Spec.Ports[0].Name, "=", w.Spec.Ports[0].Port), w.Name,
			}] = discoveryv1.Endpoint{
				Addresses:  []string{ip},
				Conditions: discoveryv1.EndpointConditions{Ready: &ready, Serving: &ready, Terminating: new(false)},
				TargetRef: &corev1.ObjectReference{
					Kind:      "ExternalWorkload",
					Namespace: "ns",
					Name:      w.Name,
					UID:       w.UID,
				},
			}
		}
	}
	return right
}

// places returns the placements of the endpoints of a slice.
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

// anyPorts returns the placements in all slices, without ports.
func anyPorts(all []*discoveryv1.EndpointSlice) (list []placement) {
	for _, s := range all {
		for _, at := range places(s) {
			at.ports = ""
			list = append(list, at)
		}
	}
	return list
}

// rewrite returns the number of writes needed to delete all slices and create them again.
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

func checkSlices(
	rt *rapid.T, svc *corev1.Service, want map[placement]discoveryv1.Endpoint, now []*discoveryv1.EndpointSlice,
) {
	found := make(map[placement]discoveryv1.Endpoint)
	for _, s := range now {
		if len(s.Endpoints) == 0 || len(s.Endpoints) > maxEndpoints || !owned(svc, s) ||
			!maps.Equal(s.Labels, sliceLabels(svc)) {
			rt.Errorf(
				"slice %s has %d endpoints, labels %v and owners %v",
				s.Name,
				len(s.Endpoints),
				s.Labels,
				s.OwnerReferences,
			)
		}
		for i, at := range places(s) {
			if _, ok := found[at]; ok {
				rt.Errorf("duplicate endpoint %v", at)
			}
			found[at] = s.Endpoints[i]
		}
	}
	if !maps.EqualFunc(found, want, func(a, b discoveryv1.Endpoint) bool { return equality.Semantic.DeepEqual(a, b) }) {
		rt.Errorf("endpoints\n%v\nwant\n%v", found, want)
	}
}

// checkStayed checks that endpoints that were right, and in one slice only, stay in that slice.
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
				rt.Errorf("%v moved from %s to %s", at, was, s.Name)
			}
		}
	}
}

func owned(svc *corev1.Service, s *discoveryv1.EndpointSlice) bool {
	return len(s.OwnerReferences) > 0 && s.OwnerReferences[0].UID == svc.UID
}

func drawService(rt *rapid.T) *corev1.Service {
	f := rapid.SampledFrom([][]corev1.IPFamily{
		{corev1.IPv4Protocol},
		{corev1.IPv6Protocol},
		{corev1.IPv4Protocol, corev1.IPv6Protocol},
	}).Draw(rt, "families")
	return families(aService("web", "http=80/http"), f...)
}

func drawWorkloads(rt *rapid.T) (list []*decode.ExternalWorkload) {
	ports := rapid.SampledFrom([]int{1, 1, 2, 5}).Draw(rt, "ports")
	for i := range rapid.OneOf(rapid.IntRange(0, 20), rapid.IntRange(90, 320)).Draw(rt, "workloads") {
		list = append(list, aWorkload(
			fmt.Sprintf("vm-%03d", i),
			fmt.Sprintf("10.0.%d.%d,2001:db8::%x", i/200, i%200+1, i+1),
			fmt.Sprint("http=", 8080+i%ports),
		))
	}
	return list
}

// edit makes random changes that other clients may make to slices.
func edit(rt *rapid.T, w *world) {
	for range rapid.IntRange(0, 4).Draw(rt, "edits") {
		if len(w.slices) == 0 {
			return
		}
		i := rapid.IntRange(0, len(w.slices)-1).Draw(rt, "slice")
		s := w.slices[i]
		switch rapid.IntRange(0, 8).Draw(rt, "edit") {
		case 0:
			w.slices = slices.Delete(w.slices, i, i+1)
		case 1:
			s.Labels["team"] = "red"
		case 2:
			s.OwnerReferences = nil
		case 3:
			s.Endpoints = s.Endpoints[:rapid.IntRange(0, len(s.Endpoints)).Draw(rt, "left")]
		case 4:
			s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{"10.9.9.9"}})
		case 5:
			if len(s.Endpoints) > 0 {
				s.Endpoints[len(s.Endpoints)/2].Addresses = []string{"10.9.9.9"}
			}
		case 6:
			if len(s.Ports) > 0 {
				s.Ports[0].Port = new(int32(rapid.IntRange(8080, 8086).Draw(rt, "port")))
			}
		case 7: // like a create request that was retried
			duplicate := s.DeepCopy()
			w.names++
			duplicate.Name = fmt.Sprint("duplicate-", w.names)
			duplicate.Endpoints = duplicate.Endpoints[:rapid.IntRange(0, len(s.Endpoints)).Draw(rt, "of duplicate")]
			w.slices = append(w.slices, duplicate)
		case 8:
			for range rapid.IntRange(0, 150).Draw(rt, "overfull") {
				s.Endpoints = append(
					s.Endpoints, w.slices[rapid.IntRange(0, len(w.slices)-1).Draw(rt, "from")].Endpoints...,
				)
				if len(s.Endpoints) > 300 {
					break
				}
			}
		}
	}
}

// changeInputs makes random changes to the Service and its workloads.
func changeInputs(rt *rapid.T, svc *corev1.Service, list []*decode.ExternalWorkload) {
	for range rapid.IntRange(0, 5).Draw(rt, "changes") {
		w := &decode.ExternalWorkload{}
		if len(list) > 0 {
			w = rapid.SampledFrom(list).Draw(rt, "workload")
		}
		switch rapid.IntRange(0, 8).Draw(rt, "change") {
		case 0:
			svc.Labels = map[string]string{"team": rapid.SampledFrom([]string{"blue", "green"}).Draw(rt, "team")}
		case 1:
			svc.Spec.IPFamilies = drawService(rt).Spec.IPFamilies
		case 2:
			if rapid.IntRange(0, 3).Draw(rt, "selector") == 0 {
				svc.Spec.Selector = nil
			}
		case 3:
			for i := range w.Spec.Ports {
				w.Spec.Ports[i].Port++
			}
		case 4:
			w.UID += types.UID("x")
		case 5:
			for i := range w.Status.Conditions {
				w.Status.Conditions[i].Status = "False"
			}
		case 6:
			svc.UID += "x"
		case 7:
			svc.Spec.Ports[0].Name = rapid.SampledFrom([]string{"http", "web"}).Draw(rt, "name")
		case 8: // two workloads exchange ports
			if len(list) > 0 {
				other := rapid.SampledFrom(list).Draw(rt, "other")
				w.Spec.Ports, other.Spec.Ports = other.Spec.Ports, w.Spec.Ports
			}
		}
	}
}

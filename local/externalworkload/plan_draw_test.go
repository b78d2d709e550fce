package externalworkload

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"isthmus/clusterstore/decode"
)

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

// edit is what others may do to slices.
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
		case 7: // as a create that was tried twice
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

// changeInputs is what may happen to the Service and its workloads.
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
		case 8: // two exchange ports
			if len(list) > 0 {
				other := rapid.SampledFrom(list).Draw(rt, "other")
				w.Spec.Ports, other.Spec.Ports = other.Spec.Ports, w.Spec.Ports
			}
		}
	}
}

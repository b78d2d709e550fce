package externalworkload

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"isthmus/clusterstore/crd"
)

// TestContentsDiffer: which changes of a workload change its endpoints.
func TestContentsDiffer(t *testing.T) {
	for _, x := range []struct {
		name   string
		change func(*crd.ExternalWorkload)
		want   bool
	}{
		{"EW-13 none", func(*crd.ExternalWorkload) {}, false},
		{"EW-14 an IP more", func(w *crd.ExternalWorkload) {
			w.Spec.WorkloadIPs = append(w.Spec.WorkloadIPs, crd.WorkloadIP{IP: "10.0.0.3"})
		}, true},
		{"EW-15 an IP less", func(w *crd.ExternalWorkload) { w.Spec.WorkloadIPs = w.Spec.WorkloadIPs[:1] }, true},
		{"EW-16 another IP", func(w *crd.ExternalWorkload) { w.Spec.WorkloadIPs[0].IP = "10.0.0.3" }, true},
		{"EW-17 a port more", func(w *crd.ExternalWorkload) { w.Spec.Ports = append(w.Spec.Ports, crd.PortSpec{Port: 1}) }, true},
		{"EW-18 a port less", func(w *crd.ExternalWorkload) { w.Spec.Ports = w.Spec.Ports[:1] }, true},
		{"EW-19 another port number", func(w *crd.ExternalWorkload) { w.Spec.Ports[0].Port = 1 }, true},
		{"EW-20 another port name", func(w *crd.ExternalWorkload) { w.Spec.Ports[0].Name = "other" }, true},
		{"EW-21 a port name less", func(w *crd.ExternalWorkload) { w.Spec.Ports[0].Name = "" }, true},
		{"another protocol", func(w *crd.ExternalWorkload) { w.Spec.Ports[0].Protocol = "UDP" }, true},
		{"not ready", func(w *crd.ExternalWorkload) { unready(w) }, true},
		{"another zone", func(w *crd.ExternalWorkload) { w.Labels[corev1.LabelTopologyZone] = "zone-a" }, true},
		{"made anew", func(w *crd.ExternalWorkload) { w.UID = "another" }, true},
		{"unreadable", func(w *crd.ExternalWorkload) { w.Invalid = "spec: no" }, true},
		{"a label", func(w *crd.ExternalWorkload) { w.Labels["team"] = "blue" }, false},
		{"identity", func(w *crd.ExternalWorkload) { w.Spec.MeshTLS.Identity = "x" }, false},
		{"another condition", func(w *crd.ExternalWorkload) {
			w.Status.Conditions = append(w.Status.Conditions, crd.WorkloadCondition{Type: "Healthy", Status: "False"})
		}, false},
	} {
		make := func() *crd.ExternalWorkload { return aWorkload("vm-1", "10.0.0.1,10.0.0.2", "http=8080", "db=3306") }
		before, after := make(), make()
		x.change(after)
		if got := contentsDiffer(before, after); got != x.want {
			t.Errorf("%s: %t", x.name, got)
		}
	}
}

// TestConcerned: which Services a workload's change concerns.
func TestConcerned(t *testing.T) {
	blue, red := map[string]string{"app": "vm", "team": "blue"}, map[string]string{"app": "vm", "team": "red"}
	redInZone := map[string]string{"app": "vm", "team": "red", corev1.LabelTopologyZone: "zone-a"}
	vm := func(labels map[string]string, ip string) *crd.ExternalWorkload {
		w := aWorkload("vm-1", ip, "8080")
		w.Labels = labels
		return w
	}
	for _, x := range []struct {
		name          string
		before, after *crd.ExternalWorkload
		want          string
	}{
		{"new", nil, vm(blue, "10.0.0.1"), "all blue"},
		{"gone", vm(red, "10.0.0.1"), nil, "all red"},
		{"EW-22 the same", vm(blue, "10.0.0.1"), vm(blue, "10.0.0.1"), ""},
		{"EW-23 labels and addresses", vm(blue, "10.0.0.1"), vm(red, "10.0.0.2"), "all blue red"},
		{"EW-24 addresses", vm(blue, "10.0.0.1"), vm(blue, "10.0.0.2"), "all blue"},
		{"EW-25 labels", vm(blue, "10.0.0.1"), vm(red, "10.0.0.1"), "blue red"},
		{"EW-25 labels and zone", vm(blue, "10.0.0.1"), vm(redInZone, "10.0.0.1"), "all blue red"},
	} {
		term := newTestTerm(t)
		for name, selector := range map[string]map[string]string{"all": {"app": "vm"}, "blue": {"team": "blue"}, "red": {"team": "red"}, "none": nil, "empty": {}} {
			svc := aService(name, "80/8080")
			svc.Spec.Selector = selector
			term.add(svc)
		}
		elsewhere := aService("elsewhere", "80/8080")
		elsewhere.Namespace = "other"
		term.add(elsewhere)
		term.add(external(aService("external", "80/8080")))
		var got []string
		for _, name := range term.concerned(x.before, x.after) {
			got = append(got, name.Name)
		}
		slices.Sort(got)
		if got := strings.Join(got, " "); got != x.want {
			t.Errorf("%s: %q, want %q", x.name, got, x.want)
		}
	}
}

// TestDeletionUnseen: a deletion that the informer missed has the object's last state.
func TestDeletionUnseen(t *testing.T) {
	svc := aService("web")
	for _, o := range []any{svc, cache.DeletedFinalStateUnknown{Key: "ns/web", Obj: svc}} {
		if got, ok := objectOf[*corev1.Service](o); !ok || got != svc {
			t.Errorf("%T: %v, %t", o, got, ok)
		}
	}
	for _, o := range []any{nil, "x", cache.DeletedFinalStateUnknown{Key: "ns/web", Obj: nil}} {
		if got, ok := objectOf[*corev1.Service](o); ok {
			t.Errorf("%T: %v", o, got)
		}
	}
}

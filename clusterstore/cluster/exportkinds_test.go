package cluster

import (
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	mcs "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"isthmus/local/exports/plan"
)

func aServiceExport(name string) *mcs.ServiceExport {
	return &mcs.ServiceExport{ObjectMeta: inNS(name), Spec: mcs.ServiceExportSpec{ExportedLabels: map[string]string{"tier": "gold"}}}
}

func aServiceImport(name string, labels ...string) *mcs.ServiceImport {
	o := &mcs.ServiceImport{ObjectMeta: inNS(name), Spec: mcs.ServiceImportSpec{Type: mcs.ClusterSetIP, IPs: []string{"10.0.0.1"}}}
	for _, key := range labels {
		o.Labels = with(o.Labels, key, "x")
	}
	return o
}

// TestServiceExports: they are joined with the Services of their names, in whatever order they come, and only what matters is reported.
func TestServiceExports(t *testing.T) {
	changes := 0
	w := newWorld(t, exportingAll(&changes))
	expect := func(reported int, want string) {
		t.Helper()
		if got := w.Exports().text(); got != want || changes != reported {
			t.Errorf("%s after %d reports, want %s after %d", got, changes, want, reported)
		}
		changes = 0
	}
	w.put(aServiceExport("web"), aServiceExport("later"))
	expect(2, "unknown") // without the Services
	w.put(labelled("web", "federated=1"), labelled("plain"), labelled("other"))
	expect(1, "ns/later exported without Service, ns/web federated exported, read")
	w.put(aServiceExport("plain"), labelled("later"))
	const all = "ns/later exported, ns/plain exported, ns/web federated exported, read"
	expect(2, all)
	other := labelled("other", "team=x")
	other.Spec.Type = corev1.ServiceTypeNodePort
	w.put(other, labelled("new"), labelled("plain", "team=x"))
	w.put(aServiceExport("plain"))
	expect(0, all)
	going := aServiceExport("web")
	going.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	w.put(going)
	expect(1, "ns/later exported, ns/plain exported, ns/web federated, read")
	w.del(labelled("later"), aServiceExport("plain"))
	expect(2, "ns/later exported without Service, ns/web federated, read")
	w.del(aServiceExport("later"), labelled("plain"), labelled("web"), labelled("other"), labelled("new"))
	if x := w.state.exports; len(x.serviceExports)+w.state.size() > 0 {
		t.Errorf("left behind: %+v", x)
	}
}

// TestServiceExportFields: of a Service that is exported by a ServiceExport only, no more is kept than ServiceImports need; what was
// written for exports is known to be.
func TestServiceExportFields(t *testing.T) {
	w := newWorld(t, exportingAll(new(int)))
	s := labelled("web", "team=x")
	s.UID, s.Annotations = "u", map[string]string{"retry.linkerd.io/http": "5xx", "linkerd.io/other": "x"}
	s.Spec.ClusterIPs, s.Spec.SessionAffinity, s.Spec.TrafficDistribution = []string{"10.0.0.1", "fd00::1"}, corev1.ServiceAffinityClientIP, new("PreferClose")
	s.Spec.InternalTrafficPolicy = new(corev1.ServiceInternalTrafficPolicyLocal)
	s.Spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: new(int32(7))}}
	export := aServiceExport("web")
	export.Status.Conditions = []metav1.Condition{{Type: "Valid"}}
	w.put(s, labelled("web-west", "mirror.linkerd.io/mirrored-service=true", "team=x"), export, aServiceExport("web-west"))
	want := map[string]plan.Service{
		"web": {
			Type: "ClusterIP", ClusterIPs: []string{"10.0.0.1"}, Annotations: map[string]string{"retry.linkerd.io/http": "5xx"},
			Traffic: plan.Traffic{SessionAffinity: "ClientIP", AffinitySeconds: 7, InternalTrafficPolicy: "Local", TrafficDistribution: "PreferClose"},
		},
		"web-west": {Type: "ClusterIP", Labels: map[string]string{"mirror.linkerd.io/mirrored-service": "true"}, Traffic: plan.Traffic{SessionAffinity: "None"}},
	}
	for _, e := range w.Exports().List {
		s := want[e.Name]
		s.ID, s.Ports = e.ID, []plan.Port{{Name: "http", Protocol: "TCP", Number: 80, Target: "80"}}
		if !reflect.DeepEqual(*e.Service, s) {
			t.Errorf("got  %#v\nwant %#v", *e.Service, s)
		}
		if e.Exported.Labels["tier"] != "gold" || len(e.Exported.Conditions) > 0 {
			t.Errorf("%+v", e.Exported)
		}
		delete(want, e.Name)
	}
	if len(want) > 0 {
		t.Errorf("missing: %v", want)
	}
}

// TestOwnImports: of the local cluster ServiceImports are known, in whole if a gateway wrote them, and conditions of ServiceExports.
func TestOwnImports(t *testing.T) {
	changes := 0
	w := newWorld(t, func(c *Config) { withAddresses(c); exportingAll(&changes)(c) })
	export := aServiceExport("web")
	export.Status.Conditions = []metav1.Condition{{Type: "Valid"}}
	w.put(labelled("web"), aNamespace("ns"), export)
	x := w.Exports()
	if got := x.text(); got != "namespace ns, ns/web exported, ns/web there, read" || x.Imports != nil || x.MCSVersion != "" || len(x.List[0].Exported.Conditions) != 1 {
		t.Errorf("%s, %+v", got, x)
	}
	changes = 0
	ours := aServiceImport("web", "isthmus.io/written-by", "team")
	theirs := aServiceImport("api", "team")
	theirs.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "agent", Subresource: "status"}, {Manager: "cilium"}}
	w.put(ours, theirs)
	const all = "import ns/api with 0, import ns/web with 2, namespace ns, ns/web exported, ns/web there, read"
	if x := w.Exports(); x.text() != all || x.MCSVersion != "v1beta1" || x.Imports[plan.ID{Namespace: "ns", Name: "api"}].Manager != "cilium" || changes != 2 || len(x.Imports[plan.ID{Namespace: "ns", Name: "web"}].IPs) != 1 {
		t.Errorf("%s after %d reports, %+v", x.text(), changes, x)
	}
	ours.ResourceVersion = "7"
	before := w.Exports()
	changes = 0
	w.del(aServiceImport("api"))
	w.put(ours)
	if x := w.Exports(); changes != 1 || x.text() != "import ns/web with 2, namespace ns, ns/web exported, ns/web there, read" || len(before.Imports) != 2 {
		t.Errorf("%s; before %s", x.text(), before.text())
	}
	w.cfg.Client.Sources.MCSVersion = func() string { return "v1alpha1" }
	w.put(ours)
	if x := w.Exports(); x.MCSVersion != "v1alpha1" || len(x.Imports) != 1 {
		t.Errorf("once another version is read: %q, %s", x.MCSVersion, x.text())
	}
}

// TestServiceExportsForbidden: exports by labels do not wait for ServiceExports, which are there soon after the right is. What was read
// stays when it is taken away again.
func TestServiceExportsForbidden(t *testing.T) {
	inCluster(t, func(c *Config, tr *fakeAPI) {
		exportingAll(new(int))(c)
		tr.set("* serviceexports", forbidden("serviceexports"))
	}, func(r *running) {
		if got := r.Exports().text(); !r.isSynced() || got != "ns/web mirror" {
			t.Fatalf("exports %s", got)
		}
		if h := r.resource("serviceexports"); r.Health().Err != nil || h.Err == "" || h.Needed {
			t.Errorf("%+v, %v", h, r.Health().Err)
		}
		r.create(aServiceExport("web"))
		time.Sleep(time.Hour)
		r.api.set("* serviceexports", nil)
		const all = "ns/web mirror exported, read"
		r.until("ServiceExports are read", time.Minute, func() bool { return r.Exports().text() == all })
		r.api.set("* serviceexports", forbidden("serviceexports"))
		r.api.cut()
		for range 100 {
			time.Sleep(time.Minute)
			if got := r.Exports().text(); got != all {
				t.Fatalf("while they are forbidden again: %s", got)
			}
		}
	}, labelled("web", "mirror=1"))
}

// TestServiceExportsAbsent: a cluster without the kind, before it is installed and after it has been removed, which shows in one step. An
// answer that discovery does not confirm removes nothing.
func TestServiceExportsAbsent(t *testing.T) {
	var seen []string
	inCluster(t, func(c *Config, tr *fakeAPI) {
		exportingAll(new(int))(c)
		tr.set("* serviceexports", apierrors.NewNotFound(schema.GroupResource{Resource: "serviceexports"}, ""))
	}, func(r *running) {
		r.cfg.Exports.Changed = func() { seen = append(seen, r.Exports().text()) }
		if got := r.Exports().text(); !r.isSynced() || got != "emptied, ns/web mirror" {
			t.Fatalf("exports %s", got)
		}
		r.create(aServiceExport("web"))
		r.create(aServiceExport("api"))
		r.api.set("* serviceexports", nil)
		const all = "ns/api exported without Service, ns/web mirror exported, read"
		r.until("the kind is found", 10*time.Second, func() bool { return r.Exports().text() == all })
		r.api.set("discover serviceexports", errors.New("no discovery"))
		r.api.set("* serviceexports", apierrors.NewNotFound(schema.GroupResource{Resource: "serviceexports"}, ""))
		r.api.cut()
		time.Sleep(time.Hour)
		if got := r.Exports().text(); got != all {
			t.Fatalf("while it is not known whether the kind is gone: %s", got)
		}
		seen = nil
		r.api.set("discover serviceexports", nil)
		r.until("it is", time.Minute, func() bool { return r.Exports().text() == "emptied, ns/web mirror" })
		time.Sleep(time.Hour)
		if got := slices.Compact(seen); len(got) > 2 || got[len(got)-1] != "emptied, ns/web mirror" {
			t.Errorf("seen meanwhile: %q", got)
		}
	}, labelled("web", "mirror=1"))
}

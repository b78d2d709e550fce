package exports

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcs "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"isthmus/clusterstore"
	"isthmus/clusterstore/cluster"
	"isthmus/federation"
	"isthmus/local/exports/plan"
)

// labelSelects returns a selector of the Services with the label key.
func labelSelects(key string) func(map[string]string) bool {
	return func(labels map[string]string) bool { return labels[key] != "" }
}

// newCatalog returns a Catalog that exports Services with the label mirror or federated.
func newCatalog(serviceExports bool) *Catalog {
	return NewCatalog(CatalogOptions{
		Selectors: func(string) plan.Selectors {
			return plan.Selectors{Mirror: labelSelects("mirror"), Federated: labelSelects("federated")}
		},
		ServiceExports: serviceExports,
	})
}

func shopMeta(name string, labels ...string) metav1.ObjectMeta {
	m := metav1.ObjectMeta{Namespace: "shop", Name: name}
	for _, pair := range labels {
		if m.Labels == nil {
			m.Labels = make(map[string]string)
		}
		key, value, _ := strings.Cut(pair, "=")
		m.Labels[key] = value
	}
	return m
}

func aService(name string, labels ...string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: shopMeta(name, labels...),
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "http", Port: 80}}},
	}
}

// record returns the result of a cluster's hooks for a Service and a ServiceExport. Either may be
// nil.
func record(hooks cluster.ExportHooks, service *corev1.Service, export *mcs.ServiceExport) cluster.Export {
	var one cluster.Export
	if service != nil {
		one.ID = federation.ServiceID{Namespace: service.Namespace, Name: service.Name}
		one.Service = hooks.Service(service)
	}
	if export != nil {
		one.ID = federation.ServiceID{Namespace: export.Namespace, Name: export.Name}
		one.ServiceExport = hooks.ServiceExport(export)
	}
	return one
}

// TestReadWhole checks that a Service that is exported by its labels is cached with all labels and
// annotations except excluded ones. Excluded marks of written Services are cached too.
func TestReadWhole(t *testing.T) {
	c := NewCatalog(CatalogOptions{Selectors: func(string) plan.Selectors {
		return plan.Selectors{
			Mirror:              func(map[string]string) bool { return true },
			ExcludedLabels:      func(key string) bool { return key != "keep" },
			ExcludedAnnotations: func(key string) bool { return strings.HasPrefix(key, "retry") },
		}
	}})
	web := aService("web", "keep=1", "drop=2")
	web.UID = "u"
	web.Annotations = map[string]string{"retry.linkerd.io/http": "5xx", "config.linkerd.io/opaque-ports": "80"}
	web.Spec.Ports[0].AppProtocol = new("kubernetes.io/h2c")
	for want, service := range map[string]*corev1.Service{
		`u map[keep:1] map[config.linkerd.io/opaque-ports:80] [{http TCP kubernetes.io/h2c 80 80}]`: web,
		` map[isthmus.io/written-by:linkerd keep:1] map[] [{http TCP  80 80}]`: aService(
			"loop", "isthmus.io/written-by=linkerd", "keep=1",
		),
	} {
		e := c.hooks("east").Service(service).(*plan.Export)
		got := fmt.Sprintf("%s %v %v %v", e.Service.UID, e.Service.Labels, e.Service.Annotations, e.Service.Ports)
		if got != want || !e.Mirror || e.Service.Traffic != (plan.Traffic{}) {
			t.Errorf("%s: %s, want %s; %+v", e.Name, got, want, e)
		}
	}
}

// TestReadReduced checks that a Service without matching labels is cached with only the fields that
// ServiceImports need. The cached value still shows whether Isthmus wrote the Service.
func TestReadReduced(t *testing.T) {
	hooks := newCatalog(true).hooks("east")
	web := aService("web", "team=x")
	web.UID = "u"
	web.Annotations = map[string]string{"retry.linkerd.io/http": "5xx", "linkerd.io/other": "x"}
	web.Spec.ClusterIPs = []string{"10.0.0.1", "fd00::1"}
	web.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
	web.Spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{
		ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: new(int32(7))},
	}
	web.Spec.TrafficDistribution = new("PreferClose")
	web.Spec.InternalTrafficPolicy = new(corev1.ServiceInternalTrafficPolicyLocal)
	want := plan.Service{
		ID: plan.ID{Namespace: "shop", Name: "web"}, Type: "ClusterIP", ClusterIPs: []string{"10.0.0.1"},
		Annotations: map[string]string{"retry.linkerd.io/http": "5xx"},
		Ports:       []plan.Port{{Name: "http", Protocol: "TCP", Number: 80, Target: "80"}},
		Traffic: plan.Traffic{
			SessionAffinity:       "ClientIP",
			AffinitySeconds:       7,
			InternalTrafficPolicy: "Local",
			TrafficDistribution:   "PreferClose",
		},
	}
	if got := hooks.Service(web).(*plan.Export).Service; !reflect.DeepEqual(*got, want) {
		t.Errorf("got  %#v\nwant %#v", *got, want)
	}

	mirror := aService("web-west", "mirror.linkerd.io/mirrored-service=true", "team=x")
	if got := hooks.Service(mirror).(*plan.Export).Service.Labels; len(got) != 1 || !plan.IsWritten(got) {
		t.Errorf("the cached mirror has the labels %v", got)
	}
	for name, listed := range map[string]bool{"": true, "east": false} {
		hooks := newCatalog(true).hooks(name)
		if hooks.Listed(hooks.Service(mirror)) != listed {
			t.Errorf("the cached mirror in cluster %q: Listed is not %v", name, listed)
		}
	}
	if value := newCatalog(false).hooks("east").Service(web); value != nil {
		t.Errorf("without ServiceExports, a Service that is not exported is cached as %+v", value)
	}
}

// TestReadMCS checks which fields of ServiceExports and ServiceImports are cached. Conditions are
// cached for the local cluster only. For ServiceImports of other programs, only the manager is
// cached.
func TestReadMCS(t *testing.T) {
	export := &mcs.ServiceExport{
		ObjectMeta: shopMeta("web"),
		Status:     mcs.ServiceExportStatus{Conditions: []metav1.Condition{{Type: "Valid"}}},
	}
	for name, conditions := range map[string]int{"": 1, "east": 0} {
		got := newCatalog(true).hooks(name).ServiceExport(export).(*plan.ServiceExport)
		if len(got.Conditions) != conditions {
			t.Errorf("cluster %q: %d conditions", name, len(got.Conditions))
		}
	}

	hook := newCatalog(true).hooks("").ServiceImport
	o := &mcs.ServiceImport{
		ObjectMeta: shopMeta("web", "team=x"),
		Spec:       mcs.ServiceImportSpec{IPs: []string{"10.0.0.1"}},
	}
	o.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "agent", Subresource: "status"}, {Manager: "cilium"}}
	if got := hook(o).(*plan.ServiceImport); got.Manager != "cilium" || got.Name != "web" || got.Labels != nil ||
		got.IPs != nil {
		t.Errorf("theirs: %+v", got)
	}
	o.Labels["isthmus.io/written-by"] = "linkerd"
	if got := hook(o).(*plan.ServiceImport); len(got.Labels) != 2 || len(got.IPs) != 1 {
		t.Errorf("ours: %+v", got)
	}
}

// TestWorld checks the World built from two synced clusters. The test also checks that the World is
// unknown until Namespaces and link Secrets are listed.
func TestWorld(t *testing.T) {
	c := newCatalog(true)
	local, east := c.hooks(""), c.hooks("east")
	export := func(name string) *mcs.ServiceExport { return &mcs.ServiceExport{ObjectMeta: shopMeta(name)} }
	all := []clusterstore.ClusterExports{
		{Exports: &cluster.CachedExports{
			ServiceExports: true,
			List: []cluster.Export{
				record(local, aService("api", "federated=1"), nil),
				record(local, aService("web-east", "isthmus.io/written-by=linkerd"), nil),
				record(local, aService("plain"), export("plain")),
			},
		}},
		{
			Name:         "east",
			Domain:       "cluster.test",
			OtherNetwork: true,
			Settings:     plan.LinkSettings{Joins: plan.OnlyMirror},
			Exports: &cluster.CachedExports{List: []cluster.Export{
				record(east, aService("web", "mirror=1"), export("web")),
				record(east, nil, export("later")),
			}},
		},
		{Name: "west", Exports: &cluster.CachedExports{}},
	}
	if _, known := c.World(all, true); known {
		t.Error("the World is known without the local cluster's Namespaces")
	}
	all[0].Exports.Namespaces = map[string]bool{"shop": true}
	if _, known := c.World(all, false); known {
		t.Error("the World is known without link Secrets")
	}

	w, known := c.World(all, true)
	if !known || len(w.Clusters) != 3 || len(w.Services) != 2 ||
		w.Service(plan.ID{Namespace: "shop", Name: "web-east"}) == nil {
		t.Fatalf("known: %v, %+v", known, w)
	}
	var got []string
	for _, of := range w.Clusters {
		for _, e := range of.Exports {
			got = append(got, fmt.Sprintf(
				"%s:%s mirror=%v federated=%v export=%v service=%v",
				of.Name, e.Name, e.Mirror, e.Federated, e.Exported != nil, e.Service != nil))
		}
	}
	want := []string{
		":api mirror=false federated=true export=false service=true",
		":plain mirror=false federated=false export=true service=true",
		"east:web mirror=true federated=false export=true service=true",
		"east:later mirror=false federated=false export=true service=false",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("exports %q, want %q", got, want)
	}
	of := w.Clusters[1]
	if !of.Synced || of.Joins != plan.OnlyMirror || of.Domain != "cluster.test" || !of.OtherNetwork {
		t.Errorf("%+v", of)
	}
	if of := w.Clusters[2]; of.Synced || of.Joins != plan.Unreadable {
		t.Errorf("a link without settings: %+v", of)
	}

	again, _ := c.World(all, true)
	if &again.Clusters[1].Exports[0] != &w.Clusters[1].Exports[0] {
		t.Error("exports of a cluster that has not changed are built again")
	}
}

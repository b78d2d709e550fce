package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	mcs "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"isthmus/e2e/admin"
	"isthmus/internal/adminapi"
)

// Clusters export by ServiceExports too, for which the gateway writes ServiceImports with their Services, and conditions.

const (
	importedLabel = "multicluster.kubernetes.io/service-name"
	derivedSuffix = "-clusterset"
)

func mcsObject(kind, name string) (metav1.TypeMeta, metav1.ObjectMeta) {
	return metav1.TypeMeta{APIVersion: mcs.GroupName + "/v1beta1", Kind: kind}, metav1.ObjectMeta{Namespace: exportNamespace, Name: name}
}

// serviceExport makes a ServiceExport, with or without a Service of its name (empty: any), or deletes it.
func (w *world) serviceExport(c *cluster, name string) string {
	o := &mcs.ServiceExport{}
	if o.TypeMeta, o.ObjectMeta = mcsObject("ServiceExport", cmp.Or(name, w.exportName())); name == "" && w.chance(2) {
		_ = c.api.Delete(o) // it may not be there
		return "no " + o.Name
	}
	o.Spec.ExportedLabels = map[string]string{"team": pick(w, []string{"a", "b", strings.Repeat("a", 100)}), "kubernetes.io/x": "1", "not/valid/": "x"}
	w.tenantPut(c, o)
	return o.Name
}

// usersImport makes a ServiceImport, in the place of what is there, or deletes it.
func (x *exporting) usersImport(what, name string) error {
	o := &mcs.ServiceImport{}
	if o.TypeMeta, o.ObjectMeta = mcsObject("ServiceImport", name); what == "delete" {
		_ = x.local.api.Delete(o) // it may not be there
		return nil
	}
	return x.local.api.Put(o)
}

// read returns a cluster's objects in the namespace of exports, by name.
func read[T any](c *cluster, resource string) (map[string]*T, error) {
	list, err := c.api.Objects(resource, exportNamespace)
	all := make(map[string]*T)
	for _, o := range list {
		u, into := o.(*unstructured.Unstructured), new(T)
		err = errors.Join(err, runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, into))
		all[u.GetName()] = into
	}
	return all, err
}

// lawful returns what is wrong with a write to a ServiceImport or ServiceExport.
func lawful(before, after *unstructured.Unstructured) error {
	switch o := cmp.Or(before, after); {
	case o.GetKind() == "ServiceExport":
		if before == nil || after == nil || !reflect.DeepEqual(before.Object["spec"], after.Object["spec"]) || !maps.Equal(before.GetLabels(), after.GetLabels()) {
			return fmt.Errorf("the gateway has changed more than the status of ServiceExport %s", o.GetName())
		}
	case before != nil && !markedAs("ServiceImport", before), after != nil && (!markedAs("ServiceImport", after) || o.GetNamespace() != exportNamespace):
		return fmt.Errorf("the gateway has written the ServiceImport %s/%s, without its mark: %v, then %v", o.GetNamespace(), o.GetName(), before, after)
	case after != nil:
		return validLabels(after.GetLabels())
	}
	return nil
}

// offered is what a cluster exports by a ServiceExport. The local one is "".
type offered struct {
	cluster string
	service *corev1.Service
	export  *mcs.ServiceExport
}

// older orders exports by age. Those of one age and UID have no order for the gateway but their ports.
func (a offered) older(b offered) int {
	return cmp.Or(a.export.CreationTimestamp.Compare(b.export.CreationTimestamp.Time), cmp.Compare(a.export.UID, b.export.UID),
		slices.CompareFunc(a.service.Spec.Ports, b.service.Spec.Ports, func(p, q corev1.ServicePort) int {
			return cmp.Or(cmp.Compare(p.Name, q.Name), cmp.Compare(p.Port, q.Port))
		}), cmp.Compare(a.cluster, b.cluster))
}

// imported is what the ServiceImport of a name is to be, and its Service.
type imported struct {
	expected
	kind  mcs.ServiceImportType
	mixed bool // others are of the other type
}

func newImported(all []offered) *imported {
	slices.SortFunc(all, offered.older)
	i, kinds := &imported{}, map[mcs.ServiceImportType]bool{}
	var e *expected
	for _, one := range all {
		e = e.with(one.cluster, one.service)
		kind := mcs.ClusterSetIP
		if one.service.Spec.ClusterIP == corev1.ClusterIPNone {
			kind = mcs.Headless
		}
		i.kind, kinds[kind] = cmp.Or(i.kind, kind), true
	}
	if e.team = all[0].export.Spec.ExportedLabels["team"]; len(e.team) > 63 {
		e.team = ""
	}
	slices.SortStableFunc(e.members, func(a, b string) int { return cmp.Compare(min(1, len(a)), min(1, len(b))) }) // the local one has an annotation of its own
	i.expected, i.mixed = *e, len(kinds) > 1
	return i
}

// importsWrong returns how ServiceImports, and the conditions of own ServiceExports, differ from what is to be. To services it adds those
// of ServiceImports, nil where there may be any.
func (w *world) importsWrong(want map[string]*imported, services map[string]*expected) error {
	have, err := read[mcs.ServiceImport](w.clusters[0], "serviceimports")
	exports, err2 := read[mcs.ServiceExport](w.clusters[0], "serviceexports")
	there, err3 := w.exports.services()
	if err := errors.Join(err, err2, err3); err != nil {
		return err
	}
	for name := range have {
		if _, ok := want[name]; !ok {
			want[name] = nil
		}
	}
	for name, e := range want {
		i, s := have[name], there[name+derivedSuffix]
		switch settled := i != nil && time.Since(i.CreationTimestamp.Time) > 59*time.Second; { // it keeps its type and ports
		case i != nil && !markedAs("ServiceImport", i):
			services[name+derivedSuffix] = nil
			continue
		case e != nil && (w.vague(e.members) || e.mixed && settled), i != nil && w.vague(clustersOf(i)), e != nil && i == nil && s != nil && !marked(s):
			services[name+derivedSuffix] = nil
		case e == nil || i == nil:
			return fmt.Errorf("the ServiceImport %s is %+v, should be %+v", name, i, e)
		default:
			if settled {
				e.ports = nil
			}
			if err := e.differ(i, s); err != nil {
				return err
			}
			if e.kind == mcs.ClusterSetIP {
				services[name+derivedSuffix] = &e.expected
			}
		}
		if valid := e != nil && slices.Contains(e.members, ""); exports[name] != nil && meta.IsStatusConditionTrue(exports[name].Status.Conditions, "Valid") != valid {
			return fmt.Errorf("the conditions of ServiceExport %s are %v, valid is %v", name, exports[name].Status.Conditions, valid)
		}
	}
	return nil
}

func clustersOf(i *mcs.ServiceImport) (names []string) {
	for _, c := range i.Status.Clusters {
		names = append(names, strings.TrimPrefix(c.Cluster, "local"))
	}
	slices.Sort(names)
	return names
}

// differ returns how a ServiceImport differs from what it is to be. s is what has the name of its Service; nil: nothing has.
func (e *imported) differ(i *mcs.ServiceImport, s *corev1.Service) error {
	var ips, ports, want []string
	if e.kind == mcs.ClusterSetIP && s != nil && marked(s) {
		if ips = s.Spec.ClusterIPs; len(s.OwnerReferences) != 1 || s.OwnerReferences[0].UID != i.UID {
			return fmt.Errorf("the Service of ServiceImport %s %s is owned by %v", i.Name, i.UID, s.OwnerReferences)
		}
	}
	for _, p := range i.Spec.Ports {
		ports = append(ports, fmt.Sprintf("%s %d", p.Name, p.Port))
	}
	switch {
	case e.ports == nil:
		want = ports
	case e.kind == mcs.ClusterSetIP:
		want = e.ports
	}
	got := fmt.Sprintf("%s of %q with IPs %q, ports %q and team %q", i.Spec.Type, clustersOf(i), i.Spec.IPs, ports, i.Labels["team"])
	if should := fmt.Sprintf("%s of %q with IPs %q, ports %q and team %q", e.kind, slices.Sorted(slices.Values(e.members)), ips, want, e.team); got != should {
		return fmt.Errorf("the ServiceImport %s is %s, should be %s", i.Name, got, should)
	}
	return nil
}

// pending returns what the gateway's plan would change still.
func (s *simulation) pending(ctx context.Context) error {
	page, err := admin.Read[adminapi.Exports](ctx, s.gateway.MetricsAddr(), "/debug/exports")
	if err == nil && (page.Unread != "" || len(page.Changes) > 0) {
		err = fmt.Errorf("the gateway's plan is not what is written: %s%+v", page.Unread, page.Changes)
	}
	return err
}

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

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	mcs "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"isthmus/e2e/harness"
	"isthmus/internal/adminapi"
)

// Clusters also export by ServiceExports, for which Isthmus writes ServiceImports, derived Services
// and conditions.

// derivedSuffix is the suffix of the derived Service of a ServiceImport.
const derivedSuffix = "-clusterset"

func mcsObject(kind, name string) (metav1.TypeMeta, metav1.ObjectMeta) {
	return metav1.TypeMeta{
			APIVersion: mcs.GroupName + "/v1beta1",
			Kind:       kind,
		}, metav1.ObjectMeta{
			Namespace: exportNamespace,
			Name:      name,
		}
}

// serviceExport creates a ServiceExport, with or without a Service of its name, or deletes one. If
// name is empty, the name is random.
func serviceExport(w *world, c *cluster, name string) string {
	o := &mcs.ServiceExport{}
	if o.TypeMeta, o.ObjectMeta = mcsObject("ServiceExport", cmp.Or(name, exportName(w))); name == "" && w.chance(2) {
		_ = c.api.Delete(o) // it may not exist
		return "no " + o.Name
	}
	o.Spec.ExportedLabels = map[string]string{
		"team":            pick(w, []string{"a", "b", strings.Repeat("a", 100)}),
		"kubernetes.io/x": "1",
		"not/valid/":      "x",
	}
	tenantPut(w, c, o)
	return o.Name
}

// usersImport creates, replaces or deletes a ServiceImport.
func usersImport(x *exporting, what, name string) error {
	o := &mcs.ServiceImport{}
	if o.TypeMeta, o.ObjectMeta = mcsObject("ServiceImport", name); what == "delete" {
		_ = x.local.api.Delete(o) // it may not exist
		return nil
	}
	return x.local.api.Put(o)
}

// read returns the objects of a cluster in the namespace of exports, by name.
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

// lawful returns an error if Isthmus must not make this write to a ServiceImport or ServiceExport.
func lawful(before, after *unstructured.Unstructured) error {
	switch o := cmp.Or(before, after); {
	case o.GetKind() == "ServiceExport":
		if before == nil || after == nil || !reflect.DeepEqual(before.Object["spec"], after.Object["spec"]) ||
			!maps.Equal(before.GetLabels(), after.GetLabels()) {
			return fmt.Errorf("more than the status of ServiceExport %s was changed", o.GetName())
		}
	case before != nil && !markedAs("ServiceImport", before),
		after != nil && (!markedAs("ServiceImport", after) || o.GetNamespace() != exportNamespace):
		return fmt.Errorf(
			"the ServiceImport %s/%s was written without its mark: %v, then %v",
			o.GetNamespace(),
			o.GetName(),
			before,
			after,
		)
	}
	return nil
}

// importsWrong returns how ServiceImports, and the conditions of local ServiceExports, differ from
// what is expected. It adds the derived Services to services, with nil members where any are
// allowed.
func importsWrong(w *world, want, services map[string]members) error {
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
	for name, should := range want {
		i, s := have[name], there[name+derivedSuffix]
		switch is := clustersOf(i); {
		case i != nil && !markedAs("ServiceImport", i):
			services[name+derivedSuffix] = nil
			continue
		case vague(w, should), vague(w, is), should != nil && i == nil && s != nil && !marked(s):
			services[name+derivedSuffix] = nil
		case (i == nil) != (should == nil), !slices.Equal(is, should):
			return fmt.Errorf("the ServiceImport %s names clusters %q, should name %q: %+v", name, is, should, i)
		case i.Spec.Type == mcs.ClusterSetIP:
			services[name+derivedSuffix] = should
		}
		if valid := slices.Contains(should, ""); exports[name] != nil &&
			meta.IsStatusConditionTrue(exports[name].Status.Conditions, "Valid") != valid {
			return fmt.Errorf(
				"the conditions of ServiceExport %s are %v, valid is %v",
				name,
				exports[name].Status.Conditions,
				valid,
			)
		}
	}
	return nil
}

// clustersOf returns the clusters that a ServiceImport names. If i is nil, there are none.
func clustersOf(i *mcs.ServiceImport) (names members) {
	if i == nil {
		return nil
	}
	for _, c := range i.Status.Clusters {
		names = append(names, strings.TrimPrefix(c.Cluster, "local"))
	}
	slices.Sort(names)
	return names
}

// pending returns an error if the plan of Isthmus still contains changes.
func pending(ctx context.Context, s *simulation) error {
	page, err := harness.ReadPage[adminapi.Exports](ctx, s.gateway.MetricsAddr(), "/debug/exports")
	if err == nil && (page.Unread != "" || len(page.Changes) > 0) {
		err = fmt.Errorf("the plan still contains changes: %s%+v", page.Unread, page.Changes)
	}
	return err
}

package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"isthmus/e2e/kube"
)

// mcsObject is what is looked at of a ServiceImport or ServiceExport.
type mcsObject struct {
	Metadata metav1.ObjectMeta
	Spec     struct {
		Type            string
		IPs, IPFamilies []string
		Ports           []struct {
			Name string
			Port int
		}
	}
	Status struct {
		Clusters   []struct{ Cluster string }
		Conditions []metav1.Condition
	}
}

func readMCS(t *testing.T, c *kube.Client, resource string) (o mcsObject, err error) {
	u, err := c.In(schema.GroupVersionResource{Group: "multicluster.x-k8s.io", Version: "v1beta1", Resource: resource}, "shop").Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil {
		return o, err
	}
	text, err := json.Marshal(u.Object)
	must(t, err)
	return o, json.Unmarshal(text, &o)
}

func exportWeb(t *testing.T, c *kube.Client) {
	must(t, c.Apply(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "multicluster.x-k8s.io/v1beta1", "kind": "ServiceExport", "metadata": map[string]any{"namespace": "shop", "name": "web"},
	}}))
}

// TestServiceExports: two clusters with the manifests, CRDs and guard, each with its own gateway, and east linked to west's. A ServiceExport in
// east makes a ServiceImport with its Service in west, which proxies reach by name and IP, and gets its conditions from east's gateway.
func TestServiceExports(t *testing.T) {
	t.Parallel()
	x := newExporting(t)
	other := &exporting{t: t, west: x.east, isthmus: x.isthmus} // the other way round
	for _, one := range []*exporting{x, other} {
		one.grant(true)
	}
	g := x.gateway("-exports=on", "-cluster-name=west")
	startGatewayOf(t, other.west, "-exports=on", "-cluster-name=east")
	exportWeb(t, x.east)
	x.await(g, []string{"east shop/web-clusterset: written"}, nil)

	derived, err := x.west.CoreV1().Services("shop").Get(t.Context(), "web-clusterset", metav1.GetOptions{})
	must(t, err)
	var made mcsObject
	await(t, "the ServiceImport is as it should be", func() error {
		if made, err = readMCS(t, x.west, "serviceimports"); err != nil {
			return err
		}
		if !slices.Equal(made.Spec.IPs, derived.Spec.ClusterIPs) || made.Spec.Type != "ClusterSetIP" || len(made.Spec.IPFamilies) != len(made.Spec.IPs) || len(made.Spec.Ports) != len(derived.Spec.Ports) ||
			len(made.Status.Clusters) != 1 || made.Status.Clusters[0].Cluster != "east" || len(made.Status.Conditions) != 1 || made.Status.Conditions[0].Status != metav1.ConditionTrue {
			return fmt.Errorf("it is %+v", made)
		}
		return nil
	})
	if o := derived.OwnerReferences; len(o) != 1 || o[0].UID != made.Metadata.UID || o[0].Controller != nil {
		t.Errorf("owned by %+v", o)
	}
	await(t, "east's gateway writes the conditions", func() error {
		o, err := readMCS(t, x.east, "serviceexports")
		var got []string
		for _, c := range o.Status.Conditions {
			got = append(got, c.Type+"="+string(c.Status))
		}
		if err == nil && !slices.Equal(got, []string{"Valid=True", "Ready=True", "Conflict=False"}) {
			err = fmt.Errorf("they are %q", got)
		}
		return err
	})
	if o, err := readMCS(t, x.east, "serviceimports"); err != nil || len(o.Status.Clusters) != 1 || o.Status.Clusters[0].Cluster != "east" {
		t.Errorf("east's own ServiceImport: %+v, %v", o, err)
	}
	s := openService(t, g, "web-clusterset")
	awaitShop(t, s, "10.2.0.1")

	// Both export: one import of both, with the same IPs. Both go: so does what was written, and nothing more is to be done.
	exportWeb(t, x.west)
	awaitShop(t, s, "10.1.0.1", "10.2.0.1")
	await(t, "both are in the ServiceImport", func() error {
		o, err := readMCS(t, x.west, "serviceimports")
		if err == nil && (len(o.Status.Clusters) != 2 || !slices.Equal(o.Spec.IPs, made.Spec.IPs) || o.Metadata.UID != made.Metadata.UID) {
			err = fmt.Errorf("it is %+v", o)
		}
		return err
	})
	if text := x.exports(g, "--written").stdout; !strings.Contains(text, `"multicluster.x-k8s.io/v1beta1","kind":"ServiceImport"`) || !strings.Contains(text, `"web-clusterset"`) {
		t.Errorf("written: %s", text)
	}
	for _, c := range []*kube.Client{x.east, x.west} {
		must(t, c.In(schema.GroupVersionResource{Group: "multicluster.x-k8s.io", Version: "v1beta1", Resource: "serviceexports"}, "shop").Delete(t.Context(), "web", metav1.DeleteOptions{}))
	}
	x.await(g, nil, nil)
	if got := x.written(); len(got) > 0 {
		t.Errorf("left: %q", got)
	}
	if _, err := readMCS(t, x.west, "serviceimports"); err == nil {
		t.Error("the ServiceImport is left")
	}
}

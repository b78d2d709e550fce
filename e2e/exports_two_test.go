package e2e

import (
	"fmt"
	"regexp"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"isthmus/e2e/admin"
	"isthmus/e2e/gateway"
	"isthmus/e2e/kube"
	"isthmus/e2e/object"
	"isthmus/e2e/poll"
)

var serviceExports = schema.GroupVersionResource{Group: "multicluster.x-k8s.io", Version: "v1beta1", Resource: "serviceexports"}

// TestExportsOfTwo: two installations judge one ServiceExport differently, and neither writes its ServiceImport, since another
// Service has the name of the Service behind it. They do not rewrite its conditions for ever.
func TestExportsOfTwo(t *testing.T) {
	t.Parallel()
	servers := startClusters(t, []string{"namespace", "serviceaccount"}, "west", "east")
	west, east := client(t, servers[0]), client(t, servers[1])
	for _, c := range []*kube.Client{west, east} {
		must(t, c.ServeMCS(t.Context(), kube.MCSVersions...))
		must(t, c.Apply(t.Context(), object.Namespace("shop"), object.Service("shop", "web")))
	}
	must(t, west.Apply(t.Context(), object.Namespace("linkerd"), object.Namespace("my-mesh"), object.Service("shop", "web-clusterset")))
	// Only the installation in linkerd knows of the export in east, whose session affinity differs.
	sticky := object.Service("shop", "web")
	sticky.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
	must(t, east.Apply(t.Context(), sticky))
	linked, err := east.Kubeconfig(east.Server(), east.Admin())
	must(t, err)
	must(t, west.Apply(t.Context(), object.Link("east", linked)))
	text, err := west.Kubeconfig(west.Server(), west.Admin())
	must(t, err)
	var gateways []*gateway.Gateway
	for _, namespace := range []string{"linkerd", "my-mesh"} {
		gateways = append(gateways, startGateway(t, gateway.Config{
			Kubeconfig: writeKubeconfig(t, text),
			Hostname:   namespace,
			Args:       []string{"-controller-namespace=" + namespace, "-exports=on", "-shutdown-delay=0s", "-drain=0s"},
		}))
	}
	awaitReady(t, gateways[0], "east")
	for _, c := range []*kube.Client{east, west} {
		must(t, c.ApplyYAML(t.Context(),
			"{apiVersion: multicluster.x-k8s.io/v1beta1, kind: ServiceExport, metadata: {name: web, namespace: shop}}"))
	}

	// quiet is longer than any pause between the first writes of one object.
	const quiet = 15 * time.Second
	var o *unstructured.Unstructured
	since := time.Now()
	must(t, poll.Until(t.Context(), 3*time.Minute, 100*time.Millisecond, func() error {
		now, err := west.Dynamic.Resource(serviceExports).Namespace("shop").Get(t.Context(), "web", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if o == nil || now.GetResourceVersion() != o.GetResourceVersion() {
			o, since = now, time.Now()
		}
		if time.Since(since) < quiet || len(messages(o)) == 0 {
			return fmt.Errorf("the conditions change: %q", messages(o))
		}
		return nil
	}))
	var writes float64
	for _, g := range gateways {
		samples, err := admin.Metrics(t.Context(), g.MetricsAddr())
		must(t, err)
		n, _ := admin.Sum(samples, regexp.MustCompile(`^isthmus_service_writes_total\{.*verb="status"`))
		writes += n
	}
	// Each installation writes its conditions once more after the other has undone them. One has written others before, without the conflict.
	if writes < 2 || writes > 6 {
		t.Errorf("the conditions were written %v times, and are %q", writes, messages(o))
	}
}

// messages returns the message of each condition of a ServiceExport.
func messages(o *unstructured.Unstructured) map[string]string {
	all := make(map[string]string)
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, c := range conditions {
		if c, ok := c.(map[string]any); ok {
			all[fmt.Sprint(c["type"])] = fmt.Sprint(c["message"])
		}
	}
	return all
}

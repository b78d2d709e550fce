package e2e

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

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
	server := startClusters(t, []string{"namespace", "serviceaccount"}, "west")[0]
	west := client(t, server)
	must(t, west.ServeMCS(t.Context(), kube.MCSVersions...))
	for _, name := range []string{"one", "two", "shop"} {
		must(t, west.Apply(t.Context(), object.Namespace(name)))
	}
	must(t, west.Apply(t.Context(), object.Service("shop", "web"), object.Service("shop", "web-clusterset")))
	text, err := west.Kubeconfig(west.Server(), west.Admin())
	must(t, err)
	start := func(namespace string, args ...string) *gateway.Gateway {
		return startGateway(t, gateway.Config{Kubeconfig: writeKubeconfig(t, text), Hostname: namespace, Args: append([]string{
			"-controller-namespace=" + namespace, "-exports=on", "-shutdown-delay=0s", "-drain=0s",
		}, args...)})
	}
	gateways := []*gateway.Gateway{start("one"), start("two", "-export-namespaces=!shop")}
	must(t, west.ApplyYAML(t.Context(),
		"{apiVersion: multicluster.x-k8s.io/v1beta1, kind: ServiceExport, metadata: {name: web, namespace: shop}}"))

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
	if ready := messages(o)["Ready"]; !strings.Contains(ready, "the ServiceImport is taken") && !strings.Contains(ready, "the ServiceImport is not allowed") {
		t.Errorf("the conditions are neither's: %q", messages(o))
	}
	for i, g := range gateways {
		samples, err := admin.Metrics(t.Context(), g.MetricsAddr())
		must(t, err)
		if n, _ := admin.Sum(samples, regexp.MustCompile(`^isthmus_service_writes_total\{.*verb="status"`)); n > 2 {
			t.Errorf("installation %d has written the conditions %v times", i+1, n)
		}
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

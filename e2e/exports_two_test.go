package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"isthmus/e2e/harness"
	"isthmus/e2e/harness/kube"
	"isthmus/internal/adminapi"
)

var serviceExports = schema.GroupVersionResource{
	Group: "multicluster.x-k8s.io", Version: "v1beta1", Resource: "serviceexports",
}

// TestExportsOfTwo: two installations judge one ServiceExport differently, and neither writes its ServiceImport, since
// another Service has the name of the Service behind it. They do not rewrite its conditions for ever.
func TestExportsOfTwo(t *testing.T) {
	t.Parallel()
	servers := startClusters(t, []string{"namespace", "serviceaccount"}, "west", "east")
	west, east := client(t, servers[0]), client(t, servers[1])
	for _, c := range []*kube.Client{west, east} {
		must(t, c.ServeMCS(t.Context(), kube.MCSVersions...))
		must(t, c.Apply(t.Context(), kube.Namespace("shop"), kube.Service("shop", "web")))
	}
	must(t, west.Apply(t.Context(), kube.Namespace("linkerd"), kube.Namespace("my-mesh")))
	must(t, west.Apply(t.Context(), kube.Service("shop", "web-clusterset")))
	// Only the installation in linkerd knows of the export in east, whose session affinity differs.
	sticky := kube.Service("shop", "web")
	sticky.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
	must(t, east.Apply(t.Context(), sticky))
	linked, err := east.Kubeconfig(east.Server(), east.Admin())
	must(t, err)
	must(t, west.Apply(t.Context(), kube.Link("east", linked)))
	text, err := west.Kubeconfig(west.Server(), west.Admin())
	must(t, err)
	var gateways []*harness.Replica
	for _, namespace := range []string{"linkerd", "my-mesh"} {
		gateways = append(gateways, startGateway(t, harness.ReplicaConfig{
			Kubeconfig: writeKubeconfig(t, text),
			Hostname:   namespace,
			Args: []string{
				"-controller-namespace=" + namespace, "-exports=on", "-shutdown-delay=0s", "-drain=0s",
			},
		}))
	}
	awaitReady(t, gateways[0], "east")
	for _, c := range []*kube.Client{east, west} {
		must(t, c.ApplyYAML(t.Context(),
			"{apiVersion: multicluster.x-k8s.io/v1beta1, kind: ServiceExport, metadata: {name: web, namespace: shop}}"))
	}

	exports := func(g *harness.Replica) (page adminapi.Exports, err error) {
		text, err := harness.GetPage(t.Context(), g.MetricsAddr(), "/debug/exports")
		if err == nil {
			err = json.Unmarshal([]byte(text), &page)
		}
		return page, err
	}
	// An installation shows a change until it has made it, or has left it to the other installation.
	const quiet = 3 * time.Second
	var last string
	since := time.Now()
	must(t, harness.Poll(t.Context(), 3*time.Minute, 100*time.Millisecond, func() error {
		o, err := west.Dynamic.Resource(serviceExports).Namespace("shop").Get(t.Context(), "web", metav1.GetOptions{})
		if err != nil {
			return err
		}
		now := fmt.Sprint(o.GetResourceVersion(), messages(o))
		for _, g := range gateways {
			page, err := exports(g)
			if err != nil {
				return err
			}
			for _, c := range page.Changes {
				now += fmt.Sprint(" ", c.Verb, " ", c.Object)
			}
			if len(page.Changes) > 0 {
				since = time.Now()
			}
		}
		if now != last {
			last, since = now, time.Now()
		}
		if time.Since(since) < quiet {
			return fmt.Errorf("the conditions change: %s", now)
		}
		return nil
	}))
	for i, g := range gateways {
		samples, err := harness.ReadMetrics(t.Context(), g.MetricsAddr())
		must(t, err)
		if n, _ := harness.SumSamples(samples, regexp.MustCompile(`^isthmus_service_writes_total\{.*verb="status"`)); n == 0 {
			t.Errorf("installation %d has not written the conditions: they agree on %s", i+1, last)
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

// marks are objects of namespace shop that have the mark of an installation, without what differs after a move.
func (x *exporting) marks(installation string) map[string]string {
	x.t.Helper()
	found := make(map[string]string)
	for _, resource := range []schema.GroupVersionResource{
		{Version: "v1", Resource: "services"},
		{Group: "multicluster.x-k8s.io", Version: "v1beta1", Resource: "serviceimports"},
	} {
		written := metav1.ListOptions{LabelSelector: markLabel + "=" + installation}
		list, err := x.west.In(resource, "shop").List(x.t.Context(), written)
		must(x.t, err)
		for _, o := range list.Items {
			labels := o.GetLabels()
			delete(labels, markLabel)
			text, err := json.Marshal([]any{
				o.GetUID(), labels, o.GetAnnotations(), o.Object["spec"], o.Object["status"],
			})
			must(x.t, err)
			found[o.GetKind()+" "+o.GetName()] = string(text)
		}
	}
	return found
}

// TestExportsMove: an installation moves to another namespace as docs/exports.md says, with the guard of each in force.
// The written objects keep UIDs, IPs and all else but the mark, and the new installation then writes them.
func TestExportsMove(t *testing.T) {
	t.Parallel()
	x := newExporting(t)
	x.grant(true)
	must(t, x.west.Apply(t.Context(), kube.Namespace("mesh")))
	text, err := os.ReadFile("../docs/exports.md")
	must(t, err)
	for _, shown := range shownInDocs.FindAllStringSubmatch(string(text), -1) {
		if strings.Contains(shown[1], "mesh") {
			mustShell(t, x.server, "kubectl apply -k "+documentedFolder(t, shown[1]))
		}
	}
	apply(t, x.west, build(t, overlay(t, installedIn("mesh", "install/names", "install/exports/names"), nil)))
	link, err := x.west.CoreV1().Secrets("linkerd").Get(t.Context(), "cluster-credentials-east", metav1.GetOptions{})
	must(t, err)
	must(t, x.west.Apply(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "mesh", Name: link.Name, Labels: link.Labels, Annotations: link.Annotations,
		},
		Type: link.Type,
		Data: link.Data,
	}))
	for _, c := range []*kube.Client{x.west, x.east} {
		label(t, c, "web", map[string]string{"mirror.linkerd.io/federated": "member"})
		must(t, c.ApplyYAML(t.Context(),
			"{apiVersion: multicluster.x-k8s.io/v1beta1, kind: ServiceExport, metadata: {name: web, namespace: shop}}"))
	}

	const all = "local shop/web-federated: %[1]s, local shop/web-clusterset: %[1]s, " +
		"east shop/web-federated: %[1]s, east shop/web-clusterset: %[1]s"
	states := func(state string) []string { return strings.Split(fmt.Sprintf(all, state), ", ") }
	from := x.gateway("-exports=on")
	x.await(from, states("written"), nil)
	before := x.marks("linkerd")
	if len(before) != 3 {
		t.Fatalf("written are %v", before)
	}
	to := startGateway(t, harness.ReplicaConfig{
		Kubeconfig: accountKubeconfig(t, x.west, "mesh", "isthmus"),
		Hostname:   "mesh-0",
		Args:       []string{"-controller-namespace=mesh", "-exports=plan", "-shutdown-delay=0s", "-drain=0s"},
	})
	awaitReady(t, to, "east")
	x.await(to, states("taken"), nil)
	if shown := x.exports(to, "shop/web").stdout; strings.Count(
		shown, "by the installation of Isthmus in namespace linkerd",
	) < 2 {
		t.Errorf("the other installation is not named: %s", shown)
	}

	must(t, from.Restart(t.Context(), "-exports=plan"))
	_, section, _ := strings.Cut(string(text), "\n## Two installations in one cluster\n")
	section, _, _ = strings.Cut(section, "\n## ")
	commands := regexp.MustCompile(`(?m)^   (kubectl .*)$`).FindAllStringSubmatch(section, -1)
	if len(commands) != 2 {
		t.Fatalf("docs/exports.md has the commands %q", commands)
	}
	if out, err := shell(t, x.server, commands[1][1]); err == nil {
		t.Errorf("the guard accepts a change of the mark: %s", out)
	}
	mustShell(t, x.server, commands[0][1])
	await(t, "the mark is changed", func() error {
		out, err := shell(t, x.server, commands[1][1])
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
	must(t, to.Restart(t.Context(), "-exports=on"))
	awaitReady(t, to, "east")
	x.await(to, states("written"), nil)
	x.await(from, states("taken"), nil)
	if after := x.marks("mesh"); !maps.Equal(after, before) {
		t.Errorf("the move has changed more than the mark:\n%v\n%v", before, after)
	}

	// The new installation deletes what is no longer exported, with the guard applied again.
	apply(t, x.west, build(t, manifest(t, "install/exports/guard")))
	label(t, x.west, "web", nil)
	label(t, x.east, "web", nil)
	await(t, "the new installation deletes", func() error {
		if left := x.marks("mesh"); left["Service web-federated"] != "" || len(left) != 2 {
			return fmt.Errorf("left are %v", left)
		}
		return nil
	})
}

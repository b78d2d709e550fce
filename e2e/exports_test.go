package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"isthmus/e2e/harness"
	"isthmus/e2e/harness/kube"
	"isthmus/internal/adminapi"
)

// exporting consists of two clusters with the manifests for exports: west, where Isthmus writes,
// and east, which exports.
type exporting struct {
	t          *testing.T
	server     *harness.Cluster // west
	west, east *kube.Client
	isthmus    string
}

func newExporting(t *testing.T) *exporting {
	servers := startClusters(t, []string{"namespace", "serviceaccount", "token"}, "west", "east")
	x := &exporting{t: t, server: servers[0], west: client(t, servers[0]), east: client(t, servers[1])}
	var err error
	x.isthmus, err = harness.Isthmus.Path(t.Context())
	must(t, err)
	for _, c := range []*kube.Client{x.west, x.east} {
		must(t, c.Apply(t.Context(), kube.Namespace("linkerd"), kube.Namespace("linkerd-multicluster")))
		must(t, c.ServeMCS(t.Context(), kube.MCSVersions...))
	}
	applyManifest(t, x.east, "link/remote-access.yaml")
	linkTo(t, x.west, x.east, servers[1])
	offerShop(t, x.west, "10.1.0.1")
	offerShop(t, x.east, "10.2.0.1")
	return x
}

// grant applies the permissions of manifests/install and manifests/install/exports, and the guard.
// The permission to write is optional.
func (x *exporting) grant(mayWrite bool) {
	objects := build(x.t, overlay(
		x.t,
		kustomization{
			Resources:  []string{"install"},
			Components: []string{"install/exports"},
			Namespace:  "linkerd",
		},
		nil,
	))
	if role := find[rbacv1.ClusterRole](x.t, objects, "ClusterRole", "isthmus-exports"); !mayWrite {
		role.Rules = slices.DeleteFunc(
			role.Rules,
			func(r rbacv1.PolicyRule) bool { return slices.Contains(r.Resources, "services") },
		)
		for _, o := range objects {
			if o.GetKind() == "ClusterRole" && o.GetName() == "isthmus-exports" {
				lesser, err := kube.Unstructured(role)
				must(x.t, err)
				o.Object["rules"] = lesser.Object["rules"]
			}
		}
	}
	apply(x.t, x.west, objects)
	apply(x.t, x.west, build(x.t, manifest(x.t, "install/exports/guard")))
	apply(x.t, x.west, build(x.t, manifest(x.t, "install/exports/linkerd")))
}

func (x *exporting) gateway(args ...string) *harness.Replica {
	g := startGateway(x.t, harness.ReplicaConfig{
		Kubeconfig: gatewayKubeconfig(x.t, x.west),
		Args:       append(args, "-shutdown-delay=0s", "-drain=0s"),
	})
	awaitReady(x.t, g, "east")
	return g
}

func (x *exporting) exports(g *harness.Replica, args ...string) verbRun {
	return runVerb(x.t, x.isthmus, append([]string{"exports", "--admin", g.MetricsAddr()}, args...)...)
}

// state returns the states of all exports and the pending changes.
func (x *exporting) state(g *harness.Replica) (states, changes []string, err error) {
	var page adminapi.ExportsOutput
	run := x.exports(g, "-o", "json")
	if err := json.Unmarshal([]byte(run.stdout), &page); err != nil {
		return nil, nil, fmt.Errorf("%w: %s%s", err, run.stdout, run.stderr)
	}
	for _, e := range page.Exports.Exports {
		states = append(states, e.Cluster+" "+e.Object+": "+e.State)
	}
	for _, c := range page.Changes {
		changes = append(changes, c.Verb+" "+c.Object)
	}
	return states, changes, nil
}

func (x *exporting) await(g *harness.Replica, want, wantChanges []string) {
	x.t.Helper()
	await(x.t, "exports have the expected states", func() error {
		states, changes, err := x.state(g)
		if err == nil && (!slices.Equal(states, want) || !slices.Equal(changes, wantChanges)) {
			err = fmt.Errorf("states %q, want %q; changes %q, want %q", states, want, changes, wantChanges)
		}
		return err
	})
}

func label(t *testing.T, c *kube.Client, name string, labels map[string]string) {
	t.Helper()
	services := c.CoreV1().Services("shop")
	s, err := services.Get(t.Context(), name, metav1.GetOptions{})
	must(t, err)
	s.Labels = labels
	_, err = services.Update(t.Context(), s, metav1.UpdateOptions{})
	must(t, err)
}

func (x *exporting) written() (names []string) {
	list, err := x.west.CoreV1().
		Services("shop").
		List(x.t.Context(), metav1.ListOptions{LabelSelector: "isthmus.io/written-by=linkerd"})
	must(x.t, err)
	for _, s := range list.Items {
		names = append(names, s.Name)
	}
	return names
}

// TestExports labels a Service in east and checks that clients in west reach it through Services
// written by Isthmus. The output of isthmus exports with --exports=plan, which needs no write
// permission, must match the later writes. Isthmus has only the permissions from the manifests,
// with the guard applied.
func TestExports(t *testing.T) {
	t.Parallel()
	x := newExporting(t)
	taken := kube.Service("shop", "taken-east")
	taken.Spec.Selector = map[string]string{"app": "users"}
	must(t, x.west.Apply(t.Context(), taken))
	must(t, x.east.Apply(t.Context(), kube.Service("shop", "taken")))
	both := map[string]string{
		"mirror.linkerd.io/exported":  "remote-discovery",
		"mirror.linkerd.io/federated": "member",
		"team":                        "a",
	}
	label(t, x.east, "taken", map[string]string{"mirror.linkerd.io/exported": "remote-discovery"})
	label(t, x.east, "web", both)
	label(t, x.west, "web", map[string]string{"mirror.linkerd.io/federated": "member"})
	before, err := x.west.CoreV1().Services("shop").Get(t.Context(), "taken-east", metav1.GetOptions{})
	must(t, err)

	x.withoutPermissions()
	x.grant(false)
	g := x.gateway("-exports=plan")
	planned := []string{"create shop/web-east", "create shop/web-federated"}
	x.await(
		g,
		[]string{
			"local shop/web-federated: would be written",
			"east shop/taken-east: taken",
			"east shop/web-federated: would be written",
			"east shop/web-east: would be written",
		},
		planned,
	)
	diff := x.exports(g, "--diff", "shop/web")
	if diff.code != 1 || !strings.Contains(diff.stdout, "+++ Service shop/web-east\n") ||
		!strings.Contains(diff.stdout, "\n+label team: a\n") {
		t.Errorf("exit code %d, %s%s", diff.code, diff.stderr, diff.stdout)
	}
	if got := x.written(); len(got) > 0 {
		t.Errorf("written although only planned: %q", got)
	}
	if _, err := x.west.CoordinationV1().Leases("linkerd").Get(
		t.Context(),
		"isthmus-exports-write",
		metav1.GetOptions{},
	); !apierrors.IsNotFound(
		err,
	) {
		t.Errorf("the Lease is held although nothing is written: %v", err)
	}
	must(t, g.Stop())

	x.grant(true)
	g = x.gateway("-exports=on")
	x.await(
		g,
		[]string{
			"local shop/web-federated: written",
			"east shop/taken-east: taken",
			"east shop/web-federated: written",
			"east shop/web-east: written",
		},
		nil,
	)
	if got := x.written(); !slices.Equal(got, []string{"web-east", "web-federated"}) {
		t.Errorf("the written Services are %q", got)
	}
	if diff := x.exports(g, "--diff"); diff.code != 0 || diff.stdout != "" {
		t.Errorf("exit code %d, %s%s", diff.code, diff.stderr, diff.stdout)
	}
	awaitShop(t, openShop(t, g), "10.1.0.1", "10.2.0.1")

	// The permissions and the guard must also suffice for ServiceExports, and for their
	// ServiceImports, Services and conditions.
	exports := schema.GroupVersionResource{
		Group:    "multicluster.x-k8s.io",
		Version:  "v1beta1",
		Resource: "serviceexports",
	}
	for _, c := range []*kube.Client{x.east, x.west} {
		must(t, c.ApplyYAML(
			t.Context(),
			"{apiVersion: multicluster.x-k8s.io/v1beta1, kind: ServiceExport, metadata: {name: web, "+
				"namespace: shop}}",
		))
	}
	x.await(
		g,
		[]string{
			"local shop/web-federated: written",
			"local shop/web-clusterset: written",
			"east shop/taken-east: taken",
			"east shop/web-federated: written",
			"east shop/web-clusterset: written",
			"east shop/web-east: written",
		},
		nil,
	)
	list, err := kube.Parse(x.exports(g, "--written").stdout)
	must(t, err)
	var names []string
	for _, o := range list {
		names = append(names, o.GetKind()+" "+o.GetNamespace()+"/"+o.GetName())
	}
	if slices.Sort(names); !slices.Equal(names, []string{
		"Service shop/web-clusterset",
		"Service shop/web-east",
		"Service shop/web-federated",
		"ServiceImport shop/web",
	}) {
		t.Errorf("the written Services are %q", names)
	}
	for _, c := range []*kube.Client{x.east, x.west} {
		must(t, c.In(exports, "shop").Delete(t.Context(), "web", metav1.DeleteOptions{}))
	}
	label(t, x.east, "web", nil)
	x.await(g, []string{"local shop/web-federated: written", "east shop/taken-east: taken"}, nil)
	if got := x.written(); !slices.Equal(got, []string{"web-federated"}) {
		t.Errorf("the written Services are %q", got)
	}
	after, err := x.west.CoreV1().Services("shop").Get(t.Context(), "taken-east", metav1.GetOptions{})
	must(t, err)
	if after.ResourceVersion != before.ResourceVersion {
		t.Errorf("the user's Service was changed: %+v", after)
	}

	// With write permission in two namespaces only, Isthmus must write there and nowhere else.
	x.grant(false)
	for _, namespace := range []string{"rest", "shop", "team"} {
		must(t, x.west.Apply(t.Context(), kube.Namespace(namespace)))
		if namespace != "rest" {
			must(t, x.west.ApplyYAML(t.Context(), fmt.Sprintf(mayWrite, namespace)))
		}
		s := kube.Service(namespace, "new")
		s.Labels = map[string]string{"mirror.linkerd.io/federated": "member"}
		must(t, x.west.Apply(t.Context(), s))
	}
	x.await(
		g,
		[]string{
			"local rest/new-federated: failed",
			"local shop/new-federated: written",
			"local shop/web-federated: written",
			"local team/new-federated: written",
			"east shop/taken-east: taken",
		},
		[]string{"create rest/new-federated"},
	)
	if text := x.exports(g, "rest/new").stdout; !strings.Contains(text, "forbidden") {
		t.Errorf("the missing write permission is not shown: %s", text)
	}
	must(t, g.Stop())

	applyManifest(t, x.east, "link/remote-access.yaml", "[serviceexports]", "[others]")
	g = startGateway(t, harness.ReplicaConfig{
		Kubeconfig: gatewayKubeconfig(t, x.west), Args: []string{"-exports=on", "-shutdown-delay=0s", "-drain=0s"},
	})
	await(t, "check warns that east refuses ServiceExports", func() error {
		run := runVerb(t, x.isthmus, "check", "--admin", g.MetricsAddr())
		const want = "east: not permitted: list serviceexports.multicluster.x-k8s.io " +
			"(the cluster's ServiceExports are not read)"
		if !strings.Contains(run.stdout, want) {
			return fmt.Errorf("no %q in %s%s", want, run.stdout, run.stderr)
		}
		return nil
	})
}

// withoutPermissions checks that a replica without permissions for exports reports this on its page
// and in its metrics.
func (x *exporting) withoutPermissions() {
	apply(x.t, x.west, build(x.t, manifest(x.t, "install")))
	g := startGateway(x.t, harness.ReplicaConfig{
		Kubeconfig: gatewayKubeconfig(x.t, x.west), Args: []string{"-exports=on", "-shutdown-delay=0s", "-drain=0s"},
	})
	await(x.t, "the page shows that Namespaces must not be listed", func() error {
		page, err := harness.ReadClusters(x.t.Context(), g.MetricsAddr())
		if err != nil {
			return err
		}
		forbidden := func(r adminapi.Resource) bool {
			return r.Resource == "namespaces" && r.Failure == adminapi.Forbidden
		}
		if !slices.ContainsFunc(page.Local.Resources, forbidden) {
			return fmt.Errorf("the resources are %+v", page.Local.Resources)
		}
		return nil
	})
	metrics, err := harness.ReadMetrics(x.t.Context(), g.MetricsAddr())
	must(x.t, err)
	unknown := regexp.MustCompile(`^isthmus_exports_plan_unknown$`)
	if sum, count := harness.SumSamples(metrics, unknown); sum != 1 || count != 1 {
		x.t.Errorf("isthmus_exports_plan_unknown is %v, in %d series", sum, count)
	}
	must(x.t, g.Stop())
}

const mayWrite = `apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: isthmus-exports, namespace: %[1]s}
rules: [{apiGroups: [""], resources: [services], verbs: [create, update, delete]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: isthmus-exports, namespace: %[1]s}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: isthmus-exports}
subjects: [{kind: ServiceAccount, name: isthmus, namespace: linkerd}]
`

var serviceExports = schema.GroupVersionResource{
	Group: "multicluster.x-k8s.io", Version: "v1beta1", Resource: "serviceexports",
}

// TestExportsOfTwo runs two installations that derive different conditions for one ServiceExport.
// Neither writes the ServiceImport, because another Service already has the name of the derived
// Service. The installations must not keep overwriting each other's conditions.
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
	// Only the installation in linkerd knows the export in east, which has a different session
	// affinity.
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
	// An installation shows a change as pending until it has made the change or has left it to the
	// other installation.
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
		if n, _ := harness.SumSamples(
			samples,
			regexp.MustCompile(`^isthmus_service_writes_total\{.*verb="status"`),
		); n == 0 {
			t.Errorf("installation %d has not written the conditions: they agree on %s", i+1, last)
		}
	}
}

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

// marks returns the objects in the namespace shop with an installation's mark, without the fields
// that differ after a move.
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

// TestExportsMove moves an installation to another namespace as described in docs/exports.md, with
// both guards applied. The written objects must keep everything but the mark, including UIDs and
// IPs, and the new installation must then write them.
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
		t.Fatalf("the written objects are %v", before)
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
		t.Errorf("the move changed more than the mark:\n%v\n%v", before, after)
	}

	// The new installation must delete Services that are no longer exported, with its guard applied
	// again.
	apply(t, x.west, build(t, manifest(t, "install/exports/guard")))
	label(t, x.west, "web", nil)
	label(t, x.east, "web", nil)
	await(t, "the new installation deletes", func() error {
		if left := x.marks("mesh"); left["Service web-federated"] != "" || len(left) != 2 {
			return fmt.Errorf("the remaining objects are %v", left)
		}
		return nil
	})
}

package e2e

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"isthmus/e2e/harness"
	"isthmus/e2e/harness/kube"
	"isthmus/e2e/proxy"
	"isthmus/internal/adminapi"
)

func restricted(name string) *corev1.Namespace {
	ns := kube.Namespace(name)
	ns.Labels = map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}
	return ns
}

// podOf returns the configuration of the first container in a Deployment's Pod.
func podOf(d *appsv1.Deployment, name string) containerConfig {
	return containerConfig{
		Template:  d.Spec.Template,
		Namespace: d.Namespace,
		Name:      name,
		Container: d.Spec.Template.Spec.Containers[0].Name,
	}
}

// startPod starts a Pod's container, which runs until the test ends.
func startPod(t *testing.T, server *harness.Cluster, c *kube.Client, cfg containerConfig) *harness.Replica {
	t.Helper()
	binary, err := harness.Isthmus.Path(t.Context())
	must(t, err)
	cfg.Client, cfg.CA, cfg.Binary, cfg.Dir = c, server.REST().CAData, binary, t.TempDir()
	p, err := newContainer(t.Context(), cfg)
	must(t, err)
	atEnd(t, p.Close)
	g := startGateway(t, harness.ReplicaConfig{Container: p.Harness()})
	atEnd(t, func() error { return g.Signal(syscall.SIGKILL) }) // SIGTERM would take the whole grace period
	return g
}

// linkTo links a cluster with link.yaml and the account from manifests/link. It fills in the
// placeholders.
func linkTo(t *testing.T, from, to *kube.Client, server *harness.Cluster) {
	t.Helper()
	applyManifest(
		t,
		from,
		"link.yaml",
		"https://east.example.com:6443",
		to.Server(),
		"<the cluster's CA certificate, base64>",
		base64.StdEncoding.EncodeToString(server.REST().CAData),
		"<data.token of Secret isthmus-remote-access-token in east>",
		secretToken(t, to, "linkerd-multicluster", "isthmus-remote-access-token"),
	)
}

func offerShop(t *testing.T, c *kube.Client, ip string) {
	t.Helper()
	must(
		t,
		c.Apply(t.Context(), kube.Namespace("shop"), kube.ServiceAccount("shop", "web"), kube.Service("shop", "web"),
			kube.Pod("shop", "web-0", "web"), kube.Slice("shop", "web", "1", kube.PodEndpoint(ip, "shop", "web-0"))),
	)
}

func openShop(t *testing.T, g *harness.Replica) *proxy.Stream {
	t.Helper()
	conn, err := proxy.Dial(g.Addr())
	must(t, err)
	t.Cleanup(func() { conn.Close() })
	s := proxy.NewStream(proxy.Config{
		Conn:      conn,
		MayBeLate: true,
		Kind:      proxy.Get,
		Authority: kube.Authority("shop", "web-federated"),
		Token:     `{"ns":"shop"}`,
	})
	t.Cleanup(s.Close)
	must(t, s.Open(t.Context()))
	return s
}

// awaitShop waits until a stream has exactly the endpoints with these IPs.
func awaitShop(t *testing.T, s *proxy.Stream, ips ...string) {
	t.Helper()
	var want []netip.AddrPort
	for _, ip := range ips {
		want = append(want, netip.AddrPortFrom(netip.MustParseAddr(ip), kube.Port))
	}
	await(t, "the proxy has the endpoints", func() error {
		if got := s.Snapshot().Get.Addrs(); !slices.Equal(got, want) {
			return fmt.Errorf("the proxy has %v, want %v", got, want)
		}
		return nil
	})
}

// checkSliceWriter checks that the replica is the leader under its Pod's name, and that it writes
// an EndpointSlice for an ExternalWorkload.
func checkSliceWriter(t *testing.T, c *kube.Client, g *harness.Replica, name string) {
	must(t, c.ApplyYAML(
		t.Context(),
		`apiVersion: v1
kind: Service
metadata: {name: vms, namespace: shop}
spec: {selector: {app: vm}, ports: [{port: 80, targetPort: 8080}]}
---
apiVersion: workload.linkerd.io/v1beta1
kind: ExternalWorkload
metadata: {name: vm-1, namespace: shop, labels: {app: vm}}
spec: {meshTLS: {identity: spiffe://root/vm-1, serverName: vm-1}, ports: [{port: 8080}], workloadIPs: [{ip: 10.80.3.1}]}
`,
	))
	await(t, "an EndpointSlice is written", func() error {
		page, err := harness.ReadClusters(t.Context(), g.MetricsAddr())
		if err == nil &&
			(page.Writer == nil || page.Writer.Slices != 1 || !page.Writer.Leading || page.Writer.Holder != name) {
			err = fmt.Errorf("the writer's status is %+v", page.Writer)
		}
		return err
	})
}

func gatewayHelp(t *testing.T) string {
	t.Helper()
	isthmus, err := harness.Isthmus.Path(t.Context())
	must(t, err)
	text, err := exec.CommandContext(t.Context(), isthmus, "gateway", "--help").Output()
	must(t, err)
	return string(text)
}

// checkAdmitted checks that the Deployment's Pods are admitted, and that the Pod security standard
// is enforced.
func checkAdmitted(t *testing.T, c *kube.Client, d *appsv1.Deployment) {
	pods := c.CoreV1().Pods(d.Namespace)
	create := func(name string, change func(*corev1.PodSpec)) error {
		pod := &corev1.Pod{ObjectMeta: d.Spec.Template.ObjectMeta, Spec: *d.Spec.Template.Spec.DeepCopy()}
		pod.Name = name
		change(&pod.Spec)
		_, err := pods.Create(t.Context(), pod, metav1.CreateOptions{})
		return err
	}
	for _, name := range []string{"isthmus-0", "isthmus-1"} {
		if err := create(name, func(*corev1.PodSpec) {}); err != nil {
			t.Errorf("Pod %s: %v", name, err)
		}
	}
	for name, change := range map[string]func(*corev1.PodSpec){
		"no-seccomp": func(s *corev1.PodSpec) { s.SecurityContext.SeccompProfile = nil },
		"privileged": func(s *corev1.PodSpec) { s.Containers[0].SecurityContext.AllowPrivilegeEscalation = nil },
		"root":       func(s *corev1.PodSpec) { s.SecurityContext.RunAsNonRoot = nil },
		"network":    func(s *corev1.PodSpec) { s.HostNetwork = true },
	} {
		if err := create(name, change); !apierrors.IsForbidden(err) ||
			!strings.Contains(err.Error(), "violates PodSecurity") {
			t.Errorf("Pod security does not reject Pod %s: %v", name, err)
		}
	}
}

// checkSelected checks that all selectors match these Pods and that all named ports exist.
func checkSelected(t *testing.T, objects []*unstructured.Unstructured, template corev1.PodTemplateSpec) {
	service := find[corev1.Service](t, objects, "Service", "isthmus")
	budget := find[policyv1.PodDisruptionBudget](t, objects, "PodDisruptionBudget", "isthmus")
	policy := find[networkingv1.NetworkPolicy](t, objects, "NetworkPolicy", "isthmus")
	selectors := map[string]*metav1.LabelSelector{
		"Service":             {MatchLabels: service.Spec.Selector},
		"PodDisruptionBudget": budget.Spec.Selector,
		"NetworkPolicy":       &policy.Spec.PodSelector,
		"Deployment":          find[appsv1.Deployment](t, objects, "Deployment", "isthmus").Spec.Selector,
	}
	for i := range template.Spec.TopologySpreadConstraints {
		selectors[fmt.Sprintf("spread %d", i)] = template.Spec.TopologySpreadConstraints[i].LabelSelector
	}
	if len(selectors) != 6 {
		t.Errorf("%d selectors, want six", len(selectors))
	}
	for name, s := range selectors {
		selector, err := metav1.LabelSelectorAsSelector(s)
		if err != nil || selector.Empty() || !selector.Matches(labels.Set(template.Labels)) {
			t.Errorf("%s selects %v, want %v: %v", name, selector, template.Labels, err)
		}
	}
	c := template.Spec.Containers[0]
	named := []intstr.IntOrString{
		service.Spec.Ports[0].TargetPort,
		c.LivenessProbe.HTTPGet.Port,
		c.ReadinessProbe.HTTPGet.Port,
	}
	for _, rule := range policy.Spec.Ingress {
		for _, p := range rule.Ports {
			named = append(named, *p.Port)
		}
	}
	for _, port := range named {
		if !slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.Name == port.StrVal }) {
			t.Errorf("the container has no port %s", port.String())
		}
	}
}

// TestTimesAddUp checks that an installed replica ends before its grace period does.
func TestTimesAddUp(t *testing.T) {
	own := find[appsv1.Deployment](t, build(t, manifest(t, "install")), "Deployment", "isthmus")
	for name, template := range map[string]corev1.PodTemplateSpec{
		"install": own.Spec.Template,
		"linkerd": inLinkerd(t, "plain").Spec.Template,
	} {
		for _, c := range template.Spec.Containers {
			if c.Name != "isthmus" && c.Name != "destination" {
				continue
			}
			grace := 30 * time.Second
			if s := template.Spec.TerminationGracePeriodSeconds; s != nil {
				grace = time.Duration(*s) * time.Second
			}
			hook, err := preStop(c)
			must(t, err)
			delay, drain := duration(t, c.Args, "shutdown-delay"), duration(t, c.Args, "drain")
			// According to docs/operations.md, the process ends a second after both delays.
			if needs := hook + delay + drain + time.Second; needs > grace || delay == 0 {
				t.Errorf(
					"%s: preStop %v, --shutdown-delay %v, --drain %v and a second are more than the grace of %v",
					name,
					hook,
					delay,
					drain,
					grace,
				)
			}
			if ready := time.Duration(own.Spec.MinReadySeconds) * time.Second; name == "install" &&
				(delay <= 30*time.Second || ready <= delay+drain) {
				t.Errorf(
					"--shutdown-delay %v is not longer than DNS caches live, or minReadySeconds %v not than it and "+
						"--drain %v",
					delay,
					ready,
					drain,
				)
			}
		}
	}
}

// TestHungIsKilledSoon checks that a hanging replica is killed long before the end of the grace
// period for draining.
func TestHungIsKilledSoon(t *testing.T) {
	p := find[appsv1.Deployment](t, build(t, manifest(t, "install")), "Deployment", "isthmus").Spec.Template.Spec
	if grace := p.Containers[0].LivenessProbe.TerminationGracePeriodSeconds; grace == nil || *grace > 10 ||
		*grace >= *p.TerminationGracePeriodSeconds {
		t.Errorf("the liveness probe has no grace period of at most 10 s")
	}
}

func preStop(c corev1.Container) (time.Duration, error) {
	switch {
	case c.Lifecycle == nil || c.Lifecycle.PreStop == nil:
		return 0, nil
	case c.Lifecycle.PreStop.Sleep == nil:
		return 0, fmt.Errorf("container %s: the duration of its preStop hook is unknown", c.Name)
	}
	return time.Duration(c.Lifecycle.PreStop.Sleep.Seconds) * time.Second, nil
}

// duration returns the value of a flag from the arguments, or its default from the help.
func duration(t *testing.T, args []string, name string) time.Duration {
	t.Helper()
	for _, arg := range slices.Backward(args) {
		if value, ok := strings.CutPrefix(strings.TrimLeft(arg, "-"), name+"="); ok {
			d, err := time.ParseDuration(value)
			must(t, err)
			return d
		}
	}
	help := regexp.MustCompile(`(?s)\n +--` + name + ` .*?\(default\s+([^)]+)\)`).FindStringSubmatch(gatewayHelp(t))
	if help == nil {
		t.Fatalf("the help has no default of --%s", name)
	}
	d, err := time.ParseDuration(help[1])
	must(t, err)
	return d
}

// TestMemory checks that a replica reads the container's memory limit itself and uses 90 % of it
// for Go. If GOMEMLIMIT were the whole limit, the kernel could kill the replica.
func TestMemory(t *testing.T) {
	c := find[appsv1.Deployment](
		t,
		build(t, manifest(t, "install")),
		"Deployment",
		"isthmus",
	).Spec.Template.Spec.Containers[0]
	if limit := c.Resources.Limits.Memory(); limit.Value() < 256<<20 || c.Resources.Requests.Memory().Cmp(*limit) > 0 {
		t.Errorf("the memory request is %v and the limit is %v", c.Resources.Requests.Memory(), limit)
	}
	if slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == "GOMEMLIMIT" || e.Name == "GOGC" }) {
		t.Error("GOMEMLIMIT or GOGC is set")
	}
	// Isthmus does not detect a limit that is resized in place. GOMEMLIMIT, --cluster-memory and
	// --view-memory keep their initial values.
	if !slices.Contains(
		c.ResizePolicy,
		corev1.ContainerResizePolicy{ResourceName: corev1.ResourceMemory, RestartPolicy: corev1.RestartContainer},
	) {
		t.Errorf("an in-place resize of memory does not restart the container: %v", c.ResizePolicy)
	}
	if _, limited := c.Resources.Limits[corev1.ResourceCPU]; limited || c.Resources.Requests.Cpu().IsZero() {
		t.Error("there is a CPU limit or no CPU request")
	}
}

func checkProbes(t *testing.T, c corev1.Container, g *harness.Replica) {
	for name, probe := range map[string]*corev1.Probe{"liveness": c.LivenessProbe, "readiness": c.ReadinessProbe} {
		if _, err := harness.GetPage(t.Context(), g.MetricsAddr(), probe.HTTPGet.Path); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	help := gatewayHelp(t)
	for port, flag := range map[int32]string{8086: "addr", 9996: "metrics-addr"} {
		if !regexp.MustCompile(fmt.Sprintf(`(?s)\n +--%s .*?\(default\s+":%d"\)`, flag, port)).MatchString(help) ||
			!slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.ContainerPort == port }) {
			t.Errorf("port %d is not the default of --%s, or not a port of the container", port, flag)
		}
	}
}

// installedIn returns the kustomization for an installation in a namespace. Linkerd's own namespace
// does not need transformers.
func installedIn(namespace string, transformers ...string) kustomization {
	return kustomization{
		Resources:    []string{"install"},
		Components:   []string{"install/exports"},
		Transformers: transformers,
		Namespace:    namespace,
	}
}

// permission is an expected answer from kubectl auth can-i.
type permission struct {
	question string
	answer   string // yes or no
}

// TestTwoInstallations checks that two installations in one cluster have separate permissions,
// regardless of the order in which they are applied. A kustomization that only overrides the
// namespace must not remove permissions from either.
func TestTwoInstallations(t *testing.T) {
	t.Parallel()
	server := startClusters(t, []string{"namespace", "serviceaccount"}, "west")[0]
	c := client(t, server)
	for _, name := range []string{"linkerd", "my-mesh", "plain", "linkerd-multicluster"} {
		must(t, c.Apply(t.Context(), kube.Namespace(name)))
	}
	first := overlay(t, installedIn("linkerd"), nil)
	second := overlay(t, installedIn("my-mesh", "install/names", "install/exports/names"), nil)
	plain := overlay(t, installedIn("plain"), nil)
	mirrors := overlay(t, kustomization{
		Resources:    []string{"install/exports/linkerd"},
		Transformers: []string{"install/exports/linkerd/names"},
		Namespace:    "my-mesh",
	}, nil)
	allowed := []permission{
		{"list pods -A", "yes"},
		{"update endpointslices.discovery.k8s.io -A", "yes"},
		{"create services -A", "yes"},
		{"list namespaces -A", "yes"},
		{"list leases.coordination.k8s.io -n linkerd-multicluster", "yes"},
		{"delete namespaces -A", "no"},
	}
	denied := []permission{{"list pods -A", "no"}, {"create services -A", "no"}}
	for _, order := range [][]string{
		{first, manifest(t, "install/exports/linkerd"), second, mirrors, plain},
		{plain, mirrors, second, manifest(t, "install/exports/linkerd"), first},
	} {
		for _, dir := range order {
			mustShell(t, server, "kubectl apply -k "+dir)
		}
		for _, account := range []string{
			"linkerd:isthmus", "linkerd:linkerd-destination", "my-mesh:isthmus", "my-mesh:linkerd-destination",
		} {
			expected := allowed
			if strings.HasSuffix(account, ":linkerd-destination") {
				expected = allowed[2:] // Linkerd's own manifest grants the first two
			}
			awaitPermissions(t, server, account, expected)
		}
		awaitPermissions(t, server, "plain:isthmus", denied)
	}
}

// awaitPermissions waits until an API server returns the expected answers for a ServiceAccount,
// NAMESPACE:NAME.
func awaitPermissions(t *testing.T, server *harness.Cluster, account string, expected []permission) {
	t.Helper()
	for _, p := range expected {
		command := fmt.Sprintf("kubectl auth can-i %s --as=system:serviceaccount:%s || true", p.question, account)
		await(t, account+": "+p.question, func() error {
			out, err := shell(t, server, command)
			if lines := strings.Fields(out); err == nil && (len(lines) == 0 || lines[len(lines)-1] != p.answer) {
				err = fmt.Errorf("the answer is not %s: %s", p.answer, out)
			}
			return err
		})
	}
}

// TestTwoLinkAccounts checks that two accounts for links in one cluster have separate permissions,
// regardless of the order in which they are applied.
func TestTwoLinkAccounts(t *testing.T) {
	t.Parallel()
	server := startClusters(t, []string{"namespace", "serviceaccount"}, "east")[0]
	c := client(t, server)
	for _, name := range []string{"linkerd-multicluster", "my-mesh", "plain"} {
		must(t, c.Apply(t.Context(), kube.Namespace(name)))
	}
	first := manifest(t, "link")
	second := overlay(t, kustomization{
		Resources: []string{"link"}, Transformers: []string{"link/names"}, Namespace: "my-mesh",
	}, nil)
	plain := overlay(t, kustomization{Resources: []string{"link"}, Namespace: "plain"}, nil)
	for _, order := range [][]string{{first, second, plain}, {plain, second, first}} {
		for _, dir := range order {
			mustShell(t, server, "kubectl apply -k "+dir)
		}
		allowed := []permission{{"list pods -A", "yes"}, {"list secrets -A", "no"}}
		awaitPermissions(t, server, "linkerd-multicluster:isthmus-remote-access", allowed)
		awaitPermissions(t, server, "my-mesh:isthmus-remote-access", allowed)
		awaitPermissions(t, server, "plain:isthmus-remote-access", []permission{{"list pods -A", "no"}})
	}
}

// TestInstallBeforeLinkerd installs Isthmus in a cluster without Linkerd's CRDs, in a namespace of
// another name. The replica must become ready, for which it needs permission to read Secrets in its
// own namespace. It must show the missing resources, and watch them as soon as they exist.
func TestInstallBeforeLinkerd(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	server := startClusters(t, []string{"namespace", "serviceaccount"}, "west")[0]
	west := client(t, server)
	removed := removeDefinitions(t, west)
	dir := overlay(t, kustomization{
		Resources: []string{"install"}, Namespace: "mesh", Transformers: []string{"install/names"},
	}, nil)
	must(t, west.Apply(ctx, restricted("mesh")))
	mustShell(t, server, "kubectl apply -k "+dir)
	offerShop(t, west, "10.82.1.1")
	must(t, west.Apply(ctx, kube.Federated("shop", "web-federated", "web")))

	d := find[appsv1.Deployment](t, build(t, dir), "Deployment", "isthmus")
	g := startPod(t, server, west, podOf(d, "isthmus-0"))
	awaitShop(t, openShop(t, g), "10.82.1.1")
	await(t, "the page shows the missing resources", func() error {
		return missing(t, g, "externalworkloads", "servers", "serviceprofiles")
	})
	for _, o := range removed {
		must(t, west.Apply(ctx, o))
	}
	await(t, "no resource is missing", func() error { return missing(t, g) })
	west = client(t, server) // a new client that discovers the CRDs
	must(t, west.Apply(ctx, kube.OpaqueServer("shop", "web", "web", kube.Port)))
	await(t, "Servers are watched", func() error {
		page, err := harness.ReadClusters(ctx, g.MetricsAddr())
		if err != nil {
			return err
		}
		i := slices.IndexFunc(page.Local.Resources, func(r adminapi.Resource) bool { return r.Resource == "servers" })
		if i < 0 || page.Local.Resources[i].Objects != 1 {
			return fmt.Errorf("the local cluster has %+v", page.Local.Resources)
		}
		return nil
	})
}

// missing returns an error unless the page shows that exactly these resources of the local cluster
// cannot be read.
func missing(t *testing.T, g *harness.Replica, resources ...string) error {
	t.Helper()
	page, err := harness.ReadClusters(t.Context(), g.MetricsAddr())
	if err != nil {
		return err
	}
	if page.Local.State != "ready" {
		return fmt.Errorf("the local cluster is %s", page.Local.State)
	}
	var names []string
	for _, r := range page.Local.Resources {
		if r.Err != "" {
			names = append(names, r.Resource)
		}
	}
	if slices.Sort(names); !slices.Equal(names, resources) {
		return fmt.Errorf("%q are missing: %+v", names, page.Local.Resources)
	}
	return nil
}

var definitions = schema.GroupVersionResource{
	Group:    "apiextensions.k8s.io",
	Version:  "v1",
	Resource: "customresourcedefinitions",
}

// removeDefinitions deletes the CRDs of Linkerd's resources and waits until they have disappeared.
func removeDefinitions(t *testing.T, c *kube.Client) (removed []*unstructured.Unstructured) {
	t.Helper()
	api := c.Dynamic.Resource(definitions)
	list, err := api.List(t.Context(), metav1.ListOptions{})
	must(t, err)
	for i := range list.Items {
		o := &list.Items[i]
		must(t, api.Delete(t.Context(), o.GetName(), metav1.DeleteOptions{}))
		removed = append(removed, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
			"metadata": map[string]any{"name": o.GetName()}, "spec": o.Object["spec"],
		}})
	}
	if len(removed) != 4 {
		t.Fatalf("%d CRDs, want four", len(removed))
	}
	// If an API server cannot immediately check for remaining objects ("storage is
	// (re)initializing"), its next attempt may be minutes later. A change to the CRD triggers a new
	// attempt.
	touched := time.Now()
	err = harness.Poll(t.Context(), 3*time.Minute, 100*time.Millisecond, func() error {
		list, err := api.List(t.Context(), metav1.ListOptions{})
		if err != nil || len(list.Items) == 0 {
			return err
		}
		if name := list.Items[0].GetName(); time.Since(touched) > 5*time.Second {
			touched = time.Now()
			change := fmt.Appendf(nil, `{"metadata":{"annotations":{"touched":%q}}}`, touched)
			if _, err := api.Patch(
				t.Context(),
				name,
				types.MergePatchType,
				change,
				metav1.PatchOptions{},
			); err != nil &&
				!apierrors.IsNotFound(err) {
				return err
			}
		}
		return fmt.Errorf("CRD %s still exists: %v", list.Items[0].GetName(), list.Items[0].Object["status"])
	})
	must(t, err)
	for _, version := range []string{
		"linkerd.io/v1alpha2",
		"policy.linkerd.io/v1beta3",
		"workload.linkerd.io/v1beta1",
	} {
		await(t, version+" is deleted", func() error {
			if _, err := c.Discovery().ServerResourcesForGroupVersion(version); !apierrors.IsNotFound(err) {
				return errors.Join(errors.New("it still exists"), err)
			}
			return nil
		})
	}
	return removed
}

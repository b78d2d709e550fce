package e2e

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"isthmus/e2e/harness"
	"isthmus/e2e/harness/kube"
)

// helm is Helm 4 with its own home directory, and with isthmus in $PATH.
type helm struct{ path, kubeconfig, home string }

func newHelm(t *testing.T, kubeconfig string) helm {
	t.Helper()
	path, err := harness.Helm.Path(t.Context())
	must(t, err)
	return helm{path, kubeconfig, t.TempDir()}
}

// try runs Helm and returns its output. If Helm fails, its error output is the error.
func (h helm) try(t *testing.T, args ...string) (string, error) {
	t.Helper()
	isthmus, err := harness.Isthmus.Path(t.Context())
	must(t, err)
	bin := filepath.Join(h.home, "bin")
	must(t, os.MkdirAll(bin, 0o755))
	if err := os.Symlink(isthmus, filepath.Join(bin, "isthmus")); !os.IsExist(err) {
		must(t, err)
	}
	cmd := exec.CommandContext(t.Context(), h.path, args...)
	cmd.Env = append(
		userEnvironment(t),
		"HOME="+h.home,
		"HELM_CACHE_HOME="+h.home,
		"HELM_CONFIG_HOME="+h.home,
		"HELM_DATA_HOME="+h.home,
		"KUBECONFIG="+h.kubeconfig,
		"PATH="+bin+":"+os.Getenv("PATH"),
	)
	var out, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaint
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("helm %s: %w: %s", strings.Join(args, " "), err, complaint.String())
	}
	return out.String(), nil
}

func (h helm) run(t *testing.T, args ...string) string {
	t.Helper()
	out, err := h.try(t, args...)
	must(t, err)
	return out
}

// template renders the chart for the namespace linkerd, without the Pod for helm test.
func (h helm) template(t *testing.T, args ...string) []*unstructured.Unstructured {
	t.Helper()
	objects, err := kube.Parse(h.run(
		t,
		slices.Concat(
			[]string{"template", "isthmus", manifest(t, "chart"), "-n", "linkerd", "--skip-tests"},
			args,
		)...))
	must(t, err)
	return objects
}

// chartLabels are the labels that the chart adds to the objects in manifests/install.
var chartLabels = []string{
	"app.kubernetes.io/instance",
	"app.kubernetes.io/managed-by",
	"app.kubernetes.io/version",
	"helm.sh/chart",
}

// asBase removes the known differences between the rendered chart and manifests/install. The chart
// adds the release to the names of cluster-scoped objects, and adds Helm's labels. In manifests,
// ClusterRoleBindings and the RoleBinding for exports refer to ServiceAccounts by user names.
func asBase(objects []*unstructured.Unstructured) {
	for _, o := range objects {
		labels := o.GetLabels()
		for _, key := range chartLabels {
			delete(labels, key)
		}
		o.SetLabels(labels)
		global := func(fields ...string) {
			if name, found, _ := unstructured.NestedString(o.Object, fields...); found {
				_ = unstructured.SetNestedField(
					o.Object,
					strings.Replace(name, "isthmus-linkerd", "isthmus", 1),
					fields...)
			}
		}
		global("metadata", "name")
		global("roleRef", "name")
		global("spec", "policyName")
		if o.GetKind() == "ClusterRoleBinding" || o.GetKind() == "RoleBinding" && o.GetName() == "isthmus-exports" {
			byUserNames(o)
		}
	}
}

// byUserNames replaces the ServiceAccounts in a binding by their user names.
func byUserNames(binding *unstructured.Unstructured) {
	subjects, _, _ := unstructured.NestedSlice(binding.Object, "subjects")
	for i := range subjects {
		account := subjects[i].(map[string]any)
		subjects[i] = map[string]any{
			"kind":     rbacv1.UserKind,
			"apiGroup": rbacv1.GroupName,
			"name":     fmt.Sprintf("system:serviceaccount:%s:%s", account["namespace"], account["name"]),
		}
	}
	_ = unstructured.SetNestedSlice(binding.Object, subjects, "subjects")
}

func with(a, b map[string]string) map[string]string {
	all := maps.Clone(b)
	maps.Copy(all, a)
	return all
}

// TestChartIsTheBase checks that the chart renders the same fields as manifests/install by default.
// With exports and a PodMonitor, it must render the same fields as the components and the guard.
func TestChartIsTheBase(t *testing.T) {
	t.Parallel()
	h := newHelm(t, "")
	got := h.template(t)
	asBase(got)
	sameObjects(t, "the chart", got, build(t, manifest(t, "install")))

	got = h.template(t,
		"--set", "exports.mode=on,exports.linkerdNamespace=linkerd-multicluster,"+
			"podMonitor.enabled=true,exports.mcsCRDs=true",
		"--set", "exports.excludeLabels={example.com/*,!example.com/a},exports.maxPerNamespace=400,"+
			"exports.maxPerLink=2000",
		"--set", "extraArgs={--log-level=debug}")
	asBase(got)
	want := build(t, overlay(
		t,
		kustomization{
			Resources:  []string{"install"},
			Components: []string{"install/exports", "install/mcs-crds", "install/podmonitor"},
		},
		nil,
	))
	want = slices.Concat(
		want,
		build(t, manifest(t, "install/exports/guard")),
		build(t, manifest(t, "install/exports/linkerd")),
	)
	for _, o := range want {
		if o.GetKind() == "CustomResourceDefinition" {
			o.SetAnnotations(with(o.GetAnnotations(), map[string]string{"helm.sh/resource-policy": "keep"}))
			continue
		}
		o.SetLabels(with(
			o.GetLabels(),
			map[string]string{"app.kubernetes.io/name": "isthmus", "app.kubernetes.io/part-of": "isthmus"},
		))
		if o.GetKind() == "Deployment" {
			d := find[appsv1.Deployment](t, want, "Deployment", "isthmus")
			c := &d.Spec.Template.Spec.Containers[0]
			c.Args = append(c.Args, "--exports=on", "--multicluster-namespace=linkerd-multicluster",
				"--export-exclude-labels=example.com/*,!example.com/a", "--max-exports-per-namespace=400",
				"--max-exports-per-link=2000", "--log-level=debug")
			changed, err := kube.Unstructured(d)
			must(t, err)
			o.Object = changed.Object
		}
	}
	sameObjects(t, "the chart with all values", got, want)
}

// TestChartValues checks that each value sets the field that its name suggests, and that unknown
// values are rejected.
func TestChartValues(t *testing.T) {
	t.Parallel()
	h := newHelm(t, "")
	digest := "sha256:" + strings.Repeat("0a", 32)
	objects := h.template(
		t,
		"--set",
		"image.repository=registry.example.com/isthmus,image.digest="+digest+
			",image.pullPolicy=Always,imagePullSecrets[0].name=registry",
		"--set",
		"replicaCount=3,priorityClassName=high,commonLabels.team=mesh,podLabels.pod=label,"+
			"podAnnotations.pod=annotation,nodeSelector.disk=ssd,networkPolicy.enabled=false",
		"--set",
		"podMonitor.enabled=true,podMonitor.labels.release=prometheus,podMonitor.interval=15s",
		"--set",
		"clusterDomain=corp.example,extraEnv[0].name=GODEBUG,extraEnv[0].value=x509sha1=1",
		"--set",
		"serviceAccount.annotations.example\\.com/role=mesh",
		"--set",
		"tolerations[0].key=dedicated,resources.limits.memory=1Gi",
		"--set-json",
		`affinity={"podAntiAffinity":{}}`,
	)
	d := find[appsv1.Deployment](t, objects, "Deployment", "isthmus")
	s, c := d.Spec.Template.Spec, d.Spec.Template.Spec.Containers[0]
	monitor := named(t, objects, "PodMonitor", "isthmus")
	scraped, _, err := unstructured.NestedSlice(monitor.Object, "spec", "podMetricsEndpoints")
	must(t, err)
	account := named(t, objects, "ServiceAccount", "isthmus")
	for what, ok := range map[string]bool{
		"image": c.Image == "registry.example.com/isthmus@"+digest && c.ImagePullPolicy == "Always" &&
			s.ImagePullSecrets[0].Name == "registry",
		"replicas": *d.Spec.Replicas == 3,
		"priority": s.PriorityClassName == "high",
		"node":     s.NodeSelector["disk"] == "ssd",
		"labels": d.Labels["team"] == "mesh" && d.Spec.Template.Labels["team"] == "mesh" &&
			d.Spec.Template.Labels["pod"] == "label",
		"annotations": d.Spec.Template.Annotations["pod"] == "annotation" &&
			d.Spec.Template.Annotations["kubectl.kubernetes.io/default-container"] == "isthmus",
		"monitor": monitor.GetLabels()["release"] == "prometheus" &&
			scraped[0].(map[string]any)["interval"] == "15s",
		"account": account.GetAnnotations()["example.com/role"] == "mesh",
		"domains": slices.Contains(c.Args, "--cluster-domain=corp.example") &&
			slices.Contains(c.Args, "--identity-trust-domain=corp.example"),
		"environment": len(c.Env) == 2 && c.Env[1].Name == "GODEBUG" && c.Env[1].Value == "x509sha1=1",
		"tolerations": len(s.Tolerations) == 1 && s.Affinity != nil,
		"memory":      c.Resources.Limits.Memory().String() == "1Gi",
		"policy": !slices.ContainsFunc(
			objects,
			func(o *unstructured.Unstructured) bool { return o.GetKind() == "NetworkPolicy" },
		),
	} {
		if !ok {
			t.Errorf("%s: %+v", what, d)
		}
	}
	for _, wrong := range []string{"replicas=3", "image.digest=1234", "exports.mode=maybe",
		"exports.excludeLabels={a/b/c}", "exports.maxPerNamespace=0", "exports.maxPerLink=5001",
		"resources.limit.memory=1Gi", "extraArgs={exports}", "image.pullPolicy=Sometimes",
		"podMonitor.interval=often", "extraEnv[0].name=NAMESPACE", "clusterDomain=",
		"podSecurityContext.runAsUsr=null", "securityContext.runAsUser=root"} {
		if _, err := h.try(t, "template", "isthmus", manifest(t, "chart"), "--set", wrong); err == nil ||
			!strings.Contains(err.Error(), "values don't meet the specifications of the schema") {
			t.Errorf("%s: %v", wrong, err)
		}
	}
}

// TestOpenShift checks that the chart and the kustomize component omit only the fixed user and
// group, which the SCC restricted-v2 rejects.
func TestOpenShift(t *testing.T) {
	t.Parallel()
	h := newHelm(t, "")
	subchart := filepath.Join(t.TempDir(), "mesh")
	must(t, os.MkdirAll(filepath.Join(subchart, "charts"), 0o755))
	must(t, os.Symlink(manifest(t, "chart"), filepath.Join(subchart, "charts", "isthmus")))
	must(t, os.WriteFile(
		filepath.Join(subchart, "Chart.yaml"),
		[]byte("apiVersion: v2\nname: mesh\nversion: 1.0.0\n"),
		0o600,
	))
	values := filepath.Join(t.TempDir(), "values.yaml")
	must(t, os.WriteFile(values, []byte("isthmus: {podSecurityContext: {runAsUser: null, runAsGroup: null}}\n"), 0o600))
	ofSubchart, err := kube.Parse(h.run(t, "template", "isthmus", subchart, "-n", "linkerd", "-f", values))
	must(t, err)
	for what, objects := range map[string][]*unstructured.Unstructured{
		"component": build(
			t,
			overlay(t, kustomization{Resources: []string{"install"}, Components: []string{"install/openshift"}}, nil),
		),
		"chart":    h.template(t, "--set", "podSecurityContext.runAsUser=null,podSecurityContext.runAsGroup=null"),
		"subchart": ofSubchart,
	} {
		want := find[appsv1.Deployment](t, build(t, manifest(t, "install")), "Deployment", "isthmus").Spec.Template.Spec
		want.SecurityContext.RunAsUser = nil
		want.SecurityContext.RunAsGroup = nil
		got := find[appsv1.Deployment](t, objects, "Deployment", "isthmus").Spec.Template.Spec
		if !equality.Semantic.DeepEqual(got.SecurityContext, want.SecurityContext) {
			t.Errorf("%s: the Pod's security context is %v, want %v", what, got.SecurityContext, want.SecurityContext)
		}
		if !equality.Semantic.DeepEqual(got.Containers[0].SecurityContext, want.Containers[0].SecurityContext) {
			t.Errorf("%s: the container's security context is %v", what, got.Containers[0].SecurityContext)
		}
	}
}

// TestChartRefuses checks that values without the expected effect are rejected with a hint.
func TestChartRefuses(t *testing.T) {
	t.Parallel()
	h := newHelm(t, "")
	for want, args := range map[string][]string{
		"image.tag and image.digest are both set": {
			"--set",
			"image.tag=v1,image.digest=sha256:" + strings.Repeat("0a", 32),
		},
		"exports.guard needs Kubernetes 1.30":    {"--set", "exports.mode=on", "--kube-version", "1.29.0"},
		"is incompatible with Kubernetes v1.26.": {"--kube-version", "1.26.0"},
	} {
		if _, err := h.try(t, append([]string{"template", "isthmus", manifest(t, "chart")}, args...)...); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v", args, err)
		}
	}
}

// TestHelm checks that Helm adopts an installation made with kubectl, and then upgrades, rolls back
// and removes it. Objects written by Isthmus must stay.
func TestHelm(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	server := startClusters(t, nil, "own")[0]
	c := client(t, server)
	must(t, c.Apply(ctx, restricted("linkerd"), kube.Namespace("shop")))
	apply(t, c, build(t, manifest(t, "install")))
	before, err := c.AppsV1().Deployments("linkerd").Get(ctx, "isthmus", metav1.GetOptions{})
	must(t, err)
	deployed := func() *appsv1.Deployment {
		d, err := c.AppsV1().Deployments("linkerd").Get(ctx, "isthmus", metav1.GetOptions{})
		must(t, err)
		return d
	}

	h := newHelm(t, server.Kubeconfig())
	chart := []string{"isthmus", manifest(t, "chart"), "-n", "linkerd"}
	if _, err := h.try(t, append([]string{"install"}, chart...)...); err == nil ||
		!strings.Contains(err.Error(), "exists and cannot be imported") {
		t.Errorf("Helm adopts objects that kubectl applied: %v", err)
	}
	notes := h.run(t, append([]string{"install", "--take-ownership", "--force-conflicts"}, chart...)...)
	if d := deployed(); d.UID != before.UID || *d.Spec.Replicas != 2 ||
		!strings.Contains(notes, "Proxies do not use this installation") {
		t.Errorf("the adopted Deployment: %+v\n%s", d, notes)
	}
	h.run(
		t,
		slices.Concat(
			[]string{"upgrade", "--force-conflicts"},
			chart,
			[]string{"--set", "replicaCount=3,exports.mode=on,exports.mcsCRDs=true"},
		)...)
	if d := deployed(); d.UID != before.UID || *d.Spec.Replicas != 3 ||
		!slices.Contains(d.Spec.Template.Spec.Containers[0].Args, "--exports=on") {
		t.Errorf("upgraded: %+v", d)
	}
	if _, err := c.AdmissionregistrationV1().ValidatingAdmissionPolicies().Get(
		ctx,
		"isthmus-linkerd-exports",
		metav1.GetOptions{},
	); err != nil {
		t.Errorf("the guard: %v", err)
	}
	h.run(t, "rollback", "isthmus", "1", "-n", "linkerd")
	if d := deployed(); d.UID != before.UID || *d.Spec.Replicas != 2 ||
		slices.Contains(d.Spec.Template.Spec.Containers[0].Args, "--exports=on") {
		t.Errorf("rolled back: %+v", d)
	}

	await(t, "the guard is deleted", func() error {
		return c.Apply(ctx, &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "shop", Name: "web-east",
				Labels:      map[string]string{"isthmus.io/written-by": "linkerd"},
				Annotations: map[string]string{"isthmus.io/written-as": "Service shop/web-east"},
			},
			Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
		})
	})
	h.run(t, "uninstall", "isthmus", "-n", "linkerd")
	if _, err := c.AppsV1().Deployments("linkerd").Get(ctx, "isthmus", metav1.GetOptions{}); !apierrors.IsNotFound(
		err,
	) {
		t.Errorf("the Deployment after uninstall: %v", err)
	}
	if _, err := c.CoreV1().Services("shop").Get(ctx, "web-east", metav1.GetOptions{}); err != nil {
		t.Errorf("the objects written by Isthmus: %v", err)
	}
	if _, err := c.Discovery().ServerResourcesForGroupVersion("multicluster.x-k8s.io/v1beta1"); err != nil {
		t.Errorf("the definitions of the MCS-API after uninstall: %v", err)
	}
	left, err := c.RbacV1().
		ClusterRoles().
		List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=isthmus"})
	must(t, err)
	// This ClusterRole was created by kubectl.
	if i := slices.IndexFunc(left.Items, func(r rbacv1.ClusterRole) bool { return r.Name != "isthmus" }); i >= 0 {
		t.Errorf("uninstall does not delete ClusterRole %s", left.Items[i].Name)
	}
}

// TestHelmTest checks that helm test succeeds if all links work, and fails if a link does not.
func TestHelmTest(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	server := startClusters(t, []string{"namespace", "serviceaccount", "token", "deployment", "replicaset"}, "own")[0]
	c := client(t, server)
	must(t, c.Apply(ctx, restricted("linkerd")))
	h := newHelm(t, server.Kubeconfig())
	h.run(t, "install", "isthmus", manifest(t, "chart"), "-n", "linkerd")
	g := startPod(t, server, c, podOf(deploymentNamed(t, c, "isthmus"), "isthmus-0"))
	if err := h.test(t, c, g); err != nil {
		t.Errorf("without links: %v", err)
	}

	kubeconfig, err := kube.Kubeconfig(
		"dead",
		clientcmdapi.Cluster{Server: "https://127.0.0.1:1"},
		clientcmdapi.AuthInfo{Token: "t"},
	)
	must(t, err)
	must(t, c.Apply(ctx, kube.Link("dead", kubeconfig)))
	isthmus, err := harness.Isthmus.Path(ctx)
	must(t, err)
	await(t, "isthmus check fails", func() error {
		if r := runVerb(t, isthmus, "check", "--admin", g.MetricsAddr()); r.code != 1 {
			return fmt.Errorf("exit code %d\n%s", r.code, r.stdout)
		}
		return nil
	})
	if err := h.test(t, c, g); err == nil || !strings.Contains(err.Error(), "isthmus-check") {
		t.Errorf("with an unreachable link: %v", err)
	}
}

// test runs helm test. A goroutine stands in for the kubelet and runs the test Pod's command as a
// process.
func (h helm) test(t *testing.T, c *kube.Client, g *harness.Replica) error {
	t.Helper()
	ran := make(chan error, 1)
	go func() { ran <- runTestPod(t.Context(), c, g) }()
	_, err := h.try(t, "test", "isthmus", "-n", "linkerd", "--timeout", "1m")
	must(t, <-ran)
	return err
}

// runTestPod waits for the Pod of helm test, runs its command and writes the result to the Pod's
// status. It replaces the name of the release's Service, which cannot be resolved here, by the
// address of g.
func runTestPod(ctx context.Context, c *kube.Client, g *harness.Replica) error {
	var made *corev1.Pod
	err := harness.Poll(ctx, time.Minute, 50*time.Millisecond, func() (err error) {
		made, err = c.CoreV1().Pods("linkerd").Get(ctx, "isthmus-check", metav1.GetOptions{})
		if err == nil && made.Status.Phase != corev1.PodPending {
			err = fmt.Errorf("the Pod belongs to an earlier test: %s", made.Status.Phase)
		}
		return err
	})
	if err != nil {
		return err
	}
	isthmus, err := harness.Isthmus.Path(ctx)
	if err != nil {
		return err
	}
	args := slices.Clone(made.Spec.Containers[0].Args)
	at := slices.Index(args, "--admin=isthmus.linkerd.svc.cluster.local:9996")
	if at < 0 {
		return fmt.Errorf("the Pod does not use the release's Service: %q", args)
	}
	args[at] = "--admin=" + g.MetricsAddr()
	made.Status.Phase = corev1.PodSucceeded
	if err := exec.CommandContext(ctx, isthmus, args...).Run(); err != nil {
		made.Status.Phase = corev1.PodFailed
	}
	_, err = c.CoreV1().Pods("linkerd").UpdateStatus(ctx, made, metav1.UpdateOptions{})
	return err
}

// TestHelmPostRenderer checks that Helm 4 with the plugin keeps Isthmus in place of Linkerd's
// destination controller, and that a rollback restores the destination controller.
func TestHelmPostRenderer(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	server := startClusters(t, nil, "own")[0]
	c := client(t, server)
	must(t, c.Apply(ctx, kube.Namespace("linkerd")))
	chart := t.TempDir()
	must(t, os.Mkdir(filepath.Join(chart, "templates"), 0o755))
	must(
		t,
		os.WriteFile(
			filepath.Join(chart, "Chart.yaml"),
			[]byte("apiVersion: v2\nname: linkerd-control-plane\nversion: 1.0.0\n"),
			0o600,
		),
	)
	text := bytes.ReplaceAll(manifestOf(t, rendered(t, "plain")), []byte("{{"), []byte(`{{"{{"}}`))
	must(t, os.WriteFile(filepath.Join(chart, "templates", "linkerd.yaml"), text, 0o600))
	image := func() string {
		d, err := c.AppsV1().Deployments("linkerd").Get(ctx, "linkerd-destination", metav1.GetOptions{})
		must(t, err)
		return destination(d).Image
	}

	h := newHelm(t, server.Kubeconfig())
	h.run(t, "plugin", "install", "--verify=false", manifest(t, "linkerd/helm-plugin"))
	h.run(t, "install", "linkerd-control-plane", chart, "-n", "linkerd")
	linkerds := image()
	with := []string{
		"upgrade",
		"linkerd-control-plane",
		chart,
		"-n",
		"linkerd",
		"--post-renderer",
		"isthmus-post-render",
		"--post-renderer-args",
	}
	h.run(t, append(with, "--image="+patchedImage)...)
	if got := image(); got != patchedImage {
		t.Errorf("upgraded with the post-renderer: %s", got)
	}
	if _, err := h.try(t, append(with, "--image=isthmus")...); err == nil || image() != patchedImage {
		t.Errorf("without a tag: %v, %s", err, image())
	}
	h.run(t, "rollback", "linkerd-control-plane", "1", "-n", "linkerd")
	if got := image(); got != linkerds {
		t.Errorf("rolled back: %s, want %s", got, linkerds)
	}
}

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"isthmus/e2e/harness"
	"isthmus/e2e/harness/kube"
)

// installed contains the README's commands that install Isthmus.
type installed struct {
	image     string // image in the commands
	own       []string
	inLinkerd []string
	back      string
}

// readInstall reads the commands from the README. It omits the command that builds the image, which
// package image tests.
func readInstall(t *testing.T) installed {
	t.Helper()
	blocks := readCommands(t, "Install")
	if len(blocks) != 2 || len(blocks[0]) != 3 || len(blocks[1]) != 3 {
		t.Fatalf("want three commands for each way, with the way back last: %q", blocks)
	}
	found := regexp.MustCompile(`^make image IMAGE=(\S+) && docker push (\S+)$`).FindStringSubmatch(blocks[0][0])
	if found == nil || found[1] != found[2] {
		t.Fatalf("the first command does not push the image that it builds: %q", blocks[0][0])
	}
	return installed{found[1], blocks[0][1:], blocks[1][:2], blocks[1][2]}
}

// TestInstallAsDocumented runs the README's commands for a standalone installation in a namespace
// that enforces the Pod security standard restricted, and applies manifests/link to another
// cluster. The Pods must be created and admitted. One of them, run as a process, must have all the
// permissions that it needs and serve both clusters.
func TestInstallAsDocumented(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	readme := readInstall(t)
	servers := startClusters(
		t,
		[]string{"namespace", "serviceaccount", "token", "deployment", "replicaset"},
		"west",
		"east",
	)
	west, east := client(t, servers[0]), client(t, servers[1])
	mustShell(t, servers[0], readme.own[0])
	must(t, west.Apply(ctx, restricted("linkerd")))
	mustShell(t, servers[0], "kubectl apply -k manifests/install")
	if image := deploymentNamed(t, west, "isthmus").Spec.Template.Spec.Containers[0].Image; image != "isthmus:dev" {
		t.Errorf("kubectl apply -k alone installs %s", image)
	}
	mustShell(t, servers[0], readme.own[1])
	if again := mustShell(t, servers[0], readme.own[1]); !strings.Contains(
		again,
		"deployment.apps/isthmus unchanged\n",
	) {
		t.Errorf("applying the manifests again replaces the Pods:\n%s", again)
	}
	d := deploymentNamed(t, west, "isthmus")
	if image := d.Spec.Template.Spec.Containers[0].Image; image != readme.image {
		t.Errorf("the image is %s, want %s", image, readme.image)
	}
	await(t, "a Pod is admitted", func() error { return podsMade(t, west, d) })
	t.Run("admitted", func(t *testing.T) { checkAdmitted(t, west, d) })
	t.Run("selected", func(t *testing.T) { checkSelected(t, build(t, manifest(t, "install")), d.Spec.Template) })

	must(t, east.Apply(ctx, restricted("linkerd-multicluster")))
	apply(t, east, build(t, manifest(t, "link")))
	linkTo(t, west, east, servers[1])
	offerShop(t, west, "10.83.1.1")
	offerShop(t, east, "10.83.2.1")
	must(t, west.Apply(ctx, kube.Federated("shop", "web-federated", "web", "web@east")))
	g := startPod(t, servers[0], west, podOf(d, "isthmus-0"))
	awaitReady(t, g, "east")
	stream := openShop(t, g)
	awaitShop(t, stream, "10.83.1.1", "10.83.2.1")
	t.Run("probes", func(t *testing.T) { checkProbes(t, d.Spec.Template.Spec.Containers[0], g) })
	t.Run("slices", func(t *testing.T) { checkSliceWriter(t, west, g, "isthmus-0") })
	if s := stream.Status(); s.Err != nil || len(s.Faults) > 0 {
		t.Errorf("the proxy's stream: %v, %v", s.Err, s.Faults)
	}
}

// podsMade returns an error unless controllers have created Pods for the Deployment with the right
// image, and these Pods were admitted.
func podsMade(t *testing.T, c *kube.Client, d *appsv1.Deployment) error {
	pods, err := c.CoreV1().
		Pods(d.Namespace).
		List(t.Context(), metav1.ListOptions{LabelSelector: metav1.FormatLabelSelector(d.Spec.Selector)})
	if err != nil {
		return err
	}
	var made int32
	for _, p := range pods.Items {
		if p.Spec.Containers[0].Image == d.Spec.Template.Spec.Containers[0].Image {
			made++
		}
	}
	if made == 0 {
		return fmt.Errorf(
			"none of %d Pods has the image %s: %+v",
			len(pods.Items),
			d.Spec.Template.Spec.Containers[0].Image,
			deploymentNamed(t, c, d.Name).Status,
		)
	}
	return nil
}

// TestInLinkerdAsDocumented applies Linkerd's Deployment and then runs the README's commands for
// Isthmus in place of Linkerd's destination controller. Only the image may change. With the
// container's settings and Linkerd's permissions alone, the replica must serve within the memory
// limit of the HA values. A single command must restore the previous state.
func TestInLinkerdAsDocumented(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	readme := readInstall(t)
	servers := startClusters(
		t,
		[]string{"namespace", "serviceaccount", "token", "deployment", "replicaset"},
		"west",
		"east",
	)
	server, west, east := servers[0], client(t, servers[0]), client(t, servers[1])
	must(t, west.Apply(ctx, kube.Namespace("linkerd")))
	rights, err := os.ReadFile("testdata/linkerd/rights.yaml")
	must(t, err)
	must(t, west.ApplyYAML(ctx, string(rights)))
	rendering := filepath.Join(t.TempDir(), "linkerd.yaml")
	must(t, os.WriteFile(rendering, manifestOf(t, rendered(t, "ha")), 0o600))
	mustShell(t, server, "kubectl apply -f "+rendering)
	before := deploymentNamed(t, west, "linkerd-destination")
	await(t, "Linkerd's is the first revision", func() error { return revisions(t, west, 1) })

	mustShell(t, server, readme.inLinkerd[0])
	d := deploymentNamed(t, west, "linkerd-destination")
	want := before.DeepCopy()
	destination(want).Image = readme.image
	sameSpec(t, "with Isthmus", d, want)
	await(t, "Isthmus is the second revision", func() error { return revisions(t, west, 2) })
	if out, err := shell(t, server, readme.inLinkerd[1]+" --timeout=1s"); err == nil ||
		!strings.Contains(out, "Waiting for deployment \"linkerd-destination\" rollout to finish") {
		t.Errorf("no Pod runs, but %s does not wait: %v\n%s", readme.inLinkerd[1], err, out)
	}
	checkCacheRights(t, server)
	must(t, east.Apply(ctx, kube.Namespace("linkerd-multicluster")))
	apply(t, east, build(t, manifest(t, "link")))
	linkTo(t, west, east, servers[1])
	offerShop(t, west, "10.84.1.1")
	offerShop(t, east, "10.84.2.1")
	must(t, west.Apply(ctx, kube.Federated("shop", "web-federated", "web", "web@east")))
	cfg := podOf(d, "linkerd-destination-0")
	cfg.Container = "destination"
	g := startPod(t, server, west, cfg)
	awaitReady(t, g, "east")
	awaitShop(t, openShop(t, g), "10.84.1.1", "10.84.2.1")
	checkProbes(t, *destination(d), g)
	checkSliceWriter(t, west, g, "linkerd-destination-0")
	memory, err := harness.ReadMemory(g.Pid())
	must(t, err)
	if limit := uint64(destination(d).Resources.Limits.Memory().Value()); memory.RSS > limit/2 {
		t.Errorf("without load, the replica uses %d MiB of %d MiB", memory.RSS>>20, limit>>20)
	}

	mustShell(t, server, readme.back)
	sameSpec(t, "taken back", deploymentNamed(t, west, "linkerd-destination"), before)
}

// checkCacheRights checks that manifests/linkerd/cache adds the permissions for copies of stale
// clusters to Linkerd's account.
func checkCacheRights(t *testing.T, server *harness.Cluster) {
	t.Helper()
	for _, want := range []string{"no", "yes"} {
		if want == "yes" {
			mustShell(t, server, "kubectl apply -k manifests/linkerd/cache")
		}
		for _, verb := range []string{"get", "list", "create", "delete"} {
			// The command fails if the answer is no.
			out, _ := shell(t, server, "kubectl auth can-i "+verb+" configmaps -n linkerd"+
				" --as=system:serviceaccount:linkerd:linkerd-destination")
			if got := strings.TrimSpace(out); got != want {
				t.Errorf("%s ConfigMaps: %q, want %q", verb, got, want)
			}
		}
	}
}

func revisions(t *testing.T, c *kube.Client, n int) error {
	list, err := c.AppsV1().ReplicaSets("linkerd").List(t.Context(), metav1.ListOptions{})
	if err == nil && len(list.Items) != n {
		err = fmt.Errorf("%d ReplicaSets exist", len(list.Items))
	}
	return err
}

func sameSpec(t *testing.T, what string, got, want *appsv1.Deployment) {
	t.Helper()
	var spec [2]map[string]any
	for i, d := range []*appsv1.Deployment{got, want} {
		o, err := kube.Unstructured(
			&appsv1.Deployment{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}, Spec: d.Spec},
		)
		must(t, err)
		spec[i] = o.Object
	}
	for _, d := range differences("", spec[0], spec[1]) {
		t.Errorf("%s: %s", what, d)
	}
}

func deploymentNamed(t *testing.T, c *kube.Client, name string) *appsv1.Deployment {
	t.Helper()
	d, err := c.AppsV1().Deployments("linkerd").Get(t.Context(), name, metav1.GetOptions{})
	must(t, err)
	return d
}

package e2e

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"

	"isthmus/e2e/harness"
	"isthmus/e2e/harness/kube"
)

// k3dConfig contains the fields of k3d's Simple config (k3d.io/v1alpha5) that the demo uses. It
// follows k3d's documentation, because the tests cannot import k3d's types.
type k3dConfig struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Servers int    `json:"servers"`
	Agents  int    `json:"agents"`
	Network string `json:"network"`
	Options struct {
		K3d struct {
			Wait                bool   `json:"wait"`
			Timeout             string `json:"timeout"`
			DisableLoadbalancer bool   `json:"disableLoadbalancer"`
		} `json:"k3d"`
		K3s struct {
			ExtraArgs []struct {
				Arg         string   `json:"arg"`
				NodeFilters []string `json:"nodeFilters"`
			} `json:"extraArgs"`
		} `json:"k3s"`
		Kubeconfig struct {
			UpdateDefaultKubeconfig *bool `json:"updateDefaultKubeconfig"`
			SwitchCurrentContext    *bool `json:"switchCurrentContext"`
		} `json:"kubeconfig"`
	} `json:"options"`
}

func readK3dConfig(path string) (c k3dConfig, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return c, err
	}
	if err := yaml.UnmarshalStrict(text, &c); err != nil {
		return c, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

func (c k3dConfig) arg(name string) (value string) {
	for _, a := range c.Options.K3s.ExtraArgs {
		if v, ok := strings.CutPrefix(a.Arg, name+"="); ok {
			value = v
		}
	}
	return value
}

// TestConfigs checks the k3d configuration of each cluster: all fields exist, all clusters use one
// docker network, and the user's kubeconfig does not change. The networks of Pods and Services must
// not overlap with each other or with docker's default networks. The routes in the script must lead
// to the Pod networks.
func TestConfigs(t *testing.T) {
	script, err := os.ReadFile(filepath.Join("..", "manifests/k3d/demo.sh"))
	must(t, err)
	files, err := filepath.Glob(filepath.Join("..", "manifests/k3d/*.yaml"))
	must(t, err)
	networks := map[string]netip.Prefix{
		"docker's":     netip.MustParsePrefix("172.16.0.0/12"),
		"docker's own": netip.MustParsePrefix("192.168.0.0/16"),
	}
	var names []string
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		names = append(names, name)
		c, err := readK3dConfig(file)
		must(t, err)
		k := c.Options.Kubeconfig
		timeout, err := time.ParseDuration(c.Options.K3d.Timeout)
		switch {
		case c.APIVersion != "k3d.io/v1alpha5" || c.Kind != "Simple":
			t.Errorf("%s is %s %s", name, c.APIVersion, c.Kind)
		case c.Metadata.Name != "isthmus-"+name || c.Network != "isthmus-demo" || c.Servers != 1 || c.Agents != 0:
			t.Errorf("%s: the script expects one server of isthmus-%s in network isthmus-demo: %+v", name, name, c)
		case err != nil || timeout <= 0 || !c.Options.K3d.Wait || !c.Options.K3d.DisableLoadbalancer:
			t.Errorf("%s: options.k3d are %+v: %v", name, c.Options.K3d, err)
		case k.UpdateDefaultKubeconfig == nil || *k.UpdateDefaultKubeconfig || k.SwitchCurrentContext == nil ||
			*k.SwitchCurrentContext:
			t.Errorf("%s changes the user's kubeconfig", name)
		}
		for _, a := range c.Options.K3s.ExtraArgs {
			if flag, _, _ := strings.Cut(a.Arg, "="); !slices.Contains(
				[]string{"--cluster-cidr", "--service-cidr", "--disable"},
				flag,
			) ||
				!slices.Equal(a.NodeFilters, []string{"server:*"}) {
				t.Errorf("%s: argument %+v", name, a)
			}
		}
		for _, flag := range []string{"--cluster-cidr", "--service-cidr"} {
			network, err := netip.ParsePrefix(c.arg(flag))
			must(t, err)
			for other, n := range networks {
				if n.Overlaps(network) {
					t.Errorf("%s: %s overlaps %s", name, flag, other)
				}
			}
			networks[name+"'s "+flag] = network
		}
		if want := fmt.Sprintf("%s) echo %s ;;", name, c.arg("--cluster-cidr")); !strings.Contains(
			string(script),
			want,
		) {
			t.Errorf("demo.sh does not have %q", want)
		}
	}
	if !slices.Equal(names, []string{"east", "north", "west"}) {
		t.Errorf("configs of %v", names)
	}
}

var (
	demoCalls = regexp.MustCompile(`"\$isthmus" ([a-z-]+)(.*)`)
	demoFlags = regexp.MustCompile(` (--[a-z-]+)`)
)

// TestFlags checks that the demo program supports the commands and flags in demo.sh.
func TestFlags(t *testing.T) {
	script, err := os.ReadFile(filepath.Join("..", "manifests/k3d/demo.sh"))
	must(t, err)
	isthmus, err := harness.Isthmus.Path(t.Context())
	must(t, err)
	checked := map[string]bool{}
	for _, call := range demoCalls.FindAllStringSubmatch(strings.ReplaceAll(string(script), "\\\n", ""), -1) {
		verb := call[1]
		help, err := exec.CommandContext(t.Context(), isthmus, verb, "--help").CombinedOutput()
		if err != nil {
			t.Errorf("isthmus %s --help: %v", verb, err)
		}
		for _, flag := range demoFlags.FindAllStringSubmatch(call[2], -1) {
			if !strings.Contains(string(help), "  "+flag[1]) {
				t.Errorf("isthmus %s has no %s", verb, flag[1])
			}
			checked[verb+" "+flag[1]] = true
		}
	}
	for _, call := range []string{"link --to-context", "clusters --context", "get --once"} {
		if !checked[call] {
			t.Errorf("demo.sh does not call isthmus %s", call)
		}
	}
}

// TestK3dShop applies the objects of the k3d demo to API servers. The Pods must need no permissions
// and match the selectors of their Services. A replica in west must serve the federated Service
// with endpoints in all its clusters.
func TestK3dShop(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	servers := startClusters(t, []string{"namespace", "serviceaccount", "token"}, "west", "east")
	west, east := client(t, servers[0]), client(t, servers[1])
	must(t, west.Apply(ctx, kube.Namespace("linkerd")))
	must(t, east.Apply(ctx, kube.Namespace("linkerd-multicluster")))
	applyManifest(t, west, "install/rbac.yaml")
	apply(t, east, build(t, manifest(t, "link")))
	linkTo(t, west, east, servers[1])

	shop, federated := build(t, manifest(t, "k3d/shop")), build(t, manifest(t, "k3d/federated"))
	apply(t, west, shop)
	apply(t, west, federated)
	apply(t, east, shop)
	must(t, west.Apply(ctx, restricted("strict")))
	for name, d := range map[string]*appsv1.Deployment{
		"web":    find[appsv1.Deployment](t, shop, "Deployment", "web"),
		"client": find[appsv1.Deployment](t, federated, "Deployment", "client"),
	} {
		template := d.Spec.Template
		template.Spec.ServiceAccountName = ""
		_, err := west.CoreV1().Pods("strict").Create(ctx, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name + "-admitted", Labels: template.Labels}, Spec: template.Spec,
		}, metav1.CreateOptions{})
		must(t, err)
	}
	web := find[corev1.Service](t, shop, "Service", "web")
	if pods := find[appsv1.Deployment](
		t,
		shop,
		"Deployment",
		"web",
	).Spec.Template.Labels; !labels.SelectorFromSet(web.Spec.Selector).
		Matches(labels.Set(pods)) {
		t.Errorf("Service web selects %v, not %v", web.Spec.Selector, pods)
	}
	const members = "multicluster.linkerd.io/remote-discovery"
	if got := named(t, federated, "Service", "web-federated").GetAnnotations()[members]; got != "web@east,web@north" {
		t.Errorf("%s is %q", members, got)
	}

	must(t, west.Apply(
		ctx,
		kube.Pod("shop", "web-0", "web"),
		kube.Slice("shop", "web", "1", kube.PodEndpoint("10.41.0.9", "shop", "web-0")),
	))
	must(t, east.Apply(
		ctx,
		kube.Pod("shop", "web-0", "web"),
		kube.Slice("shop", "web", "1", kube.PodEndpoint("10.42.0.9", "shop", "web-0")),
	))
	g := startGateway(t, harness.ReplicaConfig{Kubeconfig: gatewayKubeconfig(t, west)})
	awaitReady(t, g, "east")
	awaitShop(t, openShop(t, g), "10.41.0.9", "10.42.0.9")
}

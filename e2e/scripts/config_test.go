package scripts

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"
)

// k3dConfig has those fields of k3d's Simple config, k3d.io/v1alpha5, that the demo uses. Written from k3d's
// documentation: its own types are not among what these tests can load.
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

func readConfig(path string) (c k3dConfig, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return c, err
	}
	if err := yaml.UnmarshalStrict(text, &c); err != nil {
		return c, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

// arg returns the value of a flag of k3s.
func (c k3dConfig) arg(name string) (value string) {
	for _, a := range c.Options.K3s.ExtraArgs {
		if v, ok := strings.CutPrefix(a.Arg, name+"="); ok {
			value = v
		}
	}
	return value
}

// TestConfigs: each cluster's config has only fields that k3d knows, all are on one docker network, none changes the user's
// kubeconfig, and no two networks of Pods or Services overlap, nor do they with those that docker makes. The script's routes are
// to these networks of Pods.
func TestConfigs(t *testing.T) {
	script, err := os.ReadFile(repository("manifests/k3d/demo.sh"))
	must(t, err)
	files, err := filepath.Glob(repository("manifests/k3d/*.yaml"))
	must(t, err)
	networks := map[string]netip.Prefix{"docker's": netip.MustParsePrefix("172.16.0.0/12"), "docker's own": netip.MustParsePrefix("192.168.0.0/16")}
	var names []string
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		names = append(names, name)
		c, err := readConfig(file)
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
		case k.UpdateDefaultKubeconfig == nil || *k.UpdateDefaultKubeconfig || k.SwitchCurrentContext == nil || *k.SwitchCurrentContext:
			t.Errorf("%s changes the user's kubeconfig", name)
		}
		for _, a := range c.Options.K3s.ExtraArgs {
			if flag, _, _ := strings.Cut(a.Arg, "="); !slices.Contains([]string{"--cluster-cidr", "--service-cidr", "--disable"}, flag) || !slices.Equal(a.NodeFilters, []string{"server:*"}) {
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
		if want := fmt.Sprintf("%s) echo %s ;;", name, c.arg("--cluster-cidr")); !strings.Contains(string(script), want) {
			t.Errorf("demo.sh does not have %q", want)
		}
	}
	if !slices.Equal(names, []string{"east", "north", "west"}) {
		t.Errorf("configs of %v", names)
	}
}

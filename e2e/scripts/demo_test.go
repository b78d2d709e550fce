package scripts

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"isthmus/e2e/program"
)

// everything is what a run of demo.sh leaves.
var everything = []string{
	"ca.crt", "ca.key", "east-crds.yaml", "east-issuer.crt", "east-issuer.key", "east-linkerd.yaml", "east.kubeconfig",
	"isthmus-demo", "isthmus-east", "isthmus-north", "isthmus-west", "isthmus:demo", "north-crds.yaml", "north-issuer.crt",
	"north-issuer.key", "north-linkerd.yaml", "north.kubeconfig", "out/k3d", "west-crds.yaml", "west-issuer.crt",
	"west-issuer.key", "west-isthmus.yaml", "west-linkerd.yaml", "west.kubeconfig",
}

// finished runs demo.sh to its end.
func finished(t *testing.T, w *world) result {
	t.Helper()
	r := w.run("demo.sh")
	if r.code != 0 || r.err != "" {
		t.Fatalf("demo.sh ends with %d:\n%s\n%s", r.code, r.err, r.out)
	}
	if there := w.there(); !slices.Equal(there, everything) {
		t.Fatalf("demo.sh leaves %q, not %q", there, everything)
	}
	return r
}

// TestDemo runs demo.sh, runs it again, and destroys everything, twice.
func TestDemo(t *testing.T) {
	t.Parallel()
	for _, shell := range shells(t) {
		t.Run(shell, func(t *testing.T) {
			t.Parallel()
			checkDemo(t, shell)
		})
	}
}

func checkDemo(t *testing.T, shell string) {
	w := newWorld(t)
	w.shell = shell
	first := finished(t, w)
	inOrder(t, w.calls(), []string{
		"docker info", "step certificate create root", "step certificate create identity", "docker network create isthmus-demo",
		"k3d cluster create --config " + w.root + "/manifests/k3d/west.yaml", "k3d cluster create", "k3d cluster create",
		"docker exec k3d-isthmus-west-server-0 ip route replace 10.42.0.0/16 via 172.30.0.2", "make", "k3d image import", "linkerd install",
		"apply -f " + w.root + "/out/k3d/west-linkerd.yaml", "kubectl kustomize", "apply -f " + w.root + "/out/k3d/west-isthmus.yaml",
		"apply -k " + w.root + "/manifests/k3d/shop", "apply -k " + w.root + "/manifests/k3d/federated", "isthmus link east", "isthmus link north", "isthmus get",
		"docker kill k3d-isthmus-east-server-0", "isthmus get", "k3d cluster start isthmus-east", "ip route replace 10.42.0.0/16 via 172.30.0.4",
		"isthmus link east --context k3d-isthmus-east --to-context k3d-isthmus-west --server https://172.30.0.4:6443 --address-ranges 10.42.0.0/16", "isthmus get",
	})
	inOrder(t, strings.Split(first.out, "\n"), []string{
		"creating cluster isthmus-west", "waiting until the API server of west is ready", "waiting until Linkerd runs in north",
		"killing east's node", "east    stale", "east is away: answers", "east comes back", "east    ready", "destroy.sh removes everything",
	})
	if info, err := os.Stat(filepath.Join(w.root, "out", "k3d")); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("others can read certificates' keys: %v, %v", info.Mode(), err)
	}

	finished(t, w)
	again := w.calls()
	for _, call := range []string{"k3d cluster create", "docker network create", "step ", "linkerd ", "kubectl --context k3d-isthmus-west --request-timeout=10s apply -f " + w.root + "/out/k3d/west-linkerd.yaml"} {
		if slices.ContainsFunc(again, func(c string) bool { return strings.HasPrefix(c, call) }) {
			t.Errorf("run again, it calls %q:\n%s", call, strings.Join(again, "\n"))
		}
	}

	for _, want := range []string{"all that demo.sh makes is removed", "there is nothing to remove"} {
		if r := w.run("destroy.sh"); r.code != 0 || !strings.Contains(r.out, want) || len(w.there()) > 0 {
			t.Errorf("destroy.sh ends with %d: %s%s, leaves %q", r.code, r.err, r.out, w.there())
		}
	}
}

// inOrder: some of the lines contain these texts, in this order.
func inOrder(t *testing.T, lines, want []string) {
	t.Helper()
	rest := lines
	for _, text := range want {
		i := slices.IndexFunc(rest, func(l string) bool { return strings.Contains(l, text) })
		if i < 0 {
			t.Fatalf("there is no %q after those before it in\n%s", text, strings.Join(lines, "\n"))
		}
		rest = rest[i+1:]
	}
}

// TestFlags: the gateway's program has the flags that demo.sh gives it.
func TestFlags(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	finished(t, w)
	isthmus, err := program.Isthmus.Path(t.Context())
	must(t, err)
	checked := map[string]bool{}
	for _, call := range w.calls() {
		words := strings.Fields(call)
		if words[0] != "isthmus" {
			continue
		}
		help, err := exec.CommandContext(t.Context(), isthmus, words[1], "--help").CombinedOutput()
		must(t, err)
		for _, word := range words {
			if strings.HasPrefix(word, "--") && !strings.Contains(string(help), "  "+word) {
				t.Errorf("isthmus %s has no %s", words[1], word)
			}
		}
		checked[words[1]] = true
	}
	if len(checked) != 3 {
		t.Errorf("verbs %v", checked)
	}
}

// TestMissing: each tool that is missing is named, with what it is for, and nothing is done.
func TestMissing(t *testing.T) {
	t.Parallel()
	needs := map[string][]string{"demo.sh": tools, "destroy.sh": {"docker", "k3d"}}
	for script, tools := range needs {
		w := newWorld(t)
		for _, tool := range tools {
			must(t, os.Rename(filepath.Join(w.bin, tool), filepath.Join(w.bin, "no-"+tool)))
			r := w.run(script)
			if want := script + ": " + tool + " is not in PATH: install it; it "; r.code != 1 || !strings.HasPrefix(r.err, want) || strings.Count(r.err, "\n") != 1 {
				t.Errorf("%s without %s ends with %d: %s", script, tool, r.code, r.err)
			}
			if len(w.there()) > 0 || w.model.has("calls") {
				t.Errorf("%s without %s: calls %q, leaves %q", script, tool, w.calls(), w.there())
			}
			must(t, os.Rename(filepath.Join(w.bin, "no-"+tool), filepath.Join(w.bin, tool)))
		}
		for _, tool := range tools {
			must(t, os.Remove(filepath.Join(w.bin, tool)))
		}
		if r := w.run(script); r.code != 1 || strings.Count(r.err, "is not in PATH") != len(tools) {
			t.Errorf("%s without any tool ends with %d: %s", script, r.code, r.err)
		}
	}
}

// TestUnusable: what is wrong before anything is made.
func TestUnusable(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, limit := range []string{"5m", "-1", "1.5"} {
		if r := w.run("demo.sh", "ISTHMUS_DEMO_WAIT="+limit); r.code != 1 || !strings.Contains(r.err, "give a number of seconds") {
			t.Errorf("with a limit of %q it ends with %d: %s", limit, r.code, r.err)
		}
	}
	for _, script := range []string{"demo.sh", "destroy.sh"} {
		must(t, w.model.write("docker info", "fail"))
		if r := w.run(script); r.code != 1 || !strings.Contains(r.err, "docker does not answer: start it") {
			t.Errorf("%s without docker's daemon ends with %d: %s", script, r.code, r.err)
		}
		must(t, w.model.write("k3d cluster list", "fail"))
		if r := w.run(script); r.code != 1 {
			t.Errorf("%s without a list of clusters ends with %d: %s", script, r.code, r.err)
		}
	}
	must(t, os.Remove(w.model.path("fail")))
	if r := w.run("destroy.sh"); r.code != 0 || len(w.there()) > 0 {
		t.Errorf("destroy.sh ends with %d: %s, leaves %q", r.code, r.err, w.there())
	}
}

// TestWaits: a wait has its reason, and goes on with how long it has taken and why it is not over.
func TestWaits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	must(t, w.model.write("rollout", "fail"))
	r := w.run("demo.sh")
	inOrder(t, strings.Split(r.out, "\n"), []string{
		"   waiting until Linkerd runs in west", "   still waiting until Linkerd runs in west: 10 of 300 s; kubectl: it is asked to fail",
		"   still waiting until Linkerd runs in west: 290 of 300 s; kubectl: it is asked to fail",
	})
	if want := "demo.sh: waited 300 s in vain until Linkerd runs in west: kubectl: it is asked to fail\n"; r.code != 1 || !strings.Contains(r.err, want) {
		t.Errorf("it ends with %d: %s", r.code, r.err)
	}
}

// TestCertificatesLost: clusters with an anchor that is gone can only be destroyed.
func TestCertificatesLost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	finished(t, w)
	must(t, os.RemoveAll(filepath.Join(w.root, "out")))
	if r := w.run("demo.sh"); r.code != 1 || !strings.Contains(r.err, "its trust anchor, "+w.root+"/out/k3d/ca.crt, is not: run "+w.root+"/manifests/k3d/destroy.sh, then this again") {
		t.Errorf("it ends with %d: %s", r.code, r.err)
	}
	if r := w.run("destroy.sh"); r.code != 0 {
		t.Errorf("destroy.sh ends with %d: %s", r.code, r.err)
	}
	finished(t, w)
}

// shells are those of this machine of which a system has one as sh.
func shells(t *testing.T) (list []string) {
	known := map[string]bool{}
	for _, shell := range []string{"bash", "dash", "sh"} {
		path, err := exec.LookPath(shell)
		if err != nil {
			continue
		}
		path, err = filepath.EvalSymlinks(path)
		must(t, err)
		if !known[path] {
			list = append(list, shell)
		}
		known[path] = true
	}
	return list
}

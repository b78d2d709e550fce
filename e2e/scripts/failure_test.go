package scripts

import (
	"os"
	"strings"
	"testing"
)

// failures are calls that fail, and what is complained of then.
var failures = map[string]string{
	"step certificate create root":     "step has made no trust anchor",
	"step certificate create identity": "step has made no issuer for west",
	"docker network create":            "docker has not created network isthmus-demo",
	"k3d/east.yaml":                    "k3d has not created cluster isthmus-east",
	"k3d kubeconfig get isthmus-north": "k3d has no kubeconfig of cluster isthmus-north",
	"k3d cluster list":                 "cannot find out whether there is a cluster isthmus-west",
	"docker container inspect":         "the node of west has no address in docker network isthmus-demo",
	"k3d-isthmus-north-server-0 ip":    "no route in the node of north to the Pods of west",
	"docker version":                   "docker has not named its platform",
	"make -C":                          "make has not built image isthmus:demo",
	"k3d image import":                 "k3d has not imported image isthmus:demo into cluster isthmus-west",
	"linkerd install --context k3d-isthmus-east --ignore-cluster --identity": "linkerd has not rendered east-linkerd.yaml",
	"apply --server-side":        "Linkerd's definitions are not in west",
	"out/k3d/east-linkerd.yaml":  "Linkerd is not in east",
	"kubectl kustomize":          "post-renderer.sh has not patched Linkerd's manifest",
	"out/k3d/west-isthmus.yaml":  "the patched Linkerd is not in west",
	"k3d/shop":                   "the shop is not in west",
	"k3d/federated":              "the federated service is not in west",
	"isthmus link north":         "north is not linked to west",
	"isthmus get":                "isthmus get has failed",
	"docker kill":                "docker has not killed the node of east",
	"k3d cluster start":          "k3d has not started cluster isthmus-east",
	"get --raw":                  "waited 20 s in vain until the API server of west is ready: kubectl: it is asked to fail",
	"rollout status deployment/": "waited 20 s in vain until the gateway runs in west: kubectl: it is asked to fail",
	"logs deployment":            "waited 20 s in vain until a client in west has answers: kubectl: it is asked to fail",
}

// TestFailures: wherever it fails, it ends with 1 and what has failed, and leaves and names what it has made; run again it goes
// on from there. What it waits for has a limit.
func TestFailures(t *testing.T) {
	t.Parallel()
	for call, want := range failures {
		t.Run(strings.ReplaceAll(call, "/", " "), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			must(t, w.model.write(call, "fail"))
			r := w.run("demo.sh", "ISTHMUS_DEMO_WAIT=20")
			if r.code != 1 || !strings.Contains(r.err, "demo.sh: "+want) && !strings.Contains(r.err, want+"\n") {
				t.Fatalf("it ends with %d:\n%s\n%s", r.code, r.err, r.out)
			}
			if !strings.HasSuffix(r.err, "demo.sh: run it again to go on, or "+w.root+"/manifests/k3d/destroy.sh to remove everything\n") {
				t.Errorf("it does not end with what to do:\n%s", r.err)
			}
			checkNamed(t, w, r.err)
			must(t, os.Remove(w.model.path("fail")))
			finished(t, w)
		})
	}
}

// checkNamed: a message has all that is there, and nothing else.
func checkNamed(t *testing.T, w *world, text string) {
	t.Helper()
	_, leaves, _ := strings.Cut(text, "this run has made, and leaves: ")
	leaves, _, _ = strings.Cut(leaves, "\n")
	var want []string
	for _, name := range w.model.list("images") {
		want = append(want, "image "+name)
	}
	for _, name := range []string{"north", "east", "west"} {
		if w.model.has("clusters", "isthmus-"+name) || strings.Contains(text, "k3d cannot list") {
			want = append(want, "cluster isthmus-"+name)
		}
	}
	for _, name := range w.model.list("networks") {
		want = append(want, "docker network "+name)
	}
	want = append(want, "folder "+w.root+"/out/k3d")
	if leaves != strings.Join(want, ", ") {
		t.Errorf("it leaves %q, not %q", leaves, want)
	}
}

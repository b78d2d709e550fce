package reach

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd/api"

	"isthmus/e2e/harness"
	"isthmus/e2e/harness/kube"
	"isthmus/internal/adminapi"
)

// expectation contains patterns for the output of the isthmus command.
type expectation struct {
	args           string
	code           int
	stdout, stderr string // "" means no output
}

// slowAfter is the time after which a command prints what it is waiting for.
const slowAfter = time.Second

var waiting = regexp.MustCompile(`(?m)^isthmus \S+: waiting for .* at most\n`)

// TestVerbs runs every command with only a kubeconfig, for both kinds of installation, and as a
// kubectl plugin.
func TestVerbs(t *testing.T) {
	w := newWorld(t)
	first := w.gateway(t, isthmusPod("isthmus-0"))
	w.gateway(t, harness.KubeletPod{ // as in Linkerd's chart, with different ports
		Namespace: "other",
		Name:      "linkerd-destination-0",
		Container: "destination",
		Labels:    map[string]string{"linkerd.io/control-plane-component": "destination"},
		Ports:     map[string]int32{"dest-admin": 19996, "dest-grpc": 18086},
	})
	await(t, "the replica has synced", func() error {
		if r := w.run(t, "services", "-o", "json"); r.code != 0 {
			return fmt.Errorf("%+v", r)
		}
		return nil
	})
	const kubernetes = "kubernetes.default.svc.cluster.local:443"
	w.expect(t,
		expectation{"clusters", 0, `^\S+  linkerd/isthmus-0: no links\n`, ""},
		expectation{"clusters --context west --pod isthmus-0 -n linkerd", 0, `  linkerd/isthmus-0: `, ""},
		expectation{"clusters --kubeconfig .kube/config -o json", 0, `"gateway":"linkerd/isthmus-0"`, ""},
		expectation{"clusters -n other", 0, `  other/linkerd-destination-0: `, ""},
		expectation{"services", 0, `  linkerd/isthmus-0: `, ""},
		expectation{"get " + kubernetes + " --once", 0, kubernetes, ""},
		expectation{"get " + kubernetes + " --once -n other", 0, kubernetes, ""},
		expectation{"profile " + kubernetes + " --once", 0, "default/kubernetes port 443", ""},
		expectation{"version", 0, `\nreplica linkerd/isthmus-0: \S+, commit `, ""},
		expectation{"clusters --admin " + first.MetricsAddr() + " --context gone", 2, "", "cannot be used together"},
	)
	plugin := filepath.Join(w.home, "kubectl-isthmus")
	must(t, os.Symlink(w.command, plugin))
	if r := w.as(
		t,
		plugin,
		[]string{"KUBECONFIG=" + filepath.Join(w.home, ".kube", "config")},
		"clusters",
		"-n",
		"none",
	); r.code != 1 ||
		!strings.HasPrefix(r.stderr, "kubectl isthmus clusters: no replica in namespace none") ||
		!strings.Contains(r.stderr, "in namespace linkerd, other: choose it with -n") {
		t.Errorf("as a plugin: %+v", r)
	}
}

// TestReplicas checks that clusters and services show the differences between replicas, and the
// replicas that cannot be queried.
func TestReplicas(t *testing.T) {
	w := newWorld(t)
	w.gateway(t, isthmusPod("isthmus-0"))
	w.gateway(t, isthmusPod("isthmus-1"))
	// The age of a cluster's data does not matter for this test.
	await(t, "both replicas have synced", func() error {
		if r := w.run(t, "clusters"); !strings.Contains(r.stdout, "; 2 replicas agree") {
			return fmt.Errorf("%+v", r)
		}
		return nil
	})
	w.expect(
		t,
		expectation{"services", 0, "0 services; 2 replicas agree\n", ""},
		expectation{"version", 0, "replica linkerd/isthmus-0: .*\nreplica linkerd/isthmus-1: ", ""},
	)
	w.gateway(t, isthmusPod("isthmus-2"), "-cordon-local=true")
	w.expect(
		t,
		expectation{
			"clusters",
			0,
			`^\S+  linkerd/isthmus-0: no links; 3 replicas differ\n(?s).*\nWhere the other replicas differ:\n` +
				`  linkerd/isthmus-2: the local cluster: ready withdrawn, and not ready in-service\n$`,
			"",
		},
		expectation{"clusters --pod isthmus-2", 0, `^\S+  linkerd/isthmus-2: no links\n`, ""},
	)
	must(t, w.node.Run(t.Context(), isthmusPod("isthmus-3"))) // a Pod without a listening program
	r := w.run(t, "clusters", "-o", "json")
	var page adminapi.ClustersOutput
	if err := json.Unmarshal([]byte(r.stdout), &page); err != nil || page.Gateway != "linkerd/isthmus-0" ||
		len(page.Others) != 3 ||
		len(page.Others[0].Differences) != 0 ||
		len(page.Others[1].Differences) != 1 ||
		!strings.HasPrefix(page.Others[2].Error, "port 9996 of Pod linkerd/isthmus-3 cannot be reached: ") {
		t.Errorf("%v, %+v of %+v", err, page, r)
	}
	must(t, w.node.SetReady(t.Context(), "linkerd", "isthmus-3", false))
	w.expect(
		t,
		expectation{
			"clusters",
			0,
			`; 4 replicas differ\n(?s).*\n  linkerd/isthmus-3 cannot be queried: Pod linkerd/isthmus-3 is not ready: ` +
				`running, not ready\n`,
			"",
		},
		expectation{
			"version",
			0,
			"replica linkerd/isthmus-1: ",
			"cannot read the versions of replicas: Pod linkerd/isthmus-3 is not ready: running, not ready\n",
		},
	)
	must(t, w.node.Delete(t.Context(), "linkerd", "isthmus-0"))
	w.expect(t, expectation{"clusters", 0, `^\S+  linkerd/isthmus-1: .*; 3 replicas differ\n`, ""})
}

// TestBothInstallations checks that a standalone installation and one in place of Linkerd's
// destination controller can share a namespace. The command queries both, but not Linkerd's own
// destination controller.
func TestBothInstallations(t *testing.T) {
	w := newWorld(t)
	inPlace := harness.KubeletPod{
		Namespace: "linkerd",
		Name:      "linkerd-destination-0",
		Labels:    map[string]string{"linkerd.io/control-plane-component": "destination"},
		Container: "destination",
		Image:     "registry.example.com/isthmus:v2",
		Ports:     map[string]int32{"dest-admin": 19996, "dest-grpc": 18086},
	}
	w.gateway(t, isthmusPod("isthmus-0"))
	w.gateway(t, inPlace)
	linkerds := inPlace
	linkerds.Name, linkerds.Image, linkerds.Forward = "linkerd-destination-1", "cr.l5d.io/linkerd/controller:edge", nil
	must(t, w.node.Run(t.Context(), linkerds))
	await(t, "both installations agree", func() error {
		if r := w.run(t, "clusters"); !strings.Contains(r.stdout, "; 2 replicas agree") {
			return fmt.Errorf("%+v", r)
		}
		return nil
	})
	w.expect(t,
		expectation{"version", 0, `replica linkerd/isthmus-0: .*\nreplica linkerd/linkerd-destination-0: .*\n$`, ""},
		expectation{"clusters --pod linkerd-destination-0", 0, `  linkerd/linkerd-destination-0: `, ""},
	)
}

// TestErrors checks that the command reports each problem with a hint, and within the given
// timeout.
func TestErrors(t *testing.T) {
	w := newWorld(t)
	w.expect(t, expectation{
		"clusters",
		1,
		"",
		`no replica in namespace linkerd according to the API server of context west: no Pod has the label ` +
			`app.kubernetes.io/name=isthmus or linkerd.io/\S+\n  Choose another namespace with -n`,
	})
	pod := isthmusPod("isthmus-0")
	must(t, w.node.Run(t.Context(), pod))
	w.expect(
		t,
		expectation{
			"clusters",
			1,
			"",
			`^isthmus clusters: port 9996 of Pod linkerd/isthmus-0 cannot be reached: .*connection refused\n  Check ` +
				`that the replica listens on this port.*\n$`,
		},
		expectation{
			"get web:80",
			1,
			"",
			`(?s)port 8086 of Pod linkerd/isthmus-0 cannot be reached: .*connection refused`,
		},
		expectation{"version", 0, "^isthmus ", "cannot read the versions of replicas: port 9996"},
		expectation{
			"clusters --context nowhere",
			1,
			"",
			`the kubeconfig has no context nowhere\n  Choose a context with --context: gone, west\n`,
		},
		expectation{
			"clusters --context gone",
			1,
			"",
			`the API server of context gone does not respond: .*connection refused\n  Check that it is reachable`,
		},
		expectation{
			"clusters --kubeconfig none",
			1,
			"",
			`kubeconfig: .*none: no such file or directory\n  Choose a readable file`,
		},
		expectation{
			"clusters --pod isthmus-9",
			1,
			"",
			`no Pod isthmus-9 in namespace linkerd.*\n  Replicas in this namespace: isthmus-0\n`,
		},
	)
	must(t, w.node.SetReady(t.Context(), "linkerd", "isthmus-0", false))
	w.expect(
		t,
		expectation{
			"clusters",
			1,
			"",
			`no replica in namespace linkerd is ready: isthmus-0 \(running, not ready\)\n  Use --pod to query ` +
				`a replica that is not ready\n`,
		},
	)

	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts connections in its backlog but never responds
	must(t, err)
	atEnd(t, silent.Close)
	pod = isthmusPod("isthmus-silent")
	pod.Forward = map[int32]string{9996: silent.Addr().String(), 8086: silent.Addr().String()}
	must(t, w.node.Run(t.Context(), pod))
	w.expect(
		t,
		expectation{
			"clusters --timeout 1500ms",
			1,
			"",
			`^isthmus clusters: waiting for /debug/clusters of linkerd/isthmus-silent, for up to 1.5s\nisthmus ` +
				`clusters: linkerd/isthmus-silent did not respond within 1.5s \(--timeout\)\n$`,
		},
		expectation{
			"get web:80 --timeout 1500ms",
			1,
			"",
			`^isthmus get: waiting up to 1.5s for the first message from linkerd/isthmus-silent\nisthmus get: ` +
				`linkerd/isthmus-silent sent no message within 1.5s`,
		},
	)
	must(t, w.node.Close())
	w.expect(
		t,
		expectation{
			"clusters",
			1,
			"",
			`^isthmus clusters: .* cannot connect to Pod linkerd/isthmus-silent: .*\n  Check the kubelet ` +
				`on the Pod's node.*\n$`,
		},
	)
	must(t, w.server.Pause())
	w.expect(
		t,
		expectation{
			"clusters --timeout 1500ms",
			1,
			"",
			`^isthmus clusters: waiting for the API server of context west, for up to 1.5s\nisthmus clusters: the ` +
				`API server of context west did not respond within 1.5s \(--timeout\)\n$`,
		},
	)
	must(t, w.server.Resume())
}

// TestCheckReplicas checks that the check command queries every replica. It reports differences,
// problems of a single replica, and replicas that are unreachable or not ready. The cordon command
// waits for all replicas, or only for the one selected with --pod.
func TestCheckReplicas(t *testing.T) {
	w := newWorld(t)
	w.gateway(t, isthmusPod("isthmus-0"))
	w.gateway(t, isthmusPod("isthmus-1"))
	const agree = `(?m)^  \S+ +2 replicas agree$`
	w.shows(t, agree, "check")
	w.shows(t, `(?m)^  \S+ +one replica writes EndpointSlices: linkerd/isthmus-[01]$`, "check")

	dead, err := kube.Kubeconfig("gone", api.Cluster{Server: "https://127.0.0.1:1"}, api.AuthInfo{Token: "t"})
	must(t, err)
	must(t, w.client.Apply(t.Context(), kube.Link("gone", dead)))
	w.shows(t, `(?m)^  \S+ +gone: it is unreachable: .*refused$`, "check")
	w.shows(t, agree, "check")
	w.expect(
		t,
		expectation{
			"cordon gone --yes", 0,
			"every replica has applied the change: endpoints of gone are removed from all services immediately", "",
		},
	)

	w.gateway(t, isthmusPod("isthmus-2"), "-controller-namespace=other")
	w.shows(t, `(?m)^  \S+ +the replicas differ: .*link-state gone`, "check")
	w.expect(
		t,
		expectation{
			"check",
			1,
			`(?m)^  \S+ +gone: it is unreachable: .* \(linkerd/isthmus-0\)$`,
			`see the hint below each failed check`,
		},
		expectation{"check --pod isthmus-2 -o json", 0, `"gateways":\[\{"gateway":"linkerd/isthmus-2",`, ""},
		expectation{
			"uncordon gone --yes --timeout 2s",
			1,
			"updated link Secret",
			"linkerd/isthmus-2: the link is missing: does the replica read link Secrets in namespace linkerd",
		},
		expectation{"cordon gone --yes --pod isthmus-1", 0, "every replica has applied the change", ""},
	)
	must(t, w.node.Delete(t.Context(), "linkerd", "isthmus-2"))
	must(t, w.node.Run(t.Context(), isthmusPod("isthmus-3"))) // a Pod without a listening program
	w.expect(
		t,
		expectation{
			"check",
			1,
			`(?m)^  \S+ +linkerd/isthmus-3: port 9996 of Pod linkerd/isthmus-3 cannot be reached: `,
			"checks have failed",
		},
		expectation{
			"cordon gone --yes",
			1,
			"",
			"cannot determine the effect on services: port 9996 of Pod linkerd/isthmus-3 cannot be reached: ",
		},
	)
	must(t, w.node.SetReady(t.Context(), "linkerd", "isthmus-3", false))
	w.expect(
		t,
		expectation{
			"check --wait 6s",
			1,
			`(?m)^  \S+ +linkerd/isthmus-3: its Pod is not ready: running, not ready\n      \S+ kubectl describe pod ` +
				`-n linkerd isthmus-3 shows why; --pod isthmus-3 `,
			`isthmus check: waiting, for 6s at most: .*linkerd/isthmus-3: its Pod is not ready`,
		},
		expectation{
			"uncordon gone --yes --timeout 2s",
			1,
			"updated link Secret",
			`linkerd/isthmus-3: Pod linkerd/isthmus-3 is not ready: running, not ready`,
		},
	)
	w.shows(t, agree, "check")
}

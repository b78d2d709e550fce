package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"isthmus/e2e/harness"
	"isthmus/e2e/harness/kube"
	"isthmus/internal/adminapi"
)

// TestCheckFromHere: without a gateway isthmus check looks at all else by the user's own
// kubeconfig, rights of the account that is to run it among it, and with --pre it does so before an
// installation.
func TestCheckFromHere(t *testing.T) {
	t.Parallel()
	w := newCheckedWorld(t)
	text, err := w.west.Kubeconfig(w.west.Server(), w.west.Admin())
	must(t, err)
	path := writeKubeconfig(t, text)
	const (
		none  = "failure gateway: no replica in namespace linkerd"
		lacks = "failure rights local: not permitted: get, list, watch pods"
	)
	try := func(args string, wantCode int, want ...string) (out adminapi.CheckOutput) {
		t.Helper()
		code, bad, out := w.check(t, append(strings.Fields(args), "--kubeconfig", path)...)
		if code != wantCode || out.From != "here" || !slices.EqualFunc(bad, want, strings.HasPrefix) {
			t.Errorf(
				"isthmus check %s: exit code %d, from %q, found\n%s",
				args,
				code,
				out.From,
				strings.Join(bad, "\n"),
			)
		}
		return out
	}
	out := try("", 1, none)
	for _, want := range []string{
		"rights local",
		"rights east",
		"link-secret cluster-credentials-east",
		"trust-anchors east",
		"pod-networks east",
	} {
		if !slices.ContainsFunc(
			out.Results,
			func(r adminapi.CheckResult) bool { return r.Check+" "+r.Object == want && r.Level == "ok" },
		) {
			t.Errorf("%s is not fine: %+v", want, out.Results)
		}
	}
	try("--service-account nobody", 1, none, lacks)
	try("--pre", 0)
	try("--pre --service-account nobody", 0, "unchecked rights local: there is no ServiceAccount linkerd/nobody yet")
	must(t, w.west.Apply(t.Context(), kube.ServiceAccount("linkerd", "nobody")))
	try("--pre --service-account nobody", 1, lacks)
	pod := kube.Pod("linkerd", "isthmus-0", "default")
	pod.Labels = map[string]string{"app.kubernetes.io/name": "isthmus"}
	must(t, w.west.Apply(t.Context(), pod))
	try("", 1, "failure gateway: no replica in namespace linkerd is ready: isthmus-0 (pending)")
}

// TestCheckPresent: isthmus check shows trust anchors that were written, and Pod networks that overlap,
// since a replica has read the linked cluster.
func TestCheckPresent(t *testing.T) {
	t.Parallel()
	w := newCheckedWorld(t)
	maps := w.east.CoreV1().ConfigMaps("linkerd")
	must(t, maps.Delete(t.Context(), "linkerd-identity-trust-roots", metav1.DeleteOptions{}))
	g := startGateway(t, harness.ReplicaConfig{Kubeconfig: w.kubeconfig})
	expect := func(what string, within time.Duration, want ...string) {
		t.Helper()
		must(t, harness.Poll(t.Context(), within, time.Second, func() error {
			_, bad, _ := w.check(t, "--admin", g.MetricsAddr())
			if !slices.EqualFunc(bad, want, strings.HasPrefix) {
				return fmt.Errorf("%s: found\n%s", what, strings.Join(bad, "\n"))
			}
			return nil
		}))
	}
	const missing = "unchecked trust-anchors east: ConfigMap linkerd/linkerd-identity-trust-roots is not there"
	expect("the ConfigMap is missing", 30*time.Second, missing)
	must(t, w.east.Apply(t.Context(), w.anchors(w.anchor)))
	expect("the ConfigMap is there", 30*time.Second)
	must(t, w.east.Apply(t.Context(), w.node("east-2", "10.244.0.0/25")))
	expect("the networks overlap", 90*time.Second,
		"warning pod-networks east: Pod CIDRs overlap: 10.244.0.0/25 overlaps 10.244.0.0/24 of local")
}

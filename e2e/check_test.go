package e2e

import (
	"slices"
	"strings"
	"testing"

	"isthmus/e2e/harness/kube"
	"isthmus/internal/adminapi"
)

// TestCheckFromHere checks that isthmus check works without a replica. It uses the user's
// kubeconfig and also checks the permissions of the account for Isthmus. With --pre, it works
// before an installation.
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
			t.Errorf("%s has findings: %+v", want, out.Results)
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

package commands

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"isthmus/cmd/isthmus/internal/check"
)

// TestPreflight checks that exactly one fault is found in worlds with one fault each.
func TestPreflight(t *testing.T) {
	other := pemCertificate(t, 24*time.Hour*365)
	for name, c := range map[string]struct {
		change func(*testing.T, *world)
		want   []string
	}{
		"all is well": {func(*testing.T, *world) {}, nil},
		"a right in the own cluster": {func(_ *testing.T, w *world) {
			w.local.refused = []string{"list secrets", "watch pods"}
		},
			[]string{
				"failure rights local: not permitted: watch pods (replicas do not become ready); " +
					"list secrets (no cluster is linked, and new replicas do not become ready)",
			}},
		"before an installation": {func(_ *testing.T, w *world) {
			w.pre, w.local.refused = true, []string{"list pods"}
		}, []string{"unchecked rights local: there is no ServiceAccount linkerd/isthmus yet"}},
		"before an installation, with an account that lacks a right": {func(_ *testing.T, w *world) {
			w.pre, w.local.refused = true, []string{"list jobs"}
			w.local.answers["/api/v1/namespaces/linkerd/serviceaccounts/isthmus"] = corev1.ServiceAccount{}
		}, []string{"warning rights local: not permitted: list jobs.batch " +
			"(the metric labels of endpoints do not include the names of CronJobs)"}},
		"rights for exports": {func(_ *testing.T, w *world) {
			w.exports, w.local.refused = true, []string{"create services", "update serviceimports/status"}
		}, []string{
			"warning rights local: not permitted: create services (Services for exports are not written); " +
				"update serviceimports/status.multicluster.x-k8s.io (ServiceImports do not list the exporting " +
				"clusters)",
		}},
		"rights for exports that are not asked for": {
			func(_ *testing.T, w *world) { w.local.refused = []string{"create services"} },
			nil,
		},
		"a right in the linked one": {func(_ *testing.T, w *world) { w.east.refused = []string{"watch services"} },
			[]string{"failure rights east: not permitted: watch services (the cluster does not join)"}},
		"an optional right": {
			func(_ *testing.T, w *world) { w.east.refused = []string{"list externalworkloads"} },
			nil,
		},
		"a CRD": {
			func(_ *testing.T, w *world) { w.local.answers[serversPath] = resources(serversPath) },
			[]string{"warning crds local: not installed: servers.policy.linkerd.io"},
		},
		"an invalid Secret": {func(_ *testing.T, w *world) {
			w.secrets = []corev1.Secret{{Type: "mirror.linkerd.io/remote-kubeconfig"}}
			w.secrets[0].Name = "odd"
		}, []string{"failure link-secret odd: cannot be used: label multicluster.linkerd.io/cluster-name is missing"}},
		"a kubeconfig that runs a program": {func(_ *testing.T, w *world) {
			bad := linkSecret(t, "bad", "north", newCheckedAPI("", "").start(t), w)
			bad.Data["kubeconfig"] = []byte(strings.Replace(
				string(bad.Data["kubeconfig"]),
				`"token":`,
				`"exec":{"apiVersion":"client.authentication.k8s.io/v1","command":"sh"},"token":`,
				1,
			))
			w.secrets = []corev1.Secret{bad}
		}, []string{
			"failure link-secret bad: cannot be used: kubeconfig contains an exec plugin (exec), " +
				"which is not allowed in a link: use an inline token or client certificate",
		}},
		"two annotations that cannot be read": {func(_ *testing.T, w *world) {
			w.annotations = map[string]string{"isthmus.io/cordon": "yes", "isthmus.io/lost-after": "10"}
		},
			[]string{
				`failure link-secret link-east: annotation isthmus.io/cordon: "yes" is none of false, last-resort, ` +
					`true; the annotation is ignored`,
				`failure link-secret link-east: annotation isthmus.io/lost-after: "10" is not a duration such as 90s ` +
					`or 5m; the annotation is ignored`,
			}},
		"an expired token": {func(_ *testing.T, w *world) { w.token = jwt(time.Unix(1e9, 0)) },
			[]string{"failure link-expiry east: its token expired at 2001-09-09 01:46 UTC"}},
		"a clock that is ahead": {
			func(_ *testing.T, w *world) { w.east.ahead = 2 * time.Minute },
			[]string{"warning clock-skew east: its clock is 2 minutes ahead"},
		},
		"other anchors": {func(_ *testing.T, w *world) {
			w.east.answers[anchorsPath] = corev1.ConfigMap{Data: map[string]string{"ca-bundle.crt": other}}
		},
			[]string{
				"failure trust-anchors east: the cluster has no trust anchor in common with the local cluster: " +
					"proxies reject each other's identities",
			}},
		"anchors that may not be read": {func(_ *testing.T, w *world) {
			w.east.answers[anchorsPath] = http.StatusForbidden
		},
			[]string{
				"unchecked trust-anchors east: the credentials may not read ConfigMap " +
					"linkerd/linkerd-identity-trust-roots",
			}},
		"networks that overlap": {func(_ *testing.T, w *world) {
			w.east.answers[nodesPath] = nodes("10.9.0.0/24", "10.1.4.0/24")
		},
			[]string{"warning pod-networks east: Pod CIDRs overlap: 10.1.4.0/24 overlaps 10.1.0.0/16 of local"}},
		"Nodes that may not be read": {func(_ *testing.T, w *world) {
			w.east.answers[nodesPath] = http.StatusForbidden
		},
			[]string{"unchecked pod-networks east: the credentials may not read Nodes"}},
		"credentials that are refused": {func(_ *testing.T, w *world) {
			w.east.status, w.east.body = http.StatusUnauthorized, "your token is "+w.token
		},
			[]string{
				"failure api east: the API server responded with 401 Unauthorized to a version request",
				"unchecked rights east: the API server responds with an error",
				"unchecked link-expiry east: the API server rejects its credentials",
				"unchecked trust-anchors east: the API server responds with an error",
				"unchecked pod-networks east: the API server responds with an error"}},
		"a cluster that is silent": {func(_ *testing.T, w *world) { w.east.silent = true },
			[]string{
				"failure api east: the API server cannot be reached: no answer within 3s",
				"unchecked clock-skew east: the API server does not answer",
				"unchecked rights east: the API server does not answer",
				"unchecked trust-anchors east: the API server does not answer",
				"unchecked pod-networks east: the API server does not answer"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			c.change(t, w)
			bad, all := w.run(t)
			if !slices.Equal(bad, c.want) {
				t.Errorf("found\n  %s\nwant\n  %s", strings.Join(bad, "\n  "), strings.Join(c.want, "\n  "))
			}
			for _, r := range all {
				if text := r.Text + r.Hint + r.Object; strings.Contains(text, w.token) ||
					strings.Contains(text, "local-token") ||
					strings.ContainsRune(text, '\x1b') {
					t.Errorf("%q contains credentials or control characters", text)
				}
				if !slices.Contains(check.Checks, r.Check) || r.Section == "" {
					t.Errorf("%+v is not a known check", r)
				}
			}
		})
	}
}

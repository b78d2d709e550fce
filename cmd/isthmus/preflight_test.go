package main

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"isthmus/clusterstore/check"
)

// TestPreflight: each world has one thing that is wrong, and exactly that is found.
func TestPreflight(t *testing.T) {
	other, _ := pemCertificate(t, 24*time.Hour*365)
	for name, c := range map[string]struct {
		change func(*testing.T, *world)
		want   []string
	}{
		"all is well": {func(*testing.T, *world) {}, nil},
		"a right in the own cluster": {func(_ *testing.T, w *world) { w.local.refused = []string{"list secrets", "watch pods"} },
			[]string{"failure rights local: not permitted: watch pods (the gateway does not get ready); list secrets (no cluster is linked, and a gateway that starts does not get ready)"}},
		"a right of the account": {func(_ *testing.T, w *world) {
			w.local.refused = []string{"list jobs"}
		}, []string{"warning rights local: not permitted: list jobs.batch (labels do not name CronJobs)"}},
		"before an installation": {func(_ *testing.T, w *world) {
			w.pre, w.local.refused = true, []string{"list pods"}
		}, []string{"unchecked rights local: there is no ServiceAccount linkerd/isthmus yet"}},
		"before an installation, with an account that lacks a right": {func(_ *testing.T, w *world) {
			w.pre, w.local.refused = true, []string{"list jobs"}
			w.local.account = "isthmus"
		}, []string{"warning rights local: not permitted: list jobs.batch (labels do not name CronJobs)"}},
		"rights for exports": {func(_ *testing.T, w *world) {
			w.exports, w.local.refused = true, []string{"create services", "update serviceimports/status"}
		}, []string{"warning rights local: not permitted: create services (no Services are written for exports); update serviceimports/status.multicluster.x-k8s.io (they do not name the clusters that export)"}},
		"rights for exports that are not asked for": {func(_ *testing.T, w *world) { w.local.refused = []string{"create services"} }, nil},
		"a right in the linked one": {func(_ *testing.T, w *world) { w.east.refused = []string{"watch services"} },
			[]string{"failure rights east: not permitted: watch services (the cluster does not join)"}},
		"an optional right": {func(_ *testing.T, w *world) { w.east.refused = []string{"list externalworkloads"} }, nil},
		"a CRD":             {func(_ *testing.T, w *world) { delete(w.local.kinds, "policy.linkerd.io/v1beta3") }, []string{"warning crds local: not installed: servers.policy.linkerd.io"}},
		"an invalid Secret": {func(_ *testing.T, w *world) {
			w.secrets = []corev1.Secret{{Type: "mirror.linkerd.io/remote-kubeconfig"}}
			w.secrets[0].Name = "odd"
		}, []string{"failure link-secret odd: can't be used: label multicluster.linkerd.io/cluster-name is missing"}},
		"a kubeconfig that runs a program": {func(_ *testing.T, w *world) {
			bad := linkSecret(t, "bad", "north", newCheckedAPI("", "").start(t), w)
			bad.Data["kubeconfig"] = []byte(strings.Replace(string(bad.Data["kubeconfig"]), `"token":`, `"exec":{"apiVersion":"client.authentication.k8s.io/v1","command":"sh"},"token":`, 1))
			w.secrets = []corev1.Secret{bad}
		}, []string{"failure link-secret bad: can't be used: kubeconfig has an exec plugin (exec), which is not allowed in a link: use an inline token or client certificate"}},
		"a Secret for the same name": {func(t *testing.T, w *world) {
			w.secrets = []corev1.Secret{linkSecret(t, "second", "east", newCheckedAPI("", "").start(t), w)}
		}, []string{"failure link-secret second: is one of two for cluster east: Secret link-east, which is older, is used"}},
		"a cordon with a typo": {func(_ *testing.T, w *world) { w.annotate("isthmus.io/cordon", "ture") },
			[]string{`failure link-secret link-east: annotation isthmus.io/cordon: "ture" is none of false, last-resort, true; it counts as absent`}},
		"two annotations that can't be read": {func(_ *testing.T, w *world) {
			w.annotate("isthmus.io/cordon", "yes")
			w.annotate("isthmus.io/lost-after", "10")
		}, []string{`failure link-secret link-east: annotation isthmus.io/cordon: "yes" is none of false, last-resort, true; it counts as absent`,
			`failure link-secret link-east: annotation isthmus.io/lost-after: "10" is no duration such as 90s or 5m; it counts as absent`}},
		"a cordon with a typo, of a Secret that can't be used": {func(_ *testing.T, w *world) {
			w.annotate("isthmus.io/cordon", "ture")
			w.annotate("isthmus.io/address-ranges", "10")
		}, []string{`failure link-secret link-east: can't be used: annotation isthmus.io/address-ranges: …`,
			`failure link-secret link-east: annotation isthmus.io/cordon: "ture" is none of false, last-resort, true; it counts as absent`}},
		"a link that is insecure": {func(_ *testing.T, w *world) {
			w.secret = func(s *corev1.Secret) {
				s.Data["kubeconfig"] = regexp.MustCompile(`"certificate-authority-data":"[^"]*"`).ReplaceAll(s.Data["kubeconfig"], []byte(`"insecure-skip-tls-verify":true`))
			}
		}, []string{"warning link-secret link-east: links cluster east insecurely: …"}},
		"an expired token": {func(_ *testing.T, w *world) { w.token = jwt(time.Unix(1e9, 0)) },
			[]string{"failure link-expiry east: its token has expired, at 2001-09-09 01:46 UTC"}},
		"a token that expires soon": {func(_ *testing.T, w *world) { w.token = jwt(time.Now().Add(49 * time.Hour)) },
			[]string{"warning link-expiry east: its token expires in 2 days, at …"}},
		"a client certificate that expires soon": {func(t *testing.T, w *world) {
			cert, key := pemCertificate(t, 90*time.Minute)
			w.cert, w.key = []byte(cert), []byte(key)
		}, []string{"warning link-expiry east: its client certificate expires in 90 minutes, at …"}},
		"a clock that is ahead":  {func(_ *testing.T, w *world) { w.east.ahead = 2 * time.Minute }, []string{"warning clock-skew east: its clock is 2 minutes ahead"}},
		"a clock that is behind": {func(_ *testing.T, w *world) { w.east.ahead = -time.Hour }, []string{"failure clock-skew east: its clock is 60 minutes behind"}},
		"other anchors": {func(_ *testing.T, w *world) { w.east.anchors = other },
			[]string{"failure trust-anchors east: no trust anchor in common with the local cluster: proxies refuse each other's identities"}},
		"more anchors": {func(_ *testing.T, w *world) { w.east.anchors += other },
			[]string{"warning trust-anchors east: 1 of 1 trust anchors here and of 2 there are the same: proxies with a certificate by another one are refused"}},
		"an anchor that has expired": {func(t *testing.T, w *world) {
			old, _ := pemCertificate(t, -time.Hour)
			w.local.anchors, w.east.anchors = old, old
		}, []string{"failure trust-anchors east: the trust anchor has expired, at …", "failure trust-anchors local: the trust anchor has expired, at …"}},
		"an old anchor among good ones": {func(t *testing.T, w *world) {
			old, _ := pemCertificate(t, -time.Hour)
			w.local.anchors, w.east.anchors = w.local.anchors+old, w.east.anchors+old
		}, []string{"warning trust-anchors east: 1 of 2 trust anchors have expired; one is good until …", "warning trust-anchors local: 1 of 2 trust anchors have expired; one is good until …"}},
		"anchors that may not be read": {func(_ *testing.T, w *world) { w.east.mayRead = func(r string) bool { return r != "configmaps" } },
			[]string{"unchecked trust-anchors east: the credentials may not read ConfigMap linkerd/linkerd-identity-trust-roots"}},
		"anchors that are none": {func(_ *testing.T, w *world) { w.east.anchors = "\x1b[2Jnone" },
			[]string{"unchecked trust-anchors east: ConfigMap linkerd-identity-trust-roots: ca-bundle.crt has no certificate"}},
		"networks that overlap": {func(_ *testing.T, w *world) { w.east.cidrs = []string{"10.9.0.0/24", "10.1.4.0/24"} },
			[]string{"warning pod-networks east: Pod CIDRs overlap: 10.1.4.0/24 overlaps 10.1.0.0/16 of local"}},
		"no Nodes":             {func(_ *testing.T, w *world) { w.east.cidrs = nil }, nil},
		"Nodes without a CIDR": {func(_ *testing.T, w *world) { w.east.cidrs = []string{""} }, []string{"unchecked pod-networks east: its Nodes have no Pod CIDR"}},
		"Nodes that may not be read": {func(_ *testing.T, w *world) { w.east.mayRead = func(r string) bool { return r != "nodes" } },
			[]string{"unchecked pod-networks east: the credentials may not read Nodes"}},
		"credentials that are refused": {func(_ *testing.T, w *world) {
			w.east.status, w.east.body = http.StatusUnauthorized, "your token is "+w.token
		},
			[]string{"failure api east: the API server answers 401 Unauthorized for its version", "unchecked rights east: its API server answers with an error",
				"unchecked link-expiry east: the API server refuses its credentials",
				"unchecked trust-anchors east: its API server answers with an error", "unchecked pod-networks east: its API server answers with an error"}},
		"a cluster that is silent": {func(_ *testing.T, w *world) { w.east.silent = true },
			[]string{"failure api east: its API server can't be reached: no answer within 3s", "unchecked clock-skew east: its API server does not answer", "unchecked rights east: its API server does not answer",
				"unchecked trust-anchors east: its API server does not answer", "unchecked pod-networks east: its API server does not answer"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			c.change(t, w)
			bad, all := w.run(t)
			for i := range bad {
				if i < len(c.want) {
					if want, cut := strings.CutSuffix(c.want[i], ": …"); cut && strings.HasPrefix(bad[i], want) {
						bad[i] = c.want[i]
					}
				}
				for _, before := range []string{"at ", "until "} {
					if text, when, cut := strings.Cut(bad[i], before+"20"); cut && i < len(c.want) && strings.HasSuffix(c.want[i], "…") && strings.Contains(when, "UTC") {
						bad[i] = text + before + "…"
					}
				}
			}
			if !slices.Equal(bad, c.want) {
				t.Errorf("found\n  %s\nwant\n  %s", strings.Join(bad, "\n  "), strings.Join(c.want, "\n  "))
			}
			for _, r := range all {
				if text := r.Text + r.Hint + r.Object; strings.Contains(text, w.token) || strings.Contains(text, "local-token") || strings.ContainsRune(text, '\x1b') {
					t.Errorf("%q has credentials or control characters", text)
				}
				if !slices.Contains(check.Checks, r.Check) || r.Section == "" {
					t.Errorf("%+v is no known check", r)
				}
			}
		})
	}
}

// TestPreflightOfMany: each of many links has its results. All are asked at once.
func TestPreflightOfMany(t *testing.T) {
	const clusters = 12
	defer func(before time.Duration) { firstAnswer = before }(firstAnswer)
	firstAnswer = time.Minute // on a busy machine too
	w := newWorld(t)
	east := newCheckedAPI(w.east.anchors, "10.3.0.0/16").start(t)
	for i := range clusters - 1 {
		w.secrets = append(w.secrets, linkSecret(t, fmt.Sprint("link-", i), fmt.Sprintf("c%03d", i), east, w))
	}
	_, all := w.run(t)
	fine := make(map[string]int)
	for _, r := range all {
		if r.Level == check.OK {
			fine[r.Check]++
		}
	}
	for _, name := range []string{check.API, check.ClockSkew, check.Rights, check.LinkSecret, check.LinkExpiry, check.Anchors} {
		if fine[name] < clusters {
			t.Errorf("%s: %d clusters are fine", name, fine[name])
		}
	}
}

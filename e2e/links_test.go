package e2e

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"isthmus/e2e/harness"
	"isthmus/e2e/harness/kube"
)

// linked consists of two clusters that are not linked yet, a replica and a proxy in west, and a
// kubeconfig with a context for each cluster.
type linked struct {
	*near
	isthmus, kubeconfig string
	config              *clientcmdapi.Config
}

func newLinked(t *testing.T) *linked {
	t.Helper()
	isthmus, err := harness.Isthmus.Path(t.Context())
	must(t, err)
	isthmus, err = filepath.Abs(isthmus)
	must(t, err)
	w := &linked{
		isthmus:    isthmus,
		kubeconfig: filepath.Join(t.TempDir(), "kubeconfig"),
		config:     clientcmdapi.NewConfig(),
	}
	w.near = newNearClusters(t, []string{"namespace", "serviceaccount", "token"}, "west", "east")
	for name, c := range w.clients {
		w.addContext(t, name, name, c.Admin())
	}
	w.config.CurrentContext = "west"
	must(t, clientcmd.WriteToFile(*w.config, w.kubeconfig))
	must(t, w.clients["west"].Apply(t.Context(), kube.Federated("shop", "web-federated", "web", "web@east")))
	w.start(t)
	return w
}

func (w *linked) addContext(t *testing.T, name, cluster string, user clientcmdapi.AuthInfo) {
	t.Helper()
	text, err := w.clients[cluster].Kubeconfig(w.clients[cluster].Server(), user)
	must(t, err)
	from, err := clientcmd.Load(text)
	must(t, err)
	w.config.Clusters[name], w.config.AuthInfos[name] = from.Clusters[cluster], from.AuthInfos[cluster]
	w.config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	must(t, clientcmd.WriteToFile(*w.config, w.kubeconfig))
}

// try runs a command with the kubeconfig and checks that it prints no token outside of a Secret.
func (w *linked) try(t *testing.T, command string) verbRun {
	t.Helper()
	args := append(strings.Fields(command), "--kubeconfig", w.kubeconfig)
	if !strings.HasPrefix(command, "unlink") {
		args = append(args, "--admin", w.gateway.MetricsAddr())
	}
	r := runVerb(t, w.isthmus, args...)
	if strings.Contains(r.stderr, "eyJ") ||
		strings.Contains(r.stdout, "eyJ") && !strings.Contains(r.stdout, "stringData") {
		t.Errorf("isthmus %s prints a token: %+v", command, r)
	}
	return r
}

func (w *linked) ok(t *testing.T, command string, want ...string) verbRun {
	t.Helper()
	r := w.try(t, command)
	if r.code != 0 {
		t.Fatalf(
			"isthmus %s: exit code %d\n%s%s\nthe replica's log:\n%s",
			command,
			r.code,
			r.stdout,
			r.stderr,
			w.gateway.Log(20),
		)
	}
	expectLines(t, command, r.stdout+r.stderr, want)
	return r
}

// refused runs a command that must fail with an exit code and write nothing.
func (w *linked) refused(t *testing.T, code int, command string, want ...string) {
	t.Helper()
	before := w.versions(t)
	r := w.try(t, command)
	if r.code != code {
		t.Errorf("isthmus %s: exit code %d, want %d\n%s%s", command, r.code, code, r.stdout, r.stderr)
	}
	expectLines(t, command, r.stdout+r.stderr, want)
	if after := w.versions(t); after != before {
		t.Errorf("isthmus %s changed\n%s\nto\n%s", command, before, after)
	}
}

func expectLines(t *testing.T, command, text string, want []string) {
	t.Helper()
	for _, pattern := range want {
		if !regexp.MustCompile(pattern).MatchString(text) {
			t.Errorf("isthmus %s: no %s in\n%s", command, pattern, text)
		}
	}
}

// versions returns the versions of all objects in both clusters that the commands can change.
func (w *linked) versions(t *testing.T) string {
	t.Helper()
	var lines []string
	for name, c := range w.clients {
		for _, namespace := range []string{"linkerd", "linkerd-multicluster"} {
			secrets, err := c.CoreV1().Secrets(namespace).List(t.Context(), metav1.ListOptions{})
			must(t, err)
			for _, s := range secrets.Items {
				lines = append(lines, name+" "+s.Namespace+"/"+s.Name+" "+s.ResourceVersion)
			}
		}
		roles, err := c.RbacV1().
			ClusterRoles().
			List(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/managed-by=isthmus-link"})
		must(t, err)
		for _, r := range roles.Items {
			lines = append(lines, name+" ClusterRole "+r.Name+" "+r.ResourceVersion)
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func (w *linked) secret(t *testing.T) (*corev1.Secret, string) {
	t.Helper()
	s, err := w.clients["west"].CoreV1().
		Secrets("linkerd").
		Get(t.Context(), "cluster-credentials-east", metav1.GetOptions{})
	must(t, err)
	config, err := clientcmd.RESTConfigFromKubeConfig(s.Data["kubeconfig"])
	must(t, err)
	return s, config.BearerToken
}

func (w *linked) dead(t *testing.T, token string) {
	t.Helper()
	if err := harness.Poll(
		t.Context(),
		time.Minute,
		time.Second,
		func() error { return w.clients["east"].Refuses(t.Context(), token) },
	); err != nil {
		t.Fatal(err)
	}
}

// moves checks that Isthmus still watches east: it removes and restores an endpoint.
func (w *linked) moves(t *testing.T) {
	t.Helper()
	east := w.pods["east"]
	w.offer(t, "east", east[0])
	w.expect(t, "an endpoint in east is removed", slices.Concat(w.pods["west"], east[:1]))
	w.offer(t, "east", east...)
	w.expect(t, "the endpoint is restored", slices.Concat(w.pods["west"], east))
}

// TestLinkVerbs links a cluster with one command and two contexts of a kubeconfig, and checks that
// the federated Service is served. It rotates the token while streams are open, and unlinks the
// cluster.
func TestLinkVerbs(t *testing.T) {
	t.Parallel()
	w := newLinked(t)
	all := slices.Concat(w.pods["west"], w.pods["east"])
	w.expect(t, "no cluster is linked", w.pods["west"])
	w.refusals(t)

	w.refused(t, 0, "link east --context east --apply --dry-run")
	w.halfway(t)
	w.ok(t, "link east --context east --apply", `(?m)^context east: created ClusterRole isthmus-remote-access$`,
		`(?m)^context west: every replica reads east: ready$`, "warning: the API server's address https://127.0.0.1:")
	w.expect(t, "east is linked", all)
	awaitReady(t, w.gateway, "east")

	w.failures(t)
	w.rotations(t)
	w.newerRole(t)
	w.secondLink(t)
	w.linkedByHand(t)
	w.revoked(t)
}

// halfway checks that link reports a missing permission that only the API server can detect.
// Running the command again with the permission must complete the link.
func (w *linked) halfway(t *testing.T) {
	t.Helper()
	must(t, w.clients["east"].Apply(
		t.Context(),
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "some"}, Rules: []rbacv1.PolicyRule{
			{
				APIGroups: []string{""},
				Resources: []string{"namespaces", "serviceaccounts", "secrets"},
				Verbs:     []string{"get", "list", "create", "delete"},
			},
			{
				APIGroups: []string{rbacv1.GroupName},
				Resources: []string{"clusterroles", "clusterrolebindings"},
				Verbs:     []string{"get", "create", "update"},
			},
		}},
	))
	await(t, "the API server rejects permissions that the user lacks", func() error {
		r := w.try(t, "link east --context nobody --apply")
		if r.code != 1 ||
			!strings.Contains(r.stderr, "you are not allowed to create ClusterRole isthmus-remote-access") ||
			!strings.Contains(r.stderr, "run the command again to continue") {
			return fmt.Errorf("%+v", r)
		}
		return nil
	})
	if !strings.Contains(w.try(t, "link east --context east --apply --dry-run").stdout, "would create ClusterRole") {
		t.Error("a ClusterRole still exists")
	}
}

// failures checks that link rejects a server of another cluster without any change, and that link
// keeps the previous token if no replica is reachable.
func (w *linked) failures(t *testing.T) {
	t.Helper()
	w.refused(
		t,
		1,
		"link east --context east --apply --server "+w.clients["west"].Server(),
		"the certificate of https://127.0.0.1:[0-9]+ is not valid for this link: ",
	)
	_, before := w.secret(t)
	r := runVerb(
		t,
		w.isthmus,
		strings.Fields("link east --context east --apply --admin 127.0.0.1:1 --kubeconfig "+w.kubeconfig)...)
	if r.code != 1 ||
		!strings.Contains(
			r.stderr,
			"the link was written, and older tokens stay valid, but it may not work: 127.0.0.1:1: ",
		) {
		t.Errorf("without a replica: %+v", r)
	}
	if err := w.clients["east"].Refuses(t.Context(), before); err == nil || len(w.tokens(t)) != 2 {
		t.Errorf("the previous token was revoked; tokens %v", w.tokens(t))
	}
	w.moves(t)
	w.ok(t, "link east --context east --apply", "deleted token Secret linkerd-multicluster/")
	w.dead(t, before)
}

// rotations checks that a rotation keeps the labels and annotations of the link, does not affect
// the stream, and revokes the previous token.
func (w *linked) rotations(t *testing.T) {
	t.Helper()
	west, all := w.clients["west"].CoreV1().Secrets("linkerd"), slices.Concat(w.pods["west"], w.pods["east"])
	patch := `{"metadata":{"labels":{"team":"shop"},"annotations":{"isthmus.io/region":"eu-2",` +
		`"isthmus.io/cordon":"false"}}}`
	_, err := west.Patch(
		t.Context(),
		"cluster-credentials-east",
		types.MergePatchType,
		[]byte(patch),
		metav1.PatchOptions{},
	)
	must(t, err)
	for _, more := range []string{"", "--duration 1h --address-ranges 10.2.0.0/16", ""} {
		_, before := w.secret(t)
		w.ok(
			t,
			"link east --context east --apply "+more,
			`(?m)^context east: deleted token Secret linkerd-multicluster/isthmus-remote-access-token-`,
		)
		s, now := w.secret(t)
		if now == before || s.Labels["team"] != "shop" || s.Annotations["isthmus.io/region"] != "eu-2" ||
			s.Annotations["isthmus.io/cordon"] != "false" {
			t.Errorf("after a rotation: same token: %v, %v, %v", now == before, s.Labels, s.Annotations)
		}
		w.dead(t, before)
		w.expect(t, "the token has changed", all)
		w.moves(t)
	}
	_, before := w.secret(t)
	r := w.ok(t, "link east --context east -o json", "older tokens stay valid")
	var printed corev1.Secret
	must(t, json.Unmarshal([]byte(r.stdout), &printed))
	if printed.Labels["team"] != "shop" || printed.ResourceVersion != "" {
		t.Errorf("printed: %+v", printed.ObjectMeta)
	}
	must(t, w.clients["west"].Apply(t.Context(), &printed))
	if _, now := w.secret(t); now == before {
		t.Error("the printed Secret contains the previous token of the link")
	}
	w.ok(t, "link east --context east --apply --wait=false", "deleted token Secret")
	w.ok(t, "link east --context east --apply", "deleted token Secret")
	w.dead(t, before)
	w.moves(t)
	if tokens := w.tokens(t); len(tokens) != 1 {
		t.Errorf("tokens %v still exist", tokens)
	}
}

// newerRole checks that link adds a missing rule to a role, and keeps a rule from a newer version.
func (w *linked) newerRole(t *testing.T) {
	t.Helper()
	roles := w.clients["east"].RbacV1().ClusterRoles()
	role, err := roles.Get(t.Context(), "isthmus-remote-access", metav1.GetOptions{})
	must(t, err)
	for _, fields := range role.ManagedFields {
		if fields.Manager != "isthmus" {
			t.Errorf("the field manager of the ClusterRole is %s", fields.Manager)
		}
	}
	rules := len(role.Rules)
	newer := rbacv1.PolicyRule{
		APIGroups: []string{"example.com"}, Resources: []string{"newer"}, Verbs: []string{"list"},
	}
	role.Rules = append(role.Rules[1:], newer)
	_, err = roles.Update(t.Context(), role, metav1.UpdateOptions{})
	must(t, err)

	w.ok(t, "link east --context east --apply", `(?m)^context east: updated ClusterRole isthmus-remote-access$`)
	role, err = roles.Get(t.Context(), role.Name, metav1.GetOptions{})
	must(t, err)
	isNewer := func(r rbacv1.PolicyRule) bool { return slices.Equal(r.APIGroups, newer.APIGroups) }
	if len(role.Rules) != rules+1 || !slices.ContainsFunc(role.Rules, isNewer) {
		t.Errorf("the rules are %+v", role.Rules)
	}
	w.moves(t)
}

func (w *linked) tokens(t *testing.T) (names []string) {
	t.Helper()
	list, err := w.clients["east"].CoreV1().Secrets("linkerd-multicluster").List(t.Context(), metav1.ListOptions{})
	must(t, err)
	for _, s := range list.Items {
		names = append(names, s.Name)
	}
	return names
}

// secondLink checks that another installation's link to the same account survives. Revoking that
// link must only delete its own token, which has an expiry time.
func (w *linked) secondLink(t *testing.T) {
	t.Helper()
	must(t, w.clients["west"].Apply(t.Context(), kube.Namespace("other")))
	before := w.tokens(t)
	w.ok(t, "link east --context east --duration 1h --apply --wait=false -n other")
	w.ok(t, "unlink east -n other --revoke --context east --yes",
		"deleted link Secret other/cluster-credentials-east",
		"kept ServiceAccount linkerd-multicluster/isthmus-remote-access")
	if after := w.tokens(t); !slices.Equal(after, before) {
		t.Errorf("the token Secrets were %q and are now %q", before, after)
	}
	w.moves(t)
}

// linkedByHand checks that unlink keeps the account if somebody has created another token Secret
// for it, because a link may use that token.
func (w *linked) linkedByHand(t *testing.T) {
	t.Helper()
	east := w.clients["east"]
	must(t, east.Apply(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "linkerd-multicluster", Name: "by-hand",
			Annotations: map[string]string{corev1.ServiceAccountNameKey: "isthmus-remote-access"},
		},
		Type: corev1.SecretTypeServiceAccountToken,
	}))
	token := secretToken(t, east, "linkerd-multicluster", "by-hand")
	w.ok(t, "unlink east --revoke --context east --yes",
		"kept ServiceAccount linkerd-multicluster/isthmus-remote-access and its permissions, "+
			`because another link may use the account's 1 other token \(Secret by-hand\)`)
	w.expect(t, "east is unlinked", w.pods["west"])
	if err := east.Refuses(t.Context(), token); err == nil {
		t.Error("the manually created token was revoked")
	}
	must(t, east.CoreV1().Secrets("linkerd-multicluster").Delete(t.Context(), "by-hand", metav1.DeleteOptions{}))
	w.ok(t, "link east --context east --apply")
	w.expect(t, "east is linked again", slices.Concat(w.pods["west"], w.pods["east"]))
}

// revoked checks that unlink --revoke deletes everything that link created.
func (w *linked) revoked(t *testing.T) {
	t.Helper()
	_, token := w.secret(t)
	w.ok(
		t,
		"unlink east --revoke --context east --yes",
		"deleted ServiceAccount linkerd-multicluster/isthmus-remote-access",
	)
	w.expect(t, "east is unlinked", w.pods["west"])
	w.dead(t, token)
	east := w.clients["east"]
	_, err := east.CoreV1().
		ServiceAccounts("linkerd-multicluster").
		Get(t.Context(), "isthmus-remote-access", metav1.GetOptions{})
	if tokens := w.tokens(t); !apierrors.IsNotFound(err) || len(tokens) > 0 ||
		strings.Contains(w.versions(t), "ClusterRole") {
		t.Errorf("remaining: %v, %v, %s", err, tokens, w.versions(t))
	}
}

// refusals checks that link reports errors from a real API server: unknown credentials, and each
// missing permission. The scripts of package links contain all other errors.
func (w *linked) refusals(t *testing.T) {
	t.Helper()
	w.addContext(t, "nobody", "east", clientcmdapi.AuthInfo{Token: w.account(t, "east")})
	w.addContext(t, "stranger", "east", clientcmdapi.AuthInfo{Token: "never issued"})
	w.refused(t, 1, "link east --context stranger --apply", "rejects your credentials: log in")
	w.refused(t, 1, "link east --context nobody --apply", "you are not allowed to read namespace kube-system")
	w.rights(t)
}

func (w *linked) account(t *testing.T, where string) string {
	t.Helper()
	must(t, w.clients[where].Apply(t.Context(), kube.ServiceAccount("shop", "nobody")))
	token, err := w.clients[where].Token(t.Context(), "shop", "nobody")
	must(t, err)
	return token
}

func (w *linked) rights(t *testing.T) {
	t.Helper()
	east := w.clients["east"]
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "some"}, Rules: []rbacv1.PolicyRule{
		{
			APIGroups: []string{""},
			Resources: []string{"namespaces", "serviceaccounts"},
			Verbs:     []string{"get", "create"},
		},
	}}
	must(t, east.Apply(t.Context(), role, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "some"},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "some"},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "shop", Name: "nobody"}}}))
	await(t, "the role is in effect", func() error {
		if r := w.try(t, "link east --context nobody --apply"); !strings.Contains(r.stderr, "create clusterroles") {
			return fmt.Errorf("%+v", r)
		}
		return nil
	})
	w.refused(
		t,
		1,
		"link east --context nobody --apply",
		`(?s)context nobody: you lack these permissions:\n`+
			`.*  create clusterroles.rbac.authorization.k8s.io\n`+
			`.*  create secrets in namespace linkerd-multicluster\n.*Nothing has been changed`,
	)
}

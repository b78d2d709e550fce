package links

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	k8stesting "k8s.io/client-go/testing"

	"isthmus/clusterstore"
	"isthmus/clusterstore/kube"
	"isthmus/cmd/isthmus/internal/cli"
	"isthmus/cmd/isthmus/internal/reach"
	"isthmus/internal/adminapi"
)

// call runs a command and returns its exit code and output.
func call(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs buffer
	program := &cli.Program{Name: "isthmus", Groups: []cli.Group{{Title: "Verbs", Commands: All()}}}
	code = program.Run(t.Context(), cli.Process{Args: args, Stdout: &out, Stderr: &errs, Signals: make(chan os.Signal)})
	return code, out.String(), errs.String()
}

// buffer is a buffer that several goroutines may use.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(text []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(text)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// newWork returns a work and the buffer that receives its report.
func newWork() (*work, *buffer) {
	out := new(buffer)
	return &work{p: cli.Process{Name: "isthmus test", Stdout: out, Stderr: out}, out: out}, out
}

// showing returns the address of an admin server that serves pages.
func showing(t *testing.T, page func() string) string {
	t.Helper()
	return serving(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, page()) })
}

// serving returns the address of an admin server with a handler.
func serving(t *testing.T, handle http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(adminapi.FormatHeader, strconv.Itoa(adminapi.Format))
		handle(w, r)
	}))
	server.Config.SetKeepAlivesEnabled(false) // an idle connection stops the clock of a synctest bubble
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

// newOptions returns the options of "isthmus link east" with the given flags, and a context with
// their timeout.
func newOptions(t *testing.T, flags ...string) (*linkOptions, context.Context) {
	t.Helper()
	o := &linkOptions{name: "east"}
	v := o.command()
	if err := v.Flags[1].Flags.Parse(flags); err != nil {
		t.Fatal(err)
	}
	if err := o.Check(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), o.Timeout)
	t.Cleanup(cancel)
	return o, ctx
}

// clientsOf returns the typed clients of the commands, which use client-go's fake clientset.
func clientsOf(api kubernetes.Interface) *kube.Clients {
	return &kube.Clients{
		AuthenticationV1Interface: api.AuthenticationV1(),
		AuthorizationV1Interface:  api.AuthorizationV1(),
		CoordinationV1Interface:   api.CoordinationV1(),
		CoreV1Interface:           api.CoreV1(),
		RbacV1Interface:           api.RbacV1(),
	}
}

func newFake(title string, objects ...runtime.Object) (*cluster, *fake.Clientset) {
	api := fake.NewClientset(objects...)
	return &cluster{Cluster: &reach.Cluster{API: clientsOf(api)}, title: title,
		uid: types.UID("uid-" + title)}, api
}

// TestForeignRights checks that objects of others are used if they match, and are never changed.
func TestForeignRights(t *testing.T) {
	a := newRemoteAccess(defaultAccount)
	byHand := func() (role, binding runtime.Object) {
		r, b := a.role.DeepCopy(), a.binding.DeepCopy()
		r.Labels, b.Labels = nil, nil
		return r, b
	}
	role, binding := byHand()
	c, _ := newFake("east", role, binding)
	w, out := newWork()
	if err := a.ensure(t.Context(), w, c); err != nil || strings.Contains(out.String(), "ClusterRole") {
		t.Errorf("%v, %s", err, out)
	}
	other := a.role.DeepCopy()
	other.Labels, other.Rules = nil, other.Rules[:1]
	c, _ = newFake("east", other)
	if a.ensure(t.Context(), w, c) == nil {
		t.Error("a role of somebody else with other rules is used")
	}
	other.Labels = a.role.Labels
	c, api := newFake("east", other)
	if err := a.ensure(t.Context(), w, c); err != nil {
		t.Error(err)
	}
	if now, err := api.RbacV1().ClusterRoles().Get(t.Context(), a.role.Name, metav1.GetOptions{}); err != nil ||
		len(now.Rules) != len(a.role.Rules) {
		t.Errorf("%v, %v", err, now)
	}
}

// TestRoleKeepsRules checks that link adds missing rules to a role of isthmus link and removes no
// rule.
func TestRoleKeepsRules(t *testing.T) {
	a := newRemoteAccess(defaultAccount)
	read := []string{"get", "list", "watch"}
	newer := rbacv1.PolicyRule{APIGroups: []string{"example.com"}, Resources: []string{"newer"}, Verbs: read}
	all := []string{"*"}
	for title, test := range map[string]struct {
		rules []rbacv1.PolicyRule
		adds  int
	}{
		"a newer role":          {append(a.role.DeepCopy().Rules, newer), 0},
		"an older role":         {a.role.DeepCopy().Rules[:3], len(a.role.Rules) - 3},
		"newer and older rules": {append([]rbacv1.PolicyRule{newer}, a.role.DeepCopy().Rules[1:]...), 1},
		"another order":         {append(a.role.DeepCopy().Rules[1:], a.role.Rules[0]), 0},
		"no rules":              {nil, len(a.role.Rules)},
		"everything":            {[]rbacv1.PolicyRule{{APIGroups: all, Resources: all, Verbs: all}}, 0},
		"only one of three verbs": {
			[]rbacv1.PolicyRule{{APIGroups: all, Resources: all, Verbs: read[:1]}}, len(a.role.Rules) - 1,
		},
		"another object only": {[]rbacv1.PolicyRule{{
			APIGroups: all, Resources: all, Verbs: all, ResourceNames: []string{"x"},
		}}, len(a.role.Rules)},
	} {
		role := a.role.DeepCopy()
		role.Rules = test.rules
		c, api := newFake("east", role)
		w, _ := newWork()
		for range 2 { // a second link changes nothing
			if err := a.ensure(t.Context(), w, c); err != nil {
				t.Fatalf("%s: %v", title, err)
			}
		}
		now, err := api.RbacV1().ClusterRoles().Get(t.Context(), a.role.Name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		before := len(test.rules)
		if len(now.Rules) != before+test.adds || !equality.Semantic.DeepEqual(now.Rules[:before], test.rules) {
			t.Errorf("%s: %d rules, before %d", title, len(now.Rules), before)
		}
	}
}

// TestNoToken checks that a Secret without a token is deleted again.
func TestNoToken(t *testing.T) {
	a := newRemoteAccess(defaultAccount)
	c, api := newFake("east")
	api.PrependReactor("create", "secrets", func(a k8stesting.Action) (bool, runtime.Object, error) {
		// An API server derives the name from generateName.
		a.(k8stesting.CreateAction).GetObject().(*corev1.Secret).Name = "t1"
		return false, nil, nil
	})
	w, _ := newWork()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := a.newToken(ctx, w, c, linkKey{link: "east", namespace: "linkerd", by: "u"}, 0); err == nil ||
		!strings.Contains(err.Error(), "did not add a token to the Secret") {
		t.Error(err)
	}
	if list, err := api.CoreV1().Secrets(a.token.Namespace).List(t.Context(), metav1.ListOptions{}); err != nil ||
		len(list.Items) != 0 {
		t.Errorf("%v, %v", err, list.Items)
	}
}

func newContent(token string) *linkContent {
	c := &linkContent{link: "east", cluster: "u", account: defaultAccount,
		server: server{Server: "https://east:6443"}, trustDomain: "a.test", clusterDomain: "b.test"}
	c.token = tokenOf(token)
	return c
}

func tokenOf(text string) token { return token{secret: "s-" + text, text: text} }

// TestConcurrentWrites checks that concurrent changes to the Secret are kept and that changed
// credentials are not overwritten.
func TestConcurrentWrites(t *testing.T) {
	for _, kubeconfig := range []bool{false, true} {
		before, err := newContent("old").toSecret(nil, "linkerd")
		if err != nil {
			t.Fatal(err)
		}
		c, api := newFake("west", before)
		once := true
		api.PrependReactor("update", "secrets", func(k8stesting.Action) (bool, runtime.Object, error) {
			if !once {
				return false, nil, nil
			}
			once = false
			changed := before.DeepCopy()
			changed.Annotations["isthmus.io/cordon"] = "true"
			if kubeconfig {
				changed.Data[clusterstore.KubeconfigKey] = []byte("other")
			}
			if err := api.Tracker().Update(schema.GroupVersionResource{Version: "v1", Resource: "secrets"}, changed,
				"linkerd"); err != nil {
				t.Error(err)
			}
			return true, nil, apierrors.NewConflict(schema.GroupResource{Resource: "secrets"}, before.Name, nil)
		})
		written, err := newContent("new").write(t.Context(), c, "linkerd", before)
		switch {
		case kubeconfig && err == errChanged:
		case kubeconfig || err != nil:
			t.Error(err)
		case written.Annotations["isthmus.io/cordon"] != "true" ||
			!strings.Contains(string(written.Data[clusterstore.KubeconfigKey]), "token: new"):
			t.Errorf("%+v", written)
		}
	}
}

// TestServer checks that flags take precedence over the existing link, which takes precedence over
// the kubeconfig.
func TestServer(t *testing.T) {
	c, _ := newFake("east")
	c.kube = &rest.Config{Host: "https://127.0.0.1:1"}
	existing, err := newContent("x").toSecret(nil, "linkerd")
	if err != nil {
		t.Fatal(err)
	}
	o := new(linkOptions)
	if s := o.chooseServer(c, nil); s.Server != "https://127.0.0.1:1" || !s.loopback() {
		t.Errorf("%+v", s)
	}
	if s := o.chooseServer(c, existing); s.Server != "https://east:6443" || s.loopback() {
		t.Errorf("%+v", s)
	}
	o.server, o.ca = "https://[::1]:2", []byte("ca")
	if s := o.chooseServer(c, existing); s.Server != o.server || string(s.CertificateAuthorityData) != "ca" ||
		!s.loopback() {
		t.Errorf("%+v", s)
	}
}

// TestServerName checks that the name in the server's certificate stays the same with another URL,
// unless a flag changes the name.
func TestServerName(t *testing.T) {
	c, _ := newFake("east")
	c.kube = &rest.Config{Host: "https://context:1", TLSClientConfig: rest.TLSClientConfig{ServerName: "of-context"}}
	text, err := server{Server: "https://link:1", TLSServerName: "of-link"}.kubeconfig("east", "u", "t")
	if err != nil {
		t.Fatal(err)
	}
	link := &corev1.Secret{Data: map[string][]byte{clusterstore.KubeconfigKey: text}}
	for name, x := range map[string]struct {
		existing *corev1.Secret
		flags    []string
		want     string
	}{
		"of the link": {existing: link, want: "of-link"},
		"of the link, another URL": {existing: link, flags: []string{"--server", "https://other:1"},
			want: "of-link"},
		"of the context":              {want: "of-context"},
		"of the context, another URL": {flags: []string{"--server", "https://other:1"}, want: "of-context"},
		"by a flag": {existing: link, flags: []string{"--tls-server-name", "of-flag"},
			want: "of-flag"},
		"cleared": {existing: link, flags: []string{"--tls-server-name", ""}, want: ""},
		"cleared, with another address": {
			flags: []string{"--server", "https://other:1", "--tls-server-name="}, want: ""},
	} {
		o, flags := new(linkOptions), pflag.NewFlagSet("", pflag.ContinueOnError)
		o.contentFlags(flags)
		if err := flags.Parse(x.flags); err != nil {
			t.Fatal(err)
		}
		if got := o.chooseServer(c, x.existing).TLSServerName; got != x.want {
			t.Errorf("%s: %q, want %q", name, got, x.want)
		}
	}
	for name, want := range map[string]bool{
		"api.example": true, "API.example": true, "10.0.0.1": true, "fd00::1": true,
		"a b": false, "https://a": false,
	} {
		if isServerName(name) != want {
			t.Errorf("%q: %v", name, !want)
		}
	}
}

// TestSameServer checks that servers are the same if hosts, ports and paths are equal, ignoring
// trailing slashes.
func TestSameServer(t *testing.T) {
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"https://A:443", "https://a", true},
		{"https://a/", "https://a:443", true},
		{"http://a", "http://a:80/", true},
		{"http://a", "https://a", false},
		{"https://a/k8s/clusters/c-1/", "https://a/k8s/clusters/c-1", true},
		{"https://a/k8s/clusters/c-1", "https://a/k8s/clusters/c-2", false},
		{"https://a/x", "https://a", false},
		{"https://a/X", "https://a/x", false},
		{"https://a:6443", "https://a", false},
	} {
		if sameServer(c.a, c.b) != c.same {
			t.Errorf("%s and %s: %v", c.a, c.b, !c.same)
		}
	}
}

// TestAwaitReplicas checks that a missing replica causes an error at once. A replica that does not
// follow causes an error after the timeout.
func TestAwaitReplicas(t *testing.T) {
	page := `{"clusters":[{"cluster":"east","secret":"s","state":"unreachable","reason":"dial \u001b"}]}`
	wait := func(admin, timeout string) error {
		s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "linkerd", Name: "s", ResourceVersion: "7"}}
		c, _ := newFake("west", s)
		o, ctx := newOptions(t, "--admin", admin, "--timeout", timeout)
		w, _ := newWork()
		_, err := o.awaitLink(ctx, w, c, s)
		return err
	}
	if wait("127.0.0.1:1", "1h") == nil {
		t.Error("no error without a replica")
	}
	admin := showing(t, func() string { return page })
	if err := wait(admin, "4s"); err == nil ||
		!strings.Contains(err.Error(),
			`not every replica reads east with the new credentials within 4s (--timeout): `+admin+
				`: unreachable: "dial \x1b"`) {
		t.Error(err)
	}
	page = strings.NewReplacer(`"state":"unreachable"`, `"secretVersion":"7","state":"ready"`).Replace(page)
	if err := wait(admin, "1h"); err != nil {
		t.Error(err)
	}

	newer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set(adminapi.FormatHeader, strconv.Itoa(adminapi.Format+1))
		io.WriteString(w, page)
	}))
	defer newer.Close()
	err := wait(strings.TrimPrefix(newer.URL, "http://"), "1h")
	const want = "the page cannot be evaluated: the replica serves the debug API in format 2"
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Error(err)
	}
}

// TestDomainsNamespace checks that the domains are read from the replica's namespace or else from
// the namespace linkerd.
func TestDomainsNamespace(t *testing.T) {
	config := func(namespace, domain string) runtime.Object {
		return &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "linkerd-config"},
			Data:       map[string]string{"values": "identityTrustDomain: " + domain + "\nclusterDomain: " + domain},
		}
	}
	for name, x := range map[string]struct {
		namespace, want string
		objects         []runtime.Object
	}{
		"another namespace": {namespace: "mesh",
			objects: []runtime.Object{config("mesh", "mesh.test"), config("linkerd", "linkerd.test")},
			want:    "mesh.test"},
		"Linkerd's": {namespace: "linkerd",
			objects: []runtime.Object{config("mesh", "mesh.test"), config("linkerd", "linkerd.test")},
			want:    "linkerd.test"},
		"Isthmus beside Linkerd": {namespace: "isthmus",
			objects: []runtime.Object{config("linkerd", "linkerd.test")}, want: "linkerd.test"},
		"no Linkerd": {namespace: "mesh", want: defaultDomain},
	} {
		c, _ := newFake("east", x.objects...)
		w, _ := newWork()
		o := &linkOptions{}
		o.Namespace = x.namespace
		if d := o.chooseDomains(t.Context(), w, c, nil); d != (domains{x.want, x.want}) {
			t.Errorf("%s: %+v", name, d)
		}
	}
}

// FuzzDomains checks that domains from any ConfigMap of a linked cluster can be written to the link
// Secret.
func FuzzDomains(f *testing.F) {
	f.Add("identityTrustDomain: a.test\nclusterDomain: b.test")
	f.Add("identityTrustDomain: [1]")
	f.Add("a: &a {clusterDomain: b.test}\nb: &b {<<: [*a, *a]}\n<<: [*b, *b]\nidentityTrustDomain: *a")
	f.Add("identityTrustDomain: \"\\e[31m\"\nclusterDomain: a b")
	f.Fuzz(func(t *testing.T, values string) {
		for _, d := range []string{parseDomains(values).trust, parseDomains(values).cluster} {
			if d != "" && validDomain(d) != d {
				t.Errorf("%q", d)
			}
		}
	})
}

func TestDomains(t *testing.T) {
	if d := parseDomains("identityTrustDomain: a.test\nclusterDomain: b.test\nmore: [1]"); d != (domains{"a.test",
		"b.test"}) {
		t.Errorf("%+v", d)
	}
	if d := parseDomains("clusterDomain: &a b.test\nidentityTrustDomain: *a"); d != (domains{cluster: "b.test"}) {
		t.Errorf("%+v", d)
	}
	// Decoding reports an error for each pair of equal keys, which would use gigabytes here.
	if d := parseDomains("identityTrustDomain: a.test\n" + strings.Repeat("x:\n",
		50_000)); d != (domains{trust: "a.test"}) {
		t.Errorf("%+v", d)
	}
	if d := parseDomains("clusterDomain: b.test\nx: " + strings.Repeat("x", maxValues)); d != (domains{}) {
		t.Errorf("%+v", d)
	}
}

// TestWarnOfClashes checks that a new link is compared with the existing links, whichever name is
// longer.
func TestWarnOfClashes(t *testing.T) {
	for _, names := range [][2]string{{"west", "eu-west"}, {"eu-west", "west"}} {
		var stderr bytes.Buffer
		labelled := func(name string) (s corev1.Secret) {
			s.Labels = map[string]string{clusterstore.ClusterNameLabel: name}
			return s
		}
		other := labelled(names[1])
		same := labelled(names[0])
		warnOfClashes(&work{p: cli.Process{Name: "isthmus", Stderr: &stderr}}, names[0], []corev1.Secret{other, same})
		const want = "a Service NAME-eu of west is not mirrored, because the name NAME-eu-west belongs to eu-west"
		if got := stderr.String(); strings.Count(got, want) != 1 {
			t.Errorf("link %s: %q", names[0], got)
		}
	}
}

// TestRevocationCounts checks that a revocation deletes the tokens of its own link. The revocation
// counts every other Secret with a token of the account, regardless of its creator.
func TestRevocationCounts(t *testing.T) {
	mine := linkKey{link: "east", namespace: "linkerd", by: "uid-west"}
	theirs := linkKey{link: "east", namespace: "other", by: "uid-west"}
	token := func(name, account string, set map[string]string) *corev1.Secret {
		return &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: defaultAccount.Namespace, Name: name, Labels: set,
				Annotations: map[string]string{corev1.ServiceAccountNameKey: account},
			},
			Type: corev1.SecretTypeServiceAccountToken,
		}
	}
	unmanaged := mine.labels()
	delete(unmanaged, managedByLabel)
	// temporary turns the Secret into a Secret of "isthmus link --duration", which has the type
	// Opaque.
	temporary := func(s *corev1.Secret) *corev1.Secret {
		s.Type = corev1.SecretTypeOpaque
		return s
	}
	linked, api := newFake("east",
		token("ours", defaultAccount.Name, mine.labels()),
		token("theirs", defaultAccount.Name, theirs.labels()),
		token("by-hand", defaultAccount.Name, nil),
		token("unmanaged", defaultAccount.Name, unmanaged),
		token("another-account", "someone", nil),
		temporary(token("ours-temporary", defaultAccount.Name, mine.labels())),
		temporary(token("theirs-temporary", defaultAccount.Name, theirs.labels())),
		temporary(token("no-token", defaultAccount.Name, nil)),
	)
	selectByType(api)
	api.PrependReactor("create", "selfsubjectaccessreviews", allowAll)
	r, err := newRevocation(t.Context(), linked, defaultAccount, mine)
	if err != nil {
		t.Fatal(err)
	}
	var deletes []string
	for _, s := range r.tokens {
		deletes = append(deletes, s.Name)
	}
	if !slices.Equal(deletes, []string{"ours", "ours-temporary"}) {
		t.Errorf("deletes %q", deletes)
	}
	if !slices.Equal(r.others, []string{"by-hand", "theirs", "theirs-temporary", "unmanaged"}) {
		t.Errorf("counts %q", r.others)
	}
}

// selectByType makes a fake API server apply field selectors to the type of Secrets.
func selectByType(api *fake.Clientset) {
	api.PrependReactor("list", "secrets", func(action k8stesting.Action) (bool, runtime.Object, error) {
		list := action.(k8stesting.ListAction)
		all, err := api.Tracker().List(action.GetResource(), corev1.SchemeGroupVersion.WithKind("Secret"),
			action.GetNamespace())
		if err != nil {
			return true, nil, err
		}
		found := all.(*corev1.SecretList)
		found.Items = slices.DeleteFunc(found.Items, func(s corev1.Secret) bool {
			return !list.GetListRestrictions().Fields.Matches(fields.Set{"type": string(s.Type)})
		})
		return true, found, nil
	})
}

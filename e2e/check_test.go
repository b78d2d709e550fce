package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"isthmus/e2e/gateway"
	"isthmus/e2e/object"
	"isthmus/internal/adminapi"
)

// TestCheck breaks one thing at a time in a world where all is well: isthmus check finds exactly that. It is about what TestBroken,
// which breaks much at once, does not have.
func TestCheck(t *testing.T) {
	t.Parallel()
	w := newCheckedWorld(t)
	for _, c := range []struct {
		name  string
		spoil func(t *testing.T)
		serve func(t *testing.T, g *gateway.Gateway) // nil: there is nothing to do while it runs
		want  []string                               // patterns
	}{
		{"nothing", func(*testing.T) {}, nil, nil},
		{"a right", func(t *testing.T) { w.without(t, w.west.ApplyYAML, "install/rbac.yaml", "[jobs]", "[cronjobs]") }, nil,
			[]string{`warning rights local: not permitted: (list|watch|list, watch) jobs\.batch \(.*`}},
		{"a CRD", w.withoutServers, nil, []string{`warning crds local: not installed: servers\.policy\.linkerd\.io`}},
		{"a duration without a unit", func(t *testing.T) {
			w.annotate(t, "isthmus.io/lost-after", "10")
		}, nil, []string{`failure link-secret cluster-credentials-east: annotation isthmus\.io/lost-after: "10" is no duration such as 90s or 5m; .*`}},
		{"a clock", func(t *testing.T) {
			server, authority := w.ahead(t, 2*time.Hour)
			w.relink(t, server, authority, 30*24*time.Hour)
		}, nil, []string{`failure clock-skew east: its clock is 2 hours ahead`}},
		{"a trust anchor that has expired", func(t *testing.T) {
			old := anchorPEM(t, -time.Hour)
			w.instead(t, w.east, w.anchors(w.anchor), w.anchors(old))
			w.instead(t, w.west, w.anchors(w.anchor), w.anchors(old))
		}, nil, []string{`failure trust-anchors east: the trust anchor has expired, .*`, `failure trust-anchors local: the trust anchor has expired, .*`}},
		{"an address", func(t *testing.T) {
			w.service(t, w.west, "web", "10.250.0.1")
			w.service(t, w.east, "web", "10.250.0.1")
			w.put(t, w.west, object.Federated("shop", "web-federated", "web", "web@east"))
		}, func(t *testing.T, g *gateway.Gateway) { w.watch(t, g, "web-federated") },
			[]string{`warning addresses shop/web-federated: port 80: another member too offers 1 address of shop/web of cluster east: 10\.250\.0\.1:\d+ is sent from .*`}},
		{"an annotation", func(t *testing.T) {
			s := object.Federated("shop", "web-federated", "", "web@east@@")
			s.Annotations[object.RemoteDiscovery] = "web@east,@"
			w.service(t, w.east, "web", "10.245.0.1")
			w.put(t, w.west, s)
		}, nil, []string{`warning definitions shop/web-federated: .*`}},
		{"a preference in capitals", func(t *testing.T) {
			s := object.Federated("shop", "web-federated", "", "web@east")
			s.Annotations["isthmus.io/prefer"] = "LOCAL, any"
			w.service(t, w.east, "web", "10.245.0.1")
			w.put(t, w.west, s)
		}, nil, []string{`warning definitions shop/web-federated: annotation isthmus\.io/prefer: tier 1: LOCAL differs from local by case only: write local or, .*`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.spoil(t)
			g := startGateway(t, gateway.Config{Kubeconfig: w.kubeconfig})
			if c.serve != nil {
				c.serve(t, g)
			}
			await(t, "exactly that is found", func() error {
				code, bad, _ := w.check(t, "--admin", g.MetricsAddr())
				failed := strings.Contains(strings.Join(c.want, "\n"), "failure ")
				if (code == 1) != failed || code > 1 || !slices.EqualFunc(bad, c.want, func(line, want string) bool {
					return regexp.MustCompile(`^` + want + `$`).MatchString(line)
				}) {
					return fmt.Errorf("exit code %d, found\n%s\nwant\n%s", code, strings.Join(bad, "\n"), strings.Join(c.want, "\n"))
				}
				return nil
			})
		})
	}
	t.Run("no gateway yet", w.preflight)
}

// preflight: without a gateway there is all else, by the user's own kubeconfig, rights of the account that is to run it included.
func (w *checkedWorld) preflight(t *testing.T) {
	text, err := w.west.Kubeconfig(w.west.Server(), w.west.Admin())
	must(t, err)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	must(t, os.WriteFile(path, text, 0o600))
	code, bad, out := w.check(t, "--kubeconfig", path)
	if code != 1 || out.From != "here" || len(bad) != 1 || !strings.HasPrefix(bad[0], "failure gateway: no gateway in namespace linkerd") {
		t.Errorf("exit code %d, from %q, found\n%s", code, out.From, strings.Join(bad, "\n"))
	}
	for _, want := range []string{"rights local", "rights east", "link-secret cluster-credentials-east", "trust-anchors east", "pod-networks east"} {
		if !slices.ContainsFunc(out.Results, func(r adminapi.CheckResult) bool {
			return r.Check+" "+r.Object == want && r.Level == "ok"
		}) {
			t.Errorf("%s is not fine: %+v", want, out.Results)
		}
	}
	_, bad, _ = w.check(t, "--kubeconfig", path, "--service-account", "nobody")
	if len(bad) != 2 || !strings.HasPrefix(bad[1], "failure rights local: not permitted: get, list, watch pods") {
		t.Errorf("found of an account without rights\n%s", strings.Join(bad, "\n"))
	}
	if code, bad, _ := w.check(t, "--pre", "--kubeconfig", path); code != 0 || len(bad) != 0 {
		t.Errorf("before an installation: exit code %d, found\n%s", code, strings.Join(bad, "\n"))
	}
	code, bad, _ = w.check(t, "--pre", "--kubeconfig", path, "--service-account", "nobody")
	if code != 0 || !slices.Equal(bad, []string{"unchecked rights local: there is no ServiceAccount linkerd/nobody yet"}) {
		t.Errorf("before an installation, of an account that it makes: exit code %d, found\n%s", code, strings.Join(bad, "\n"))
	}
	w.put(t, w.west, object.ServiceAccount("linkerd", "nobody"))
	if code, bad, _ := w.check(t, "--pre", "--kubeconfig", path, "--service-account", "nobody"); code != 1 || len(bad) != 1 || !strings.HasPrefix(bad[0], "failure rights local: not permitted: ") {
		t.Errorf("of an account that has no rights: exit code %d, found\n%s", code, strings.Join(bad, "\n"))
	}
	pod := object.Pod("linkerd", "isthmus-0", "default")
	pod.Labels = map[string]string{"app.kubernetes.io/name": "isthmus"}
	w.put(t, w.west, pod)
	_, bad, _ = w.check(t, "--kubeconfig", path)
	if len(bad) != 1 || bad[0] != "failure gateway: no gateway in namespace linkerd is ready: isthmus-0 (pending)" {
		t.Errorf("of a gateway that is not ready, found\n%s", strings.Join(bad, "\n"))
	}
}

// relink gives the link other credentials until the case is over.
func (w *checkedWorld) relink(t *testing.T, server string, authority []byte, good time.Duration) {
	t.Helper()
	w.instead(t, w.west, object.Link("east", w.link(w.east.Server(), w.eastServer.REST().CAData, 30*24*time.Hour)), object.Link("east", w.link(server, authority, good)))
}

// annotate gives the link an annotation until the case is over.
func (w *checkedWorld) annotate(t *testing.T, name, value string) {
	t.Helper()
	plain := object.Link("east", w.link(w.east.Server(), w.eastServer.REST().CAData, 30*24*time.Hour))
	marked := plain.DeepCopy()
	marked.Annotations[name] = value
	w.instead(t, w.west, plain, marked)
}

// withoutServers takes the CRD of Servers away until the case is over.
func (w *checkedWorld) withoutServers(t *testing.T) {
	resource, _, err := w.west.ResourceNamed("customresourcedefinitions")
	must(t, err)
	crds := w.west.In(resource, "")
	const name = "servers.policy.linkerd.io"
	before, err := crds.Get(t.Context(), name, metav1.GetOptions{})
	must(t, err)
	must(t, crds.Delete(t.Context(), name, metav1.DeleteOptions{}))
	before.SetManagedFields(nil)
	before.SetResourceVersion("")
	before.SetUID("")
	t.Cleanup(func() {
		_, err := crds.Create(w.Context(), before, metav1.CreateOptions{})
		must(t, err)
	})
}

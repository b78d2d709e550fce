package reach

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

func TestMain(m *testing.M) {
	// After both sides have closed a connection, spdystream keeps goroutines for a second or
	// longer. The goroutines send the connection's error and wait for its streams.
	const shutdown = "github.com/moby/spdystream.(*Connection).shutdown"
	// If a connection ends while client-go opens its second stream, client-go waits up to 30 s for
	// that stream. The goroutine that reads the first stream then never ends.
	const handle = "k8s.io/client-go/tools/portforward.(*PortForwarder).handleConnection"
	goleak.VerifyTestMain(
		m,
		goleak.IgnoreAnyFunction(shutdown),
		goleak.IgnoreAnyFunction(shutdown+".func1"),
		goleak.IgnoreAnyFunction(handle),
		goleak.IgnoreAnyFunction(handle+".func1"),
	)
}

// open opens the cluster at an address with a kubeconfig.
func open(t *testing.T, server string) *Cluster {
	t.Helper()
	c, err := (&Options{Kubeconfig: write(t, kubeconfig(server)), Namespace: "linkerd"}).Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func kubeconfig(server string) string {
	return fmt.Sprintf(`{"kind":"Config","apiVersion":"v1","current-context":"west",
"clusters":[{"name":"c","cluster":{"server":%q}}],
"users":[{"name":"u","user":{"token":"SECRET"}}],
"contexts":[{"name":"west","context":{"cluster":"c","user":"u"}}]}`, server)
}

// TestKubeconfig checks that errors name the problem of a kubeconfig but no credential.
func TestKubeconfig(t *testing.T) {
	good := kubeconfig("http://127.0.0.1:1")
	for _, c := range []struct{ name, file, context, want string }{
		{"good", good, "", ""},
		{"unknown context", good, "\x1bx",
			"the kubeconfig has no context \"\\x1bx\"\n  Choose a context with --context: west"},
		{"no current context", strings.Replace(good, `"current-context":"west",`, "", 1), "",
			"the kubeconfig has no current context\n  Choose a context with --context: west"},
		{"no contexts", `{"kind":"Config","apiVersion":"v1","current-context":"x"}`, "",
			"the kubeconfig contains no contexts, so context x cannot be used"},
		{"no YAML", "SECRET: [", "", "kubeconfig: "},
		{"another kind", "SECRETs", "", "kubeconfig: "},
		{"a token that is no text", strings.Replace(good, `"SECRET"`, `["SECRET"]`, 1), "", "kubeconfig: "},
		{"a key that is no key",
			strings.Replace(good, `"token":"SECRET"`,
				`"client-key-data":"SECRET!","client-certificate-data":"U0VDUkVU"`, 1), "", "kubeconfig: "},
		{"a CA that is not to be used",
			strings.Replace(good, `{"server":"http:`,
				`{"insecure-skip-tls-verify":true,"certificate-authority-data":"U0VDUkVU","server":"https:`, 1), "",
			"kubeconfig: context west: "},
		{"no such user", strings.Replace(good, `"user":"u"`, `"user":"v"`, 1), "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			cluster, err := (&Options{Kubeconfig: write(t, c.file), Context: c.context}).Open()
			if cluster != nil {
				cluster.Close()
			}
			if c.want == "" && err != nil || c.want != "" &&
				(err == nil || !strings.HasPrefix(err.Error(), c.want)) || err != nil &&
				strings.Contains(err.Error(), "SECRET") {
				t.Errorf("%v, want %s", err, c.want)
			}
		})
	}
}

func ports(list ...any) (ports []v1.ContainerPort) {
	for i := 0; i < len(list); i += 2 {
		ports = append(ports, v1.ContainerPort{Name: list[i].(string), ContainerPort: int32(list[i+1].(int))})
	}
	return ports
}

// TestPorts checks that the ports are those of the replica's container, not of other containers.
func TestPorts(t *testing.T) {
	for _, c := range []struct {
		name        string
		containers  []v1.Container
		admin, grpc int
	}{
		{"none", nil, 9996, 8086},
		{"this project's", []v1.Container{{Name: "isthmus", Ports: ports("admin", 1, "grpc", 2)}}, 1, 2},
		{"Linkerd's", []v1.Container{
			{Name: "linkerd-proxy", Ports: ports("linkerd-admin", 4191)},
			{Name: "sp-validator", Ports: ports("admin-http", 9997)},
			{Name: "destination", Ports: ports("dest-grpc", 2, "dest-admin", 1)},
			{Name: "policy", Ports: ports("grpc", 8090, "admin-http", 9990)}}, 1, 2},
		{"older", []v1.Container{{Name: "destination", Ports: ports("grpc", 2, "admin-http", 1)}}, 1, 2},
		{"by its ports", []v1.Container{{Name: "a"}, {Name: "b", Ports: ports("grpc", 2)}}, 9996, 2},
	} {
		g := (&Cluster{}).replica(&v1.Pod{Spec: v1.PodSpec{Containers: c.containers}})
		if g.AdminPort != c.admin || g.GRPCPort != c.grpc {
			t.Errorf("%s: %d and %d", c.name, g.AdminPort, g.GRPCPort)
		}
	}
}

// TestGateways checks that ready replicas come first, followed by replicas that may become ready,
// with the reason. Pods that are ending or have ended are left out.
func TestGateways(t *testing.T) {
	pod := func(name string, phase v1.PodPhase, ready v1.ConditionStatus, change func(*v1.Pod)) v1.Pod {
		p := v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "linkerd", Name: name},
			Status: v1.PodStatus{Phase: phase, Conditions: []v1.PodCondition{{Type: v1.PodReady, Status: ready}}}}
		if change != nil {
			change(&p)
		}
		return p
	}
	list := []v1.Pod{
		pod("a", v1.PodRunning, v1.ConditionFalse, func(p *v1.Pod) {
			p.Status.ContainerStatuses = []v1.ContainerStatus{{Name: "isthmus",
				State: v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "\x1bCrash"}}}}
		}),
		pod("b", v1.PodRunning, v1.ConditionTrue, nil),
		pod("c", v1.PodFailed, v1.ConditionFalse, nil),
		pod("d", v1.PodRunning, v1.ConditionTrue,
			func(p *v1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: time.Now()} }),
		pod("e", v1.PodPending, v1.ConditionFalse, nil),
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(v1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}, Items: list})
	}))
	t.Cleanup(server.Close)
	c := open(t, server.URL)
	replicas, err := c.Replicas(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, g := range replicas {
		got = append(got, g.Name+" "+g.NotReady)
	}
	if want := []string{"b ", `a "container isthmus waits: \x1bCrash"`, "e pending"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	list = slices.Delete(list, 1, 2)
	if _, err = c.Replicas(t.Context()); err == nil || !strings.Contains(err.Error(), "no replica in namespace "+
		"linkerd is ready: ") || !strings.Contains(err.Error(), "d (terminating), e (pending)") {
		t.Error(err)
	}
}

// TestBothInstallations checks that replicas beside Linkerd and in Linkerd's place are found in one
// namespace. Linkerd's own destination controller is found only if no Pod has the label of Isthmus.
func TestBothInstallations(t *testing.T) {
	pod := func(name, component, container, image string) v1.Pod {
		key, value, _ := strings.Cut(component, "=")
		return v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "linkerd", Name: name, Labels: map[string]string{key: value}},
			Spec: v1.PodSpec{
				Containers: []v1.Container{
					{Name: "linkerd-proxy", Image: "isthmus-proxy"}, {Name: container, Image: image},
				},
			},
			Status: v1.PodStatus{
				Phase: v1.PodRunning, Conditions: []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue}},
			},
		}
	}
	const digest = "@sha256:0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a"
	beside := pod("isthmus-1", besideLinkerd, "isthmus", "registry.example.com:5000/mesh/isthmus:v1")
	renamed := pod("isthmus-2", besideLinkerd, "isthmus", "registry.example.com/federation:v1")
	inPlace := pod("linkerd-destination-1", inLinkerdPlace, "destination", "registry.example.com:5000/isthmus"+digest)
	sameImage := pod("linkerd-destination-2", inLinkerdPlace, "destination", "mirror.example.com/federation:v2"+digest)
	linkerds := pod("linkerd-destination-3", inLinkerdPlace, "destination", "cr.l5d.io/linkerd/controller:edge")
	for name, c := range map[string]struct {
		pods []v1.Pod
		want []string
	}{
		"both":                {[]v1.Pod{inPlace, beside}, []string{"isthmus-1", "linkerd-destination-1"}},
		"both, renamed":       {[]v1.Pod{sameImage, renamed}, []string{"isthmus-2", "linkerd-destination-2"}},
		"beside Linkerd's":    {[]v1.Pod{linkerds, beside}, []string{"isthmus-1"}},
		"during the rollout":  {[]v1.Pod{linkerds, inPlace, beside}, []string{"isthmus-1", "linkerd-destination-1"}},
		"in Linkerd's place":  {[]v1.Pod{sameImage}, []string{"linkerd-destination-2"}},
		"Linkerd's own alone": {[]v1.Pod{linkerds}, []string{"linkerd-destination-3"}},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				selector, err := labels.Parse(r.FormValue("labelSelector"))
				list := v1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}}
				for _, p := range c.pods {
					if err == nil && selector.Matches(labels.Set(p.Labels)) {
						list.Items = append(list.Items, p)
					}
				}
				w.Header().Set("Content-Type", "application/json")
				json.NewEncoder(w).Encode(list)
			}))
			t.Cleanup(server.Close)
			replicas, err := open(t, server.URL).Replicas(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, g := range replicas {
				got = append(got, g.Name)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// TestUserAgent checks that requests name the program in the user agent, which is also the field
// manager of writes.
func TestUserAgent(t *testing.T) {
	var agents []string
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		agents = append(agents, r.UserAgent())
		w.WriteHeader(http.StatusNotFound)
	}))
	defer server.Close()
	text := strings.Replace(kubeconfig(server.URL), `{"server"`, `{"insecure-skip-tls-verify":true,"server"`, 1)
	c, err := (&Options{Kubeconfig: write(t, text), Namespace: "linkerd"}).Open()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, _ = c.API.ConfigMaps("linkerd").Get(t.Context(), "x", metav1.GetOptions{})
	if conn, err := (Replica{Namespace: "linkerd", Name: "isthmus-0", cluster: c}).Dial(t.Context(), 9996); err == nil {
		conn.Close()
	}
	for _, agent := range agents {
		if !strings.HasPrefix(agent, "isthmus/") {
			t.Errorf("a request has the user agent %q", agent)
		}
	}
	if len(agents) < 2 {
		t.Errorf("%d requests", len(agents))
	}
}

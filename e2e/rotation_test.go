package e2e

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"isthmus/e2e/admin"
	"isthmus/e2e/cluster"
	"isthmus/e2e/gateway"
	"isthmus/e2e/intercept"
	"isthmus/e2e/kube"
	"isthmus/e2e/object"
	"isthmus/e2e/proxy"
	"isthmus/internal/adminapi"
)

// front is an HTTP server before a real API server. It can answer for kinds of objects as one does whose conversion
// webhook is broken.
type front struct {
	url string

	mu      sync.Mutex
	failing []string // resources
}

func newFront(t *testing.T, c *cluster.Cluster) *front {
	t.Helper()
	target, err := url.Parse(c.REST().Host)
	must(t, err)
	transport, err := rest.TransportFor(c.REST())
	must(t, err)
	f := &front{}
	answer := func(w http.ResponseWriter, r *http.Request, forward http.HandlerFunc) {
		f.mu.Lock()
		fails := slices.Contains(f.failing, path.Base(r.URL.Path))
		f.mu.Unlock()
		if !fails {
			forward(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure",`+
			`"reason":"InternalError","code":500,"message":"conversion webhook failed"}`)
	}
	f.url = intercept.Start(t, target, transport, answer).URL
	return f
}

// fail makes requests for these resources fail from now on, and no others.
func (f *front) fail(resources ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failing = resources
}

// kubeconfig returns credentials for who comes by the front.
func (f *front) kubeconfig(t *testing.T) []byte {
	t.Helper()
	text, err := object.Kubeconfig("east", clientcmdapi.Cluster{Server: f.url}, clientcmdapi.AuthInfo{Token: "unused"})
	must(t, err)
	return text
}

// custom are Linkerd's kinds of which endpoints are made.
var custom = []string{"servers", "externalworkloads"}

// applyKinds writes a Service with a Pod whose port a Server makes opaque, and with an ExternalWorkload.
func applyKinds(t *testing.T, k *kube.Client, network int) {
	t.Helper()
	pod, vm := fmt.Sprintf("10.20.%d.1", network), fmt.Sprintf("10.20.%d.2", network)
	external := object.Endpoint(vm)
	external.TargetRef = object.PodEndpoint(vm, "shop", "vm").TargetRef
	external.TargetRef.Kind = "ExternalWorkload"
	one := object.Mesh(object.Pod("shop", "web-1", "web"))
	one.Labels["app"] = "web"
	must(t, k.Apply(t.Context(),
		object.Namespace("shop"),
		object.ServiceAccount("shop", "web"),
		object.Service("shop", "web"),
		one,
		object.ExternalWorkload("shop", "vm", vm),
		object.OpaqueServer("shop", "web", "web", object.Port),
		object.Slice("shop", "web", "1", object.PodEndpoint(pod, "shop", "web-1"), external)))
}

// seen describes what a proxy has: addresses, and which are opaque.
func seen(s *proxy.Stream) string {
	var all []string
	for at, e := range s.Snapshot().Get.Endpoints() {
		text := at.Addr().String()
		if e.Weighted.GetProtocolHint().GetOpaque() != nil {
			text += " opaque"
		}
		all = append(all, text)
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

func whole(network int) string { return fmt.Sprintf("10.20.%d.1 opaque, 10.20.%d.2", network, network) }

// watchSeen notes what a proxy has that it should not have, until the result is called.
func watchSeen(t *testing.T, s *proxy.Stream, allowed ...string) (stop func()) {
	t.Helper()
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			changed := s.Changed()
			if now := seen(s); now != "" && !slices.Contains(allowed, now) {
				t.Errorf("the proxy has %s", now)
			}
			select {
			case <-done:
				return
			case <-changed:
			}
		}
	}()
	return func() { close(done); <-ended }
}

func stream(t *testing.T, g *gateway.Gateway, service string) *proxy.Stream {
	t.Helper()
	conn, err := proxy.Dial(g.Addr())
	must(t, err)
	t.Cleanup(func() { conn.Close() })
	s := proxy.NewStream(proxy.Config{
		Conn:      conn,
		MayBeLate: true,
		Kind:      proxy.Get,
		Authority: object.Authority("shop", service),
		Token:     `{"ns":"shop"}`,
	})
	t.Cleanup(s.Close)
	must(t, s.Open(t.Context()))
	return s
}

func awaitSeen(t *testing.T, s *proxy.Stream, want string) {
	t.Helper()
	await(t, "the proxy has "+want, func() error {
		if got := seen(s); got != want {
			return fmt.Errorf("it has %s", got)
		}
		return nil
	})
}

// awaitLinked waits until a gateway reads a cluster as the link Secret has it now.
func awaitLinked(t *testing.T, west *kube.Client, g *gateway.Gateway, name string) {
	t.Helper()
	secrets := west.CoreV1().Secrets(object.LinkNamespace)
	secret, err := secrets.Get(t.Context(), object.LinkName(name), metav1.GetOptions{})
	must(t, err)
	await(t, "the credentials are in use", func() error {
		page, err := admin.ReadClusters(t.Context(), g.MetricsAddr())
		if err != nil {
			return err
		}
		for _, c := range admin.Named(page, name) {
			if c.State == adminapi.Ready && c.SecretVersion == secret.ResourceVersion {
				return nil
			}
			err = fmt.Errorf("%s, version %s of %s: %q", c.State, c.SecretVersion, secret.ResourceVersion, c.Warnings)
		}
		return err
	})
}

// TestRotationOfKinds: new credentials are used once they have listed the kinds that the cluster has objects of, unless
// they lead to a cluster without these kinds.
func TestRotationOfKinds(t *testing.T) {
	servers := startClusters(t, []string{"namespace", "serviceaccount"}, "west", "east", "north")
	west, east, north := client(t, servers[0]), client(t, servers[1]), client(t, servers[2])
	applyKinds(t, east, 1)
	first := newFront(t, servers[1])
	must(t, west.Apply(t.Context(), object.Namespace("shop"), object.Namespace(object.LinkNamespace),
		object.Federated("shop", "web-federated", "", "web@east"), object.Link("east", first.kubeconfig(t))))
	g := startGateway(t, gateway.Config{
		Kubeconfig: servers[0].Kubeconfig(),
		Args:       []string{"-shutdown-delay=0s", "-drain=0s"},
	})
	s := stream(t, g, "web-federated")
	awaitSeen(t, s, whole(1))

	stop := watchSeen(t, s, whole(1))
	for _, late := range []time.Duration{6 * time.Second, 20 * time.Second, 40 * time.Second} {
		next := newFront(t, servers[1])
		next.fail(custom...)
		must(t, west.Apply(t.Context(), object.Link("east", next.kubeconfig(t))))
		granted := time.AfterFunc(late, func() { next.fail() })
		began := time.Now()
		awaitLinked(t, west, g, "east")
		granted.Stop()
		if took := time.Since(began); took < late {
			t.Errorf("credentials that could list all kinds after %v were used after %v", late, took)
		}
	}
	stop()

	removeDefinitions(t, north)
	must(t, north.Apply(t.Context(),
		object.Namespace("shop"),
		object.Service("shop", "web"),
		object.Slice("shop", "web", "1", object.Endpoint("10.20.2.1"))))
	must(t, west.Apply(t.Context(), object.Link("east", newFront(t, servers[2]).kubeconfig(t))))
	awaitLinked(t, west, g, "east")
	awaitSeen(t, s, "10.20.2.1")
}

// TestStartWithLateKinds: a gateway that starts waits for kinds whose lists are late, both of its
// own cluster and of linked ones. After 25 s the gateway serves without these kinds and says so.
func TestStartWithLateKinds(t *testing.T) {
	servers := startClusters(t, []string{"namespace", "serviceaccount"}, "west", "east")
	west, east := client(t, servers[0]), client(t, servers[1])
	applyKinds(t, west, 3)
	applyKinds(t, east, 4)
	own, linked := newFront(t, servers[0]), newFront(t, servers[1])
	must(t, west.Apply(t.Context(), object.Namespace(object.LinkNamespace),
		object.Federated("shop", "web-east", "", "web@east"), object.Link("east", linked.kubeconfig(t))))
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	must(t, os.WriteFile(kubeconfig, own.kubeconfig(t), 0o600))
	if _, err := clientcmd.LoadFromFile(kubeconfig); err != nil {
		t.Fatal(err)
	}
	own.fail(append([]string{"serviceprofiles"}, custom...)...)
	linked.fail("externalworkloads")
	began := time.Now()
	time.AfterFunc(8*time.Second, func() { own.fail() })
	g := startGateway(t, gateway.Config{Kubeconfig: kubeconfig, Args: []string{"-shutdown-delay=0s", "-drain=0s"}})
	if took := time.Since(began); took < 25*time.Second || took > 40*time.Second {
		t.Errorf("the gateway was ready after %v", took)
	}
	here, there := stream(t, g, "web"), stream(t, g, "web-east")
	awaitSeen(t, here, whole(3))
	awaitSeen(t, there, "10.20.4.1 opaque")
	unread := regexp.MustCompile(`^isthmus_cluster_kind_unread\{`)
	samples := func() (found []string) {
		all, err := admin.Metrics(t.Context(), g.MetricsAddr())
		must(t, err)
		for _, one := range all {
			if unread.MatchString(one.Series) {
				found = append(found, one.Series)
			}
		}
		return found
	}
	want := []string{`isthmus_cluster_kind_unread{cluster="east",reason="failing",resource="externalworkloads"}`}
	if got := samples(); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	linked.fail()
	awaitSeen(t, there, whole(4))
	if got := samples(); len(got) > 0 {
		t.Errorf("%q", got)
	}
}

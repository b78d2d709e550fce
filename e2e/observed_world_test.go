package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"isthmus/e2e/harness"
	"isthmus/e2e/harness/kube"
	"isthmus/e2e/proxy"
	"isthmus/e2e/shop"
)

const federatedShop = "web-federated.shop.svc.cluster.local:80"

// observed is the demo's world with two gateways, streams, changes and a few things that are not as they should be: a
// link to a cluster that is not there, a claimed address, and proxies that take nothing. The federated Service has a
// preference. The second gateway reads core Endpoints.
type observed struct {
	t        *testing.T
	shops    map[string]*shop.Cluster
	gateways []*harness.Replica
	stream   *proxy.Stream // of federatedShop, at the first gateway
}

func newObserved(t *testing.T) *observed {
	o := &observed{t: t, shops: map[string]*shop.Cluster{}}
	names := []string{"west", "east", "north"}
	servers := startClusters(t, shop.Controllers, names...)
	for i, server := range servers {
		c, err := shop.New(server.Name(), byte(i+1), server.REST())
		must(o.t, err)
		o.shops[server.Name()] = c
		o.background(c)
	}
	var filled sync.WaitGroup
	for i, name := range names {
		filled.Go(func() {
			if err := o.shops[name].Deploy(t.Context(), 3-i, 2); err != nil {
				t.Error(err)
			}
		})
	}
	filled.Wait()
	west := o.shops["west"]
	must(o.t, west.Mirror(t.Context()))
	prefer := []byte(`{"metadata":{"annotations":{"isthmus.io/prefer":"local, any"}}}`)
	_, err := west.CoreV1().Services(shop.Namespace).Patch(t.Context(), "web-federated", types.MergePatchType, prefer, metav1.PatchOptions{})
	must(o.t, err)
	access, err := west.GatewayAccess(t.Context()) // with the namespace that links are in
	must(o.t, err)
	for _, remote := range names[1:] {
		kubeconfig, err := o.shops[remote].RemoteAccess(t.Context(), "remote-access-token-1")
		must(o.t, err)
		must(o.t, west.Link(t.Context(), remote, kubeconfig))
	}
	o.linkDead()
	o.linkBehind()
	o.claim()
	o.export()
	o.startGateways(access)
	o.updates()
	return o
}

// background makes the cluster's Deployments into Pods until the test ends.
func (o *observed) background(c *shop.Cluster) {
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.Run(ctx)
	}()
	o.t.Cleanup(func() {
		stop()
		<-done
		c.Close()
	})
}

// linkDead links a cluster whose API server refuses connections, and which is taken out.
func (o *observed) linkDead() {
	dead, err := harness.StartFaultProxy("127.0.0.1:1") // below the ports that others are given
	must(o.t, err)
	atEnd(o.t, dead.Close)
	must(o.t, dead.Set(harness.FaultMode{Refuse: true}))
	kubeconfig, err := kube.Kubeconfig("dead", clientcmdapi.Cluster{Server: "https://" + dead.Addr()}, clientcmdapi.AuthInfo{Token: "t"})
	must(o.t, err)
	link := kube.Link("dead", kubeconfig)
	link.Annotations["isthmus.io/cordon"] = "last-resort"
	must(o.t, o.shops["west"].Apply(o.t.Context(), link))
}

// linkBehind links north once more, as a cluster on another network that is reached through a gateway.
func (o *observed) linkBehind() {
	answers := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	o.t.Cleanup(answers.Close)
	at := netip.MustParseAddrPort(answers.Listener.Addr().String())
	through := kube.Service(shop.Namespace, "gateway")
	through.Annotations = map[string]string{
		"mirror.linkerd.io/multicluster-gateway": "true", "mirror.linkerd.io/gateway-identity": "gateway.test",
		"mirror.linkerd.io/probe-path": "/ready", "mirror.linkerd.io/probe-period": "1",
	}
	through.Spec.Ports = []corev1.ServicePort{{Name: "mc-gateway", Port: 4143}, {Name: "mc-probe", Port: int32(at.Port())}}
	through.Spec.Type = corev1.ServiceTypeLoadBalancer
	north := o.shops["north"]
	must(o.t, north.Apply(o.t.Context(), through))
	services := north.CoreV1().Services(shop.Namespace)
	made, err := services.Get(o.t.Context(), through.Name, metav1.GetOptions{})
	must(o.t, err)
	made.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: at.Addr().String()}}
	_, err = services.UpdateStatus(o.t.Context(), made, metav1.UpdateOptions{})
	must(o.t, err)
	kubeconfig, err := north.RemoteAccess(o.t.Context(), "remote-access-token-2")
	must(o.t, err)
	link := kube.Link("behind", kubeconfig)
	link.Annotations["isthmus.io/network"] = "elsewhere"
	must(o.t, o.shops["west"].Apply(o.t.Context(), link))
}

// claim makes east offer an endpoint at the address of a Service in west.
func (o *observed) claim() {
	web, err := o.shops["west"].CoreV1().Services(shop.Namespace).Get(o.t.Context(), "web", metav1.GetOptions{})
	must(o.t, err)
	claimed := kube.Slice(shop.Namespace, "cart", "claimed", kube.Endpoint(web.Spec.ClusterIP))
	must(o.t, o.shops["east"].Apply(o.t.Context(), claimed))
}

// export has east and north export Services: one of both, of which they disagree about the port, and one whose name is taken in west.
func (o *observed) export() {
	shared := func(port int32) *corev1.Service {
		s := kube.Service(shop.Namespace, "shared")
		s.Labels = map[string]string{"mirror.linkerd.io/federated": "member"}
		s.Spec.Ports[0].Port = port
		return s
	}
	spare := kube.Service(shop.Namespace, "spare")
	spare.Labels = map[string]string{"mirror.linkerd.io/exported": "remote-discovery"}
	must(o.t, o.shops["east"].Apply(o.t.Context(), shared(80), spare))
	must(o.t, o.shops["north"].Apply(o.t.Context(), shared(81)))
	west := o.shops["west"]
	must(o.t, west.Apply(o.t.Context(), kube.Service(shop.Namespace, "spare-east")))
	text, err := os.ReadFile(manifest(o.t, "install/exports/rbac.yaml"))
	must(o.t, err)
	must(o.t, west.ApplyYAML(o.t.Context(), strings.ReplaceAll(string(text), "name: isthmus\n", "name: linkerd-destination\n")))
}

func (o *observed) startGateways(kubeconfig []byte) {
	path := filepath.Join(o.t.TempDir(), "kubeconfig")
	must(o.t, os.WriteFile(path, kubeconfig, 0o600))
	for _, args := range [][]string{{"-service-metrics", "-exports=on"}, {"-enable-endpoint-slices=false"}} {
		o.gateways = append(o.gateways, startGateway(o.t, harness.ReplicaConfig{Kubeconfig: path, Env: []string{"ISTHMUS_TEST_LOOPBACK_GATEWAYS=true"},
			Args: append(args, "-target-cluster-label=true", "-shutdown-delay=0s", "-drain=0s", "-stream-stall-timeout=1s")}))
	}
}

// subscribe opens a stream at a gateway, as the proxy of a Pod in west.
func (o *observed) subscribe(g *harness.Replica, kind proxy.Kind, authority string) *proxy.Stream {
	conn, err := proxy.Dial(g.Addr())
	must(o.t, err)
	s := proxy.NewStream(proxy.Config{Conn: conn, MayBeLate: true, Kind: kind, Authority: authority,
		Token: fmt.Sprintf(`{"ns":"shop","nodeName":%q,"pod":"test"}`, o.shops["west"].Node())})
	atEnd(o.t, conn.Close)
	o.t.Cleanup(s.Close)
	must(o.t, s.Open(context.Background())) // not the test's: its end is no fault of the gateway
	return s
}

// watch opens the streams that stay: of every kind, and at both gateways.
func (o *observed) watch() {
	for _, g := range o.gateways {
		for _, authority := range []string{federatedShop, "web.shop.svc.cluster.local:80", "cart-east.shop.svc.cluster.local:80"} {
			s := o.subscribe(g, proxy.Get, authority)
			if o.stream == nil {
				o.stream = s
			}
		}
		for _, authority := range []string{"web.shop.svc.cluster.local:80", "10.1.0.1:8080"} {
			o.subscribe(g, proxy.GetProfile, authority)
		}
	}
}

// churn keeps changing how many Pods the shops of west and east have, and opens streams that end with a code, until the
// test ends.
func (o *observed) churn() {
	for _, name := range []string{"west", "east"} {
		c, refused := o.shops[name], o.subscribe(o.gateways[0], proxy.Get, "no-such.shop.svc.cluster.local:80")
		o.again(func(ctx context.Context, n int) error {
			_, scaled := c.Scale(ctx, "web", 2+n%2)
			refused.Close()
			return errors.Join(scaled, refused.Open(context.Background()))
		})
	}
}

// stall subscribes to something large that changes all the time, and takes nothing: until the gateway gives up.
func (o *observed) stall() {
	g, west := o.gateways[0], o.shops["west"]
	large := func(n int) []runtime.Object {
		slice := kube.Slice(shop.Namespace, "large", "1")
		for i := range 900 {
			slice.Endpoints = append(slice.Endpoints, kube.Endpoint(fmt.Sprintf("10.%d.%d.%d", 200+n%2, i/250, 1+i%250)))
		}
		var routes []any
		for i := range 400 {
			routes = append(routes, map[string]any{"name": fmt.Sprintf("GET /a-route-with-a-long-name/%d/%d", n, i),
				"condition": map[string]any{"method": "GET", "pathRegex": fmt.Sprintf("/a-route-with-a-long-name/%d", i)}})
		}
		return []runtime.Object{kube.Service(shop.Namespace, "large"), slice, kube.ServiceProfile(shop.Namespace, "large", routes...)}
	}
	apply := func(n int) {
		await(o.t, "the large Service is applied", func() error { return west.Apply(o.t.Context(), large(n)...) })
	}
	apply(0)
	streams := []*proxy.Stream{o.subscribe(g, proxy.Get, "large.shop.svc.cluster.local:80"), o.subscribe(g, proxy.GetProfile, "large.shop.svc.cluster.local:80")}
	for _, s := range streams {
		s.Stall()
	}
	stalled := []*regexp.Regexp{
		regexp.MustCompile(`(?m)^endpoint_updates_queue_overflow\{.*\} [1-9]`),
		regexp.MustCompile(`(?m)^profile_updates_queue_overflow\{.*\} [1-9]`),
	}
	limit := time.Now().Add(2 * time.Minute)
	for n := 1; ; n++ {
		metrics := o.metrics(o.t, g)
		if stalled[0].MatchString(metrics) && stalled[1].MatchString(metrics) {
			return
		}
		if time.Now().After(limit) {
			o.t.Fatalf("proxies that take nothing are not given up after %d changes", n)
		}
		apply(n)
	}
}

// metrics returns a gateway's /metrics.
func (o *observed) metrics(t *testing.T, g *harness.Replica) (text string) {
	t.Helper()
	await(t, "/metrics", func() (err error) {
		text, err = harness.GetPage(t.Context(), g.MetricsAddr(), "/metrics")
		return err
	})
	return text
}

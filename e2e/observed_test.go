package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"isthmus/e2e/harness"
	"isthmus/e2e/harness/kube"
	"isthmus/e2e/proxy"
	"isthmus/e2e/shop"
)

const federatedShop = "web-federated.shop.svc.cluster.local:80"

// observed contains the clusters of the demo with two replicas, streams, continuous changes and
// some faults: a link to an unreachable cluster, a claimed address, and proxies that do not read.
// The federated Service has a preference. The second replica reads core Endpoints.
type observed struct {
	t        *testing.T
	shops    map[string]*shop.Cluster
	gateways []*harness.Replica
	stream   *proxy.Stream // stream for federatedShop at the first replica
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
	_, err := west.CoreV1().
		Services(shop.Namespace).
		Patch(t.Context(), "web-federated", types.MergePatchType, prefer, metav1.PatchOptions{})
	must(o.t, err)
	access, err := west.GatewayAccess(t.Context()) // also creates the namespace for links
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

// linkDead links a cordoned cluster whose API server refuses connections.
func (o *observed) linkDead() {
	dead, err := harness.StartFaultProxy("127.0.0.1:1") // below the ports of all servers
	must(o.t, err)
	atEnd(o.t, dead.Close)
	must(o.t, dead.Set(harness.FaultMode{Refuse: true}))
	kubeconfig, err := kube.Kubeconfig(
		"dead",
		clientcmdapi.Cluster{Server: "https://" + dead.Addr()},
		clientcmdapi.AuthInfo{Token: "t"},
	)
	must(o.t, err)
	link := kube.Link("dead", kubeconfig)
	link.Annotations["isthmus.io/cordon"] = "last-resort"
	must(o.t, o.shops["west"].Apply(o.t.Context(), link))
}

// linkBehind links north under a second name, as a cluster on another network behind a multicluster
// gateway.
func (o *observed) linkBehind() {
	answers := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	o.t.Cleanup(answers.Close)
	at := netip.MustParseAddrPort(answers.Listener.Addr().String())
	through := kube.Service(shop.Namespace, "gateway")
	through.Annotations = map[string]string{
		"mirror.linkerd.io/multicluster-gateway": "true", "mirror.linkerd.io/gateway-identity": "gateway.test",
		"mirror.linkerd.io/probe-path": "/ready", "mirror.linkerd.io/probe-period": "1",
	}
	through.Spec.Ports = []corev1.ServicePort{
		{Name: "mc-gateway", Port: 4143},
		{Name: "mc-probe", Port: int32(at.Port())},
	}
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

// claim adds an endpoint to east whose address belongs to a Service in west.
func (o *observed) claim() {
	web, err := o.shops["west"].CoreV1().Services(shop.Namespace).Get(o.t.Context(), "web", metav1.GetOptions{})
	must(o.t, err)
	claimed := kube.Slice(shop.Namespace, "cart", "claimed", kube.Endpoint(web.Spec.ClusterIP))
	must(o.t, o.shops["east"].Apply(o.t.Context(), claimed))
}

// export exports Services from east and north: one that both export with different ports, and one
// whose name is taken in west.
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
	must(o.t, west.ApplyYAML(
		o.t.Context(),
		strings.ReplaceAll(string(text), "name: isthmus\n", "name: linkerd-destination\n"),
	))
}

func (o *observed) startGateways(kubeconfig []byte) {
	path := filepath.Join(o.t.TempDir(), "kubeconfig")
	must(o.t, os.WriteFile(path, kubeconfig, 0o600))
	for _, args := range [][]string{{"-service-metrics", "-exports=on"}, {"-enable-endpoint-slices=false"}} {
		o.gateways = append(o.gateways, startGateway(
			o.t,
			harness.ReplicaConfig{Kubeconfig: path, Env: []string{"ISTHMUS_TEST_LOOPBACK_GATEWAYS=true"},
				Args: append(
					args,
					"-target-cluster-label=true",
					"-shutdown-delay=0s",
					"-drain=0s",
					"-stream-stall-timeout=1s",
				)},
		))
	}
}

// subscribe opens a stream at a replica like the proxy of a Pod in west.
func (o *observed) subscribe(g *harness.Replica, kind proxy.Kind, authority string) *proxy.Stream {
	conn, err := proxy.Dial(g.Addr())
	must(o.t, err)
	s := proxy.NewStream(proxy.Config{Conn: conn, MayBeLate: true, Kind: kind, Authority: authority,
		Token: fmt.Sprintf(`{"ns":"shop","nodeName":%q,"pod":"test"}`, o.shops["west"].Node())})
	atEnd(o.t, conn.Close)
	o.t.Cleanup(s.Close)
	must(o.t, s.Open(context.Background())) // not the test's context, whose end would look like a fault
	return s
}

// watch opens streams of every kind at both replicas for the whole test.
func (o *observed) watch() {
	for _, g := range o.gateways {
		for _, authority := range []string{
			federatedShop,
			"web.shop.svc.cluster.local:80",
			"cart-east.shop.svc.cluster.local:80",
		} {
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

// churn continuously scales the shops in west and east, and opens streams that end with an error,
// until the test ends.
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

// stall subscribes to a large Service that changes continuously, and does not read until the
// replica ends the stream.
func (o *observed) stall() {
	g, west := o.gateways[0], o.shops["west"]
	large := func(n int) []runtime.Object {
		slice := kube.Slice(shop.Namespace, "large", "1")
		for i := range 900 {
			slice.Endpoints = append(
				slice.Endpoints,
				kube.Endpoint(fmt.Sprintf("10.%d.%d.%d", 200+n%2, i/250, 1+i%250)),
			)
		}
		var routes []any
		for i := range 400 {
			routes = append(routes, map[string]any{"name": fmt.Sprintf("GET /a-route-with-a-long-name/%d/%d", n, i),
				"condition": map[string]any{
					"method":    "GET",
					"pathRegex": fmt.Sprintf("/a-route-with-a-long-name/%d", i),
				}})
		}
		return []runtime.Object{
			kube.Service(shop.Namespace, "large"),
			slice,
			kube.ServiceProfile(shop.Namespace, "large", routes...),
		}
	}
	apply := func(n int) {
		await(o.t, "the large Service is applied", func() error { return west.Apply(o.t.Context(), large(n)...) })
	}
	apply(0)
	streams := []*proxy.Stream{
		o.subscribe(g, proxy.Get, "large.shop.svc.cluster.local:80"),
		o.subscribe(g, proxy.GetProfile, "large.shop.svc.cluster.local:80"),
	}
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
			o.t.Fatalf("the replica does not end streams of proxies that do not read after %d changes", n)
		}
		apply(n)
	}
}

func (o *observed) metrics(t *testing.T, g *harness.Replica) (text string) {
	t.Helper()
	await(t, "/metrics", func() (err error) {
		text, err = harness.GetPage(t.Context(), g.MetricsAddr(), "/metrics")
		return err
	})
	return text
}

// TestObserved checks that docs/metrics.md lists all metrics of a replica, and that all series in
// the dashboards and alerts exist. A Prometheus server scrapes two replicas with streams and
// changes.
func TestObserved(t *testing.T) {
	t.Parallel()
	o := newObserved(t)
	o.watch()
	o.churn()
	o.stall()
	t.Run("documented", o.documented)
	t.Run("get", o.get)

	rules := manifest(t, "alerts/isthmus.yaml")
	server, err := startPrometheus(t.Context(), prometheusConfig{Dir: t.TempDir(), Rules: []string{rules},
		Targets: map[string][]string{"isthmus": {o.gateways[0].MetricsAddr(), o.gateways[1].MetricsAddr()}}})
	must(o.t, err)
	atEnd(t, server.Stop)
	await(t, "both replicas are scraped", func() error {
		up, err := server.Query(t.Context(), "sum(up) == 2")
		if err == nil && len(up) == 0 {
			err = fmt.Errorf("not yet")
		}
		return err
	})
	t.Run("dashboards", func(t *testing.T) { checkDashboards(t, server) })
	t.Run("alerts", func(t *testing.T) { checkAlerts(t, server) })
}

func manifest(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("..", "manifests", name))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// get checks that isthmus get shows the tier of each endpoint, and that proxies do not receive it.
func (o *observed) get(t *testing.T) {
	isthmus, err := harness.Isthmus.Path(t.Context())
	must(t, err)
	text, err := exec.CommandContext(
		t.Context(),
		isthmus,
		"get",
		federatedShop,
		"--addr",
		o.gateways[0].Addr(),
		"--once",
		"-o",
		"json",
	).
		CombinedOutput()
	if err != nil || !strings.Contains(string(text), `"isthmus_standing":"in-service","isthmus_tier":"local"`) {
		t.Errorf("isthmus get: %v\n%s", err, text)
	}
	for _, e := range o.stream.Snapshot().Get.Endpoints() {
		for name := range e.Labels() {
			if strings.HasPrefix(name, "isthmus") {
				t.Errorf("a proxy received the label %s", name)
			}
		}
	}
}

func checkDashboards(t *testing.T, server *prometheusServer) {
	files, err := filepath.Glob(manifest(t, "dashboards/*.json"))
	if err != nil || len(files) != 2 {
		t.Fatalf("%d dashboards, %v", len(files), err)
	}
	variables := strings.NewReplacer("$job", "isthmus", "$__rate_interval", "20s")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var dashboard struct {
			Title  string
			Panels []struct {
				Title   string
				Type    string
				Targets []struct{ Expr string }
			}
		}
		if err := json.Unmarshal(text, &dashboard); err != nil || len(dashboard.Panels) == 0 {
			t.Fatalf("%s: %d panels, %v", file, len(dashboard.Panels), err)
		}
		for _, panel := range dashboard.Panels {
			if len(panel.Targets) == 0 && panel.Type != "row" {
				t.Errorf("%s: %s has no expression", dashboard.Title, panel.Title)
			}
			for _, target := range panel.Targets {
				await(t, dashboard.Title+": "+panel.Title, func() error {
					return answered(t.Context(), server, variables.Replace(target.Expr))
				})
			}
		}
	}
}

// answered returns an error unless an expression has a numeric result.
func answered(ctx context.Context, server *prometheusServer, expression string) error {
	samples, err := server.Query(ctx, expression)
	if err != nil {
		return err
	}
	for _, s := range samples {
		if s.Value == s.Value { // not NaN, the quantile of an empty set
			return nil
		}
	}
	return fmt.Errorf("%s: %d series, none with a numeric value", expression, len(samples))
}

// checkAlerts checks that the rules are valid, pass their tests, can be evaluated and only use
// existing series. After five minutes, only the alert for the unreachable cluster may fire.
func checkAlerts(t *testing.T, server *prometheusServer) {
	promtool, err := harness.Promtool.Path(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"check", "rules", "--lint-fatal", manifest(t, "alerts/isthmus.yaml")},
		{"test", "rules", "testdata/alerts/isthmus.yaml", "testdata/alerts/weeks.yaml"},
	} {
		if text, err := exec.CommandContext(t.Context(), promtool, args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, text)
		}
	}
	var rules []prometheusRule
	await(t, "rules are loaded", func() error {
		if rules, err = server.Rules(t.Context()); err == nil && len(rules) == 0 {
			err = errors.New("none")
		}
		return err
	})
	for _, rule := range rules {
		await(t, rule.Name+" selects existing series", func() error {
			selectors, err := server.Selectors(t.Context(), rule.Expression)
			if err == nil && len(selectors) == 0 {
				err = errors.New("the selector matches no series")
			}
			for _, s := range selectors {
				err = errors.Join(err, answered(t.Context(), server, s))
			}
			return err
		})
	}
	await(t, "all rules are evaluated", func() error {
		rules, err := server.Rules(t.Context())
		for _, rule := range rules {
			if err == nil && (rule.Health != "ok" || rule.State == "firing" && rule.Name != "IsthmusClusterUnreached") {
				err = fmt.Errorf("%s is %s, %s", rule.Name, rule.Health, rule.State)
			}
		}
		return err
	})
}

// endpoints contains an object that only the second replica reads.
const endpoints = `
apiVersion: v1
kind: Endpoints
metadata: {name: extra, namespace: shop}
subsets: [{addresses: [{ip: 10.210.0.1}], ports: [{port: 8080}]}]
`

// updated identifies an object that is updated continuously.
type updated struct {
	cluster  string
	resource schema.GroupVersionResource
	name     string
}

// updates continuously updates one object of each kind whose informer lag is measured, until the
// test ends. EndpointSlices are already updated with the Pods. A replica measures at most one
// update per second for each kind and cluster, and none if an object of the kind was created within
// the previous second. The objects are therefore in clusters where no others of their kind are
// created, such as Pods in north, which is not scaled.
func (o *observed) updates() {
	// The shop contains no objects of these kinds.
	west := o.shops["west"]
	must(o.t, west.ApplyYAML(o.t.Context(), endpoints))
	must(o.t, west.Apply(o.t.Context(), kube.OpaqueServer(shop.Namespace, "extra", "extra", kube.Port),
		kube.ExternalWorkload(shop.Namespace, "extra", "10.210.0.2"), kube.ServiceProfile(shop.Namespace, "extra")))
	pods, err := o.shops["north"].CoreV1().Pods(shop.Namespace).List(o.t.Context(), metav1.ListOptions{})
	must(o.t, err)
	all := []updated{
		{"north", schema.GroupVersionResource{Version: "v1", Resource: "pods"}, pods.Items[0].Name},
		{"north", schema.GroupVersionResource{Version: "v1", Resource: "services"}, "cart"},
		{"west", schema.GroupVersionResource{Version: "v1", Resource: "endpoints"}, "extra"},
		{
			"west",
			schema.GroupVersionResource{Group: "policy.linkerd.io", Version: "v1beta3", Resource: "servers"},
			"extra",
		},
		{
			"west",
			schema.GroupVersionResource{
				Group:    "workload.linkerd.io",
				Version:  "v1beta1",
				Resource: "externalworkloads",
			},
			"extra",
		},
		{
			"west",
			schema.GroupVersionResource{Group: "linkerd.io", Version: "v1alpha2", Resource: "serviceprofiles"},
			"extra.shop.svc.cluster.local",
		},
	}
	var loops []func(context.Context, int) error
	for _, u := range all {
		objects := o.shops[u.cluster].In(u.resource, shop.Namespace)
		loops = append(loops, func(ctx context.Context, n int) error {
			note := fmt.Appendf(nil, `{"metadata":{"annotations":{"n":"%d"}}}`, n)
			_, err := objects.Patch(ctx, u.name, types.MergePatchType, note, metav1.PatchOptions{})
			return err
		})
	}
	o.again(loops...)
}

// again calls each function five times a second with a counter until the test ends. On a busy
// machine, the API server may fail temporarily, but at most for a minute.
func (o *observed) again(things ...func(ctx context.Context, n int) error) {
	ctx, stop := context.WithCancel(context.Background())
	var done sync.WaitGroup
	for _, do := range things {
		done.Go(func() {
			tick := time.NewTicker(200 * time.Millisecond)
			defer tick.Stop()
			last := time.Now() // time of the last success
			for n := 0; ctx.Err() == nil; n++ {
				switch err := do(ctx, n); {
				case err == nil:
					last = time.Now()
				case ctx.Err() == nil && time.Since(last) > time.Minute:
					o.t.Error(err)
					return
				}
				select {
				case <-tick.C:
				case <-ctx.Done():
				}
			}
		})
	}
	o.t.Cleanup(func() {
		stop()
		done.Wait()
	})
}

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/types/known/emptypb"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"isthmus/clusterstore"
	"isthmus/cmd/isthmus/internal/cli"
	"isthmus/cmd/isthmus/internal/cmdtest"
	"isthmus/internal/adminapi"
	"isthmus/internal/apisim"
)

// startAPI starts an API server of a cluster that has the Service shop/web with one endpoint.
func startAPI(t *testing.T) (addr string) {
	t.Helper()
	api, err := apisim.Start("west", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { api.Close() })
	for _, o := range []runtime.Object{
		&corev1.Service{
			ObjectMeta: metav1.ObjectMeta{
				Name:        "web",
				Namespace:   "shop",
				Annotations: map[string]string{"isthmus.io/prefer": "zone, any"},
			},
			Spec: corev1.ServiceSpec{
				Ports: []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromInt32(8080)}},
			},
		},
		&discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{
				Name:      "web-1",
				Namespace: "shop",
				Labels:    map[string]string{discoveryv1.LabelServiceName: "web"},
			},
			AddressType: discoveryv1.AddressTypeIPv4,
			Ports: []discoveryv1.EndpointPort{
				{Name: new("http"), Port: new(int32(8080)), Protocol: new(corev1.ProtocolTCP)},
			},
			Endpoints: []discoveryv1.Endpoint{
				{Addresses: []string{"10.0.0.1"}, Conditions: discoveryv1.EndpointConditions{Ready: new(true)}},
			},
		},
	} {
		if err := api.Put(o); err != nil {
			t.Fatal(err)
		}
	}
	return api.Addr()
}

// gatewayProcess is a whole replica that runs like in main.
type gatewayProcess struct {
	addr        string // for proxies
	metricsAddr string // of the admin server

	client  *http.Client
	log     *cmdtest.Output
	signals chan os.Signal
	code    chan int
}

func startProcess(t *testing.T, api string, args ...string) *gatewayProcess {
	t.Helper()
	p := &gatewayProcess{
		addr:        cmdtest.FreeAddr(t),
		metricsAddr: cmdtest.FreeAddr(t),
		client:      &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Minute},
		log:         cmdtest.NewOutput(),
		signals:     make(chan os.Signal, 2),
		code:        make(chan int, 1),
	}
	args = append(
		[]string{
			"gateway",
			"--kubeconfig",
			kubeconfig(t, api),
			"--addr",
			p.addr,
			"--metrics-addr",
			p.metricsAddr,
			"--log-format=json",
		},
		args...)
	go func() {
		p.code <- newProgram("isthmus").Run(context.Background(), cli.Process{
			Args:    args,
			Stdout:  p.log,
			Stderr:  p.log,
			Signals: p.signals,
		})
	}()
	return p
}

// get returns the response of the admin server, or "" if the request fails.
func (p *gatewayProcess) get(path string) string {
	return cmdtest.Get(p.client, "http://"+p.metricsAddr+path)
}

// listens reports whether the replica listens on the address for proxies.
func (p *gatewayProcess) listens() bool { return cmdtest.Listens(p.addr) }

// follow runs "isthmus get" on the replica until quit receives a signal. follow returns once the
// command has printed endpoints.
func (p *gatewayProcess) follow(t *testing.T) (live *cmdtest.Output, quit chan os.Signal, end chan int) {
	t.Helper()
	live, quit, end = cmdtest.NewOutput(), make(chan os.Signal, 1), make(chan int, 1)
	go func() {
		end <- newProgram("isthmus").Run(context.Background(), cli.Process{
			Args:    []string{"get", "web.shop.svc.cluster.local", "--addr", p.addr},
			Stdout:  live,
			Stderr:  live,
			Signals: quit,
		})
	}()
	live.Await(t, "  ADDRESS ")
	return live, quit, end
}

// startReady is like startProcess, but waits until the replica is ready.
func startReady(t *testing.T, args ...string) *gatewayProcess {
	t.Helper()
	p := startProcess(t, startAPI(t), args...)
	cmdtest.Eventually(t, "ready", func() bool { return p.get("/ready") == "ok" })
	return p
}

// TestProcess checks a whole replica with a small API server. The replica becomes ready, serves
// "isthmus get", shows the stream on its pages, and drains on a signal.
func TestProcess(t *testing.T) {
	p := startReady(t, "--shutdown-delay=1ms", "--drain=1ms")
	code, out, err := call("get", "web.shop.svc.cluster.local", "--addr", p.addr, "--once")
	if code != 0 || !strings.Contains(out, "10.0.0.1:8080  local    -     any ") {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, out, err)
	}
	var page adminapi.Clusters
	if err := json.Unmarshal([]byte(p.get("/debug/clusters")), &page); err != nil || page.Local.State != "ready" {
		t.Errorf("%+v, %v", page, err)
	}

	conn, dialErr := grpc.NewClient(
		p.addr,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithNoProxy(),
	)
	if dialErr != nil {
		t.Fatal(dialErr)
	}
	defer conn.Close()
	if h, err := healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{}); err != nil ||
		h.GetStatus() != healthpb.HealthCheckResponse_SERVING {
		t.Errorf("health %v, %v", h, err)
	}

	live, _, end := p.follow(t)
	var streams adminapi.Streams
	if err := json.Unmarshal([]byte(p.get("/debug/streams")), &streams); err != nil || streams.Streams != 1 ||
		streams.Views[0].Destination != "web.shop.svc.cluster.local:80" ||
		streams.Views[0].Endpoints != 1 {
		t.Errorf("%+v, %v", streams, err)
	}
	var services []adminapi.Service
	if err := json.Unmarshal([]byte(p.get("/debug/services")), &services); err != nil || len(services) != 1 ||
		services[0].Streams != 1 ||
		services[0].Ports[0].Members[0].Endpoints != 1 {
		t.Errorf("%+v, %v", services, err)
	}
	p.signals <- syscall.SIGTERM
	if c := <-p.code; c != 0 {
		t.Errorf("exit code %d", c)
	}
	if c := <-end; c != 1 {
		t.Errorf("get: exit code %d", c)
	}
	live.Await(t, "Unavailable: ")
	for _, want := range []string{`"ready"`, "shutdown: begins", "shutdown: serving ends", "shutdown: done"} {
		p.log.Await(t, want)
	}
}

// TestProcessWithoutAPI checks a replica whose local cluster does not respond. The replica reports
// the cluster, does not become ready, and still ends on a signal.
func TestProcessWithoutAPI(t *testing.T) {
	p := startProcess(t, cmdtest.FreeAddr(t), "--default-opaque-ports=25,x,80-90", "--outbound-transport-mode=x")
	var page adminapi.Clusters
	cmdtest.Eventually(t, "the local cluster is reported", func() bool {
		return json.Unmarshal([]byte(p.get("/debug/clusters")), &page) == nil && page.Local.State == "unreachable"
	})
	if p.get("/ready") != "not ready" || p.listens() {
		t.Error("the replica is ready without a cluster")
	}
	if page.Local.Cluster != "local" || !strings.Contains(page.Local.Reason, "connection refused") ||
		page.Clusters == nil ||
		page.Unserved == nil ||
		page.Problems == nil {
		t.Errorf("%+v", page)
	}
	if w := page.Writer; w == nil || w.Leading || w.Identity == "" {
		t.Errorf("writer %+v", w)
	}
	metrics := p.get("/metrics")
	for _, name := range []string{"cluster_store_size 0", "isthmus_streams 0", "isthmus_endpointslice_writer_leading 0",
		`workqueue_depth{name="endpoints_controller_workqueue"} 0`, "go_goroutines", "process_resident_memory_bytes",
		"go_build_info", `isthmus_build_info{goversion="go`,
		`grpc_server_started_total{grpc_method="Get",grpc_service="io.linkerd.proxy.destination.Destination",` +
			`grpc_type="server_stream"} 0`} {
		if !strings.Contains(metrics, name) {
			t.Errorf("the metrics lack %s", name)
		}
	}
	p.signals <- syscall.SIGTERM
	if c := <-p.code; c != 0 {
		t.Errorf("exit code %d", c)
	}
	text := p.log.Await(t, "shutdown: done")
	for _, want := range []string{
		`--default-opaque-ports: \"x\" is not a port`,
		`"level":"error"`,
		`"msg":"Isthmus starts","version":"`,
		`--outbound-transport-mode is \"x\"`,
		`"signal":"terminated"`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the log lacks %s:\n%s", want, text)
		}
	}
	for line := range strings.Lines(text) {
		if !json.Valid([]byte(line)) {
			t.Errorf("not JSON: %s", line)
		}
	}
}

// TestSilentConnection checks that a connection without requests does not delay the end of the
// process. The gRPC server alone would wait ten seconds for such a connection.
func TestSilentConnection(t *testing.T) {
	p := startReady(t, "--shutdown-delay=1ms", "--drain=1ms")
	silent, err := net.Dial("tcp", p.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	_, _, end := p.follow(t) // the silent connection was accepted earlier
	p.signals <- syscall.SIGTERM
	select {
	case c := <-p.code:
		if c != 0 {
			t.Errorf("exit code %d", c)
		}
	case <-time.After(8 * time.Second):
		t.Fatal("the process has not ended")
	}
	<-end
}

// TestSecondSignal checks that a second signal ends the process at once.
func TestSecondSignal(t *testing.T) {
	p := startReady(t, "--shutdown-delay=1h", "--drain=0")
	_, quit, end := p.follow(t)
	p.signals <- syscall.SIGTERM
	p.log.Await(t, "waiting for clients")
	p.signals <- syscall.SIGTERM
	if c := <-p.code; c != 1 {
		t.Errorf("exit code %d", c)
	}
	p.log.Await(t, "a second signal: ended at once")
	// The end of a process would end the rest of the program. In this test, the rest ends by itself.
	quit <- syscall.SIGINT
	<-end // either by the signal, or because the replica has ended the stream before
	p.log.Await(t, "shutdown: done")
}

// mostSeries is the maximum number of series of a linked cluster on each replica. docs/metrics.md
// states the same number.
const mostSeries = 50

// startSim starts an API server with the given objects.
func startSim(t *testing.T, name string, objects ...runtime.Object) *apisim.Server {
	t.Helper()
	api, err := apisim.Start(name, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { api.Close() })
	for _, o := range objects {
		if err := api.Put(o); err != nil {
			t.Fatal(err)
		}
	}
	return api
}

// webSlice returns an EndpointSlice with one endpoint of the Service shop/web.
func webSlice(addr string) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Name: "web-1", Namespace: "shop", Labels: map[string]string{discoveryv1.LabelServiceName: "web"},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports: []discoveryv1.EndpointPort{
			{Name: new("http"), Port: new(int32(8080)), Protocol: new(corev1.ProtocolTCP)},
		},
		Endpoints: []discoveryv1.Endpoint{
			{Addresses: []string{addr}, Conditions: discoveryv1.EndpointConditions{Ready: new(true)}},
		},
	}
}

// webService returns the Service shop/NAME with the given annotations.
func webService(name string, annotations map[string]string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "shop", Annotations: annotations,
			Labels: map[string]string{"mirror.linkerd.io/exported": "true", "mirror.linkerd.io/federated": "member"},
		},
		Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "http", Port: 80}}},
	}
}

// linkerdGateway returns a gateway Service at an address that responds to probes.
func linkerdGateway(t *testing.T) *corev1.Service {
	t.Helper()
	alive := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(alive.Close)
	addr := netip.MustParseAddrPort(alive.Listener.Addr().String())
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "linkerd-gateway", Namespace: "linkerd-multicluster",
			Annotations: map[string]string{
				"mirror.linkerd.io/multicluster-gateway": "true",
				"mirror.linkerd.io/gateway-identity":     "gateway.example",
				"mirror.linkerd.io/probe-path":           "/ready",
				"mirror.linkerd.io/probe-period":         "1s",
			}},
		Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{
			{Name: "mc-gateway", Port: 4143}, {Name: "mc-probe", Port: int32(addr.Port())},
		}},
	}
	s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: addr.Addr().String()}}
	return s
}

// simLink returns a link Secret for a cluster that apisim serves. Several Secrets may point to one
// server.
func simLink(t *testing.T, name string, remote *apisim.Server, network string) *corev1.Secret {
	t.Helper()
	kubeconfig, err := remote.Kubeconfig(remote.Addr(), "t")
	if err != nil {
		t.Fatal(err)
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name: "cluster-credentials-" + name, Namespace: "linkerd",
			Labels: map[string]string{"multicluster.linkerd.io/cluster-name": name},
			Annotations: map[string]string{
				"multicluster.linkerd.io/trust-domain": "cluster.local",
				clusterstore.ClusterDomainAnnotation:   "cluster.local",
				clusterstore.LinkedClusterAnnotation:   name,
				clusterstore.NetworkAnnotation:         network,
			},
		},
		Type: clusterstore.SecretType, Data: map[string][]byte{"kubeconfig": kubeconfig},
	}
}

// seriesOf counts the series of a cluster in a scrape by name. Series of a service or of one
// address of a gateway are not counted.
func seriesOf(metrics, cluster string) (count map[string]int, sum int) {
	count = make(map[string]int)
	for line := range strings.Lines(metrics) {
		name, labels, ok := strings.Cut(line, "{")
		if !ok || !strings.Contains(labels, fmt.Sprintf("cluster=%q", cluster)) {
			continue
		}
		if !strings.Contains(labels, "service=") && !strings.Contains(labels, "address=") {
			count[name]++
			sum++
		}
	}
	return count, sum
}

// TestSeriesOfLinks checks that a healthy linked cluster has at most mostSeries series, however
// clients reach it.
func TestSeriesOfLinks(t *testing.T) {
	t.Setenv("ISTHMUS_TEST_LOOPBACK_GATEWAYS", "true")
	remote := startSim(t, "remote", webService("web", nil), webSlice("10.194.1.1"), linkerdGateway(t))
	var names []string
	objects := []runtime.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}}
	members := ""
	for i := range 20 {
		name := fmt.Sprintf("east-%02d", i)
		names = append(names, name)
		members += ",web@" + name
		objects = append(objects, simLink(t, name, remote, []string{"", "far"}[i%2]))
	}
	objects = append(objects, webService("web", map[string]string{
		"multicluster.linkerd.io/remote-discovery": strings.TrimPrefix(members, ","),
	}))
	local := startSim(t, "west", objects...)
	p := startProcess(t, local.Addr(), "--exports=plan", "--shutdown-delay=1ms", "--drain=1ms")
	cmdtest.Eventually(t, "ready", func() bool { return p.get("/ready") == "ok" })
	alive := regexp.MustCompile(`(?m)^isthmus_gateway_alive\{.*cluster="east-`)
	cmdtest.Eventually(t, "gateways are probed", func() bool {
		return len(alive.FindAllString(p.get("/metrics"), -1)) == len(names)/2
	})
	cmdtest.Eventually(t, "exports are planned", func() bool {
		return strings.Contains(p.get("/metrics"), `isthmus_exports{cluster="east-19",kind="federated"}`)
	})
	p.follow(t)
	if err := remote.Put(webSlice("10.194.1.2")); err != nil {
		t.Fatal(err)
	}
	changed := regexp.MustCompile(`(?m)^isthmus_propagation_seconds_count\{cluster="east-.."\} [1-9]`)
	cmdtest.Eventually(t, "the change is sent", func() bool { return changed.MatchString(p.get("/metrics")) })

	metrics := p.get("/metrics")
	for _, name := range names {
		if count, sum := seriesOf(metrics, name); sum > mostSeries || sum < mostSeries/2 {
			t.Errorf("%s has %d series, want at most %d: %v", name, sum, mostSeries, count)
		}
	}
	p.signals <- syscall.SIGTERM
	if c := <-p.code; c != 0 {
		t.Errorf("exit code %d", c)
	}
}

// kubeconfig writes a kubeconfig for an API server at addr and returns its path.
func kubeconfig(t *testing.T, addr string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	text := `{"apiVersion":"v1","kind":"Config","current-context":"c",
		"contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],
		"clusters":[{"name":"c","cluster":{"server":"http://` + addr + `"}}],
		"users":[{"name":"u","user":{"token":"t"}}]}`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestProcessFails checks that an error that prevents the start is printed in one line.
func TestProcessFails(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	t.Setenv("HOME", t.TempDir())
	t.Setenv("KUBECONFIG", "")
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	config := kubeconfig(t, cmdtest.FreeAddr(t))
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--kubeconfig=/does/not/exist"}, "isthmus gateway: --kubeconfig: stat /does/not/exist: no such file"},
		{nil, "isthmus gateway: no cluster: the process is not in a Pod, and neither"},
		{
			[]string{"--kubeconfig", config, "--metrics-addr", l.Addr().String()},
			"isthmus gateway: --metrics-addr: listen tcp ",
		},
		{
			[]string{"--kubeconfig", config, "--metrics-addr=127.0.0.1:0", "--addr", l.Addr().String()},
			"isthmus gateway: --addr: listen tcp ",
		},
	} {
		code, out, err := call(append([]string{"gateway", "--log-level=fatal"}, c.args...)...)
		if code != 1 || out != "" || !strings.HasPrefix(err, c.want) || strings.Count(err, "\n") != 1 {
			t.Errorf("%v: exit code %d, stdout %q, stderr %q", c.args, code, out, err)
		}
	}
}

// TestTraces checks that each call is a span with the service name of Linkerd's destination
// controller. The last spans are sent during shutdown.
func TestTraces(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	seen := make(chan string, 100)
	collector := grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		m := new(emptypb.Empty) // all fields of m are unknown
		if err := stream.RecvMsg(m); err != nil {
			return err
		}
		seen <- string(m.ProtoReflect().GetUnknown())
		return stream.SendMsg(new(emptypb.Empty))
	}))
	done := make(chan error, 1)
	go func() { done <- collector.Serve(l) }()
	p := startReady(t, "--shutdown-delay=1ms", "--drain=1ms", "--trace-collector="+l.Addr().String())
	if code, out, err := call("get", "web.shop.svc.cluster.local", "--addr", p.addr, "--once"); code != 0 {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, out, err)
	}
	p.signals <- syscall.SIGTERM
	if c := <-p.code; c != 0 {
		t.Errorf("exit code %d", c)
	}
	collector.Stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	close(seen)
	spans := ""
	for text := range seen {
		spans += text
	}
	if !strings.Contains(spans, "linkerd-destination") ||
		!strings.Contains(spans, "io.linkerd.proxy.destination.Destination/Get") {
		t.Errorf("spans %q", spans)
	}
}

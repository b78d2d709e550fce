package main

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"isthmus/cmd/isthmus/internal/cli"
	"isthmus/cmd/isthmus/internal/cli/clitest"
	"isthmus/internal/adminapi"
	"isthmus/internal/apisim"
)

// startAPI serves a cluster that has the Service shop/web with one endpoint.
func startAPI(t *testing.T) (addr string) {
	t.Helper()
	api, err := apisim.Start("west", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { api.Close() })
	for _, o := range []runtime.Object{
		&corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop", Annotations: map[string]string{"isthmus.io/prefer": "zone, any"}},
			Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromInt32(8080)}}},
		},
		&discoveryv1.EndpointSlice{
			ObjectMeta:  metav1.ObjectMeta{Name: "web-1", Namespace: "shop", Labels: map[string]string{discoveryv1.LabelServiceName: "web"}},
			AddressType: discoveryv1.AddressTypeIPv4,
			Ports:       []discoveryv1.EndpointPort{{Name: new("http"), Port: new(int32(8080)), Protocol: new(corev1.ProtocolTCP)}},
			Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.1"}, Conditions: discoveryv1.EndpointConditions{Ready: new(true)}}},
		},
	} {
		if err := api.Put(o); err != nil {
			t.Fatal(err)
		}
	}
	return api.Addr()
}

// gatewayProcess is a whole gateway, run as main would.
type gatewayProcess struct {
	*testGateway
	log     *clitest.Output
	signals chan os.Signal
	code    chan int
}

func startProcess(t *testing.T, api string, args ...string) *gatewayProcess {
	t.Helper()
	p := &gatewayProcess{
		testGateway: &testGateway{
			gateway: &gateway{addr: freeAddr(t), metricsAddr: freeAddr(t)},
			client:  &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Minute},
		},
		log: clitest.NewOutput(), signals: make(chan os.Signal, 2), code: make(chan int, 1),
	}
	args = append([]string{"gateway", "--kubeconfig", kubeconfig(t, api), "--addr", p.addr, "--metrics-addr", p.metricsAddr, "--log-format=json"}, args...)
	go func() {
		p.code <- newProgram("isthmus").Run(context.Background(), cli.Process{Args: args, Stdout: p.log, Stderr: p.log, Signals: p.signals})
	}()
	return p
}

// follow runs "isthmus get" on it, until a signal comes from quit, and returns once that has endpoints.
func (p *gatewayProcess) follow(t *testing.T) (live *clitest.Output, quit chan os.Signal, end chan int) {
	t.Helper()
	live, quit, end = clitest.NewOutput(), make(chan os.Signal, 1), make(chan int, 1)
	go func() {
		end <- newProgram("isthmus").Run(context.Background(), cli.Process{Args: []string{"get", "web.shop.svc.cluster.local", "--addr", p.addr}, Stdout: live, Stderr: live, Signals: quit})
	}()
	live.Await(t, "  ADDRESS ")
	return live, quit, end
}

// startReady is startProcess for one that becomes ready.
func startReady(t *testing.T, args ...string) *gatewayProcess {
	t.Helper()
	p := startProcess(t, startAPI(t), args...)
	eventually(t, "ready", func() bool { return p.get("/ready") == "ok" })
	return p
}

// TestProcess runs the whole gateway on a small API: it becomes ready, answers
// "isthmus get" with the endpoint's tier, shows the stream on its pages, and drains on a signal.
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

	conn, dialErr := grpc.NewClient(p.addr, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy())
	if dialErr != nil {
		t.Fatal(dialErr)
	}
	defer conn.Close()
	if h, err := healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{}); err != nil || h.GetStatus() != healthpb.HealthCheckResponse_SERVING {
		t.Errorf("health %v, %v", h, err)
	}

	live, _, end := p.follow(t)
	var streams adminapi.Streams
	if err := json.Unmarshal([]byte(p.get("/debug/streams")), &streams); err != nil || streams.Streams != 1 || streams.Views[0].Destination != "web.shop.svc.cluster.local:80" || streams.Views[0].Endpoints != 1 {
		t.Errorf("%+v, %v", streams, err)
	}
	var services []adminapi.Service
	if err := json.Unmarshal([]byte(p.get("/debug/services")), &services); err != nil || len(services) != 1 || services[0].Streams != 1 || services[0].Ports[0].Members[0].Endpoints != 1 {
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

// TestProcessWithoutAPI: a local cluster that does not answer is reported, keeps
// the gateway from being ready, and does not keep it from ending.
func TestProcessWithoutAPI(t *testing.T) {
	p := startProcess(t, freeAddr(t), "--default-opaque-ports=25,x,80-90", "--outbound-transport-mode=x")
	var page adminapi.Clusters
	eventually(t, "the local cluster is reported", func() bool {
		return json.Unmarshal([]byte(p.get("/debug/clusters")), &page) == nil && page.Local.State == "unreachable"
	})
	if p.get("/ready") != "not ready" || p.listens() {
		t.Error("ready without a cluster")
	}
	if page.Local.Cluster != "local" || !strings.Contains(page.Local.Reason, "connection refused") || page.Clusters == nil || page.Unserved == nil || page.Problems == nil {
		t.Errorf("%+v", page)
	}
	if w := page.Writer; w == nil || w.Leading || w.Identity == "" {
		t.Errorf("writer %+v", w)
	}
	metrics := p.get("/metrics")
	for _, name := range []string{"cluster_store_size 0", "isthmus_streams 0", "isthmus_endpointslice_writer_leading 0",
		`workqueue_depth{name="endpoints_controller_workqueue"} 0`, "go_goroutines", "process_resident_memory_bytes", "go_build_info", `isthmus_build_info{goversion="go`,
		`grpc_server_started_total{grpc_method="Get",grpc_service="io.linkerd.proxy.destination.Destination",grpc_type="server_stream"} 0`} {
		if !strings.Contains(metrics, name) {
			t.Errorf("no %s in the metrics", name)
		}
	}
	p.signals <- syscall.SIGTERM
	if c := <-p.code; c != 0 {
		t.Errorf("exit code %d", c)
	}
	text := p.log.Await(t, "shutdown: done")
	for _, want := range []string{`--default-opaque-ports: \"x\" is not a port`, `"level":"error"`, `"msg":"gateway starts","version":"`, `--outbound-transport-mode is \"x\"`, `"signal":"terminated"`} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in the log:\n%s", want, text)
		}
	}
	for line := range strings.Lines(text) {
		if !json.Valid([]byte(line)) {
			t.Errorf("not JSON: %s", line)
		}
	}
}

// TestSilentConnection: a connection on which nothing comes does not keep the
// process. gRPC's server would wait ten seconds for it.
func TestSilentConnection(t *testing.T) {
	p := startReady(t, "--shutdown-delay=1ms", "--drain=1ms")
	silent, err := net.Dial("tcp", p.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	_, _, end := p.follow(t) // so the silent connection has been accepted before
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

// TestSecondSignal: the process does not wait for anything any more.
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
	quit <- syscall.SIGINT // what main would leave to the end of the process ends by itself here
	<-end                  // by the signal, or since the gateway has ended the stream before it
	p.log.Await(t, "shutdown: done")
}

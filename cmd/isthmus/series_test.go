package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"regexp"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"isthmus/clusterstore"
	"isthmus/internal/apisim"
)

// mostSeries is how many series a linked cluster may cost on each replica, as docs/metrics.md says.
const mostSeries = 50

// startSim serves a cluster with these objects.
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

// webSlice has one endpoint of the Service shop/web.
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

// webService is the Service shop/NAME with these annotations.
func webService(name string, annotations map[string]string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "shop", Annotations: annotations,
			Labels: map[string]string{"mirror.linkerd.io/exported": "true", "mirror.linkerd.io/federated": "member"},
		},
		Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "http", Port: 80}}},
	}
}

// linkerdGateway is a gateway Service at an address that answers probes.
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

// simLink is a link Secret for a cluster that apisim serves. All of them may lead to one server.
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

// seriesOf returns how many series of a cluster a scrape has, by the names of their samples. It leaves out those that
// are about a service or about one address of a gateway too.
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

// TestSeriesOfLinks: a linked cluster that is well costs at most mostSeries series, however it is reached. One with
// errors costs more.
func TestSeriesOfLinks(t *testing.T) {
	t.Setenv(loopbackGateways, "true")
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
	eventually(t, "ready", func() bool { return p.get("/ready") == "ok" })
	alive := regexp.MustCompile(`(?m)^isthmus_gateway_alive\{.*cluster="east-`)
	eventually(t, "gateways are probed", func() bool {
		return len(alive.FindAllString(p.get("/metrics"), -1)) == len(names)/2
	})
	eventually(t, "exports are planned", func() bool {
		return strings.Contains(p.get("/metrics"), `isthmus_exports{cluster="east-19",kind="federated"}`)
	})
	p.follow(t)
	if err := remote.Put(webSlice("10.194.1.2")); err != nil {
		t.Fatal(err)
	}
	changed := regexp.MustCompile(`(?m)^isthmus_propagation_seconds_count\{cluster="east-.."\} [1-9]`)
	eventually(t, "the change is sent", func() bool { return changed.MatchString(p.get("/metrics")) })

	metrics := p.get("/metrics")
	for _, name := range names {
		if count, sum := seriesOf(metrics, name); sum > mostSeries || sum < mostSeries/2 {
			t.Errorf("%s costs %d series, not up to %d: %v", name, sum, mostSeries, count)
		}
	}
	p.signals <- syscall.SIGTERM
	if c := <-p.code; c != 0 {
		t.Errorf("exit code %d", c)
	}
}

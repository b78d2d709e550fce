package cluster

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const chartIdentity = "linkerd-gateway.linkerd-multicluster.serviceaccount.identity.linkerd.cluster.local"

// chartGateway returns the gateway Service that Linkerd's multicluster chart creates, with the
// ingress of a load balancer.
func chartGateway(ingress ...corev1.LoadBalancerIngress) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "linkerd-multicluster", Name: "linkerd-gateway",
			Labels: map[string]string{"linkerd.io/extension": "multicluster"},
			Annotations: map[string]string{
				"mirror.linkerd.io/gateway-identity":     chartIdentity,
				"mirror.linkerd.io/probe-period":         "3",
				"mirror.linkerd.io/probe-path":           "/ready",
				"mirror.linkerd.io/multicluster-gateway": "true",
				"linkerd.io/created-by":                  "linkerd/helm",
			},
		},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, Selector: map[string]string{"app": "linkerd-gateway"},
			Ports: []corev1.ServicePort{
				{Name: "mc-gateway", Port: 4143, Protocol: corev1.ProtocolTCP},
				{Name: "mc-probe", Port: 4191, Protocol: corev1.ProtocolTCP},
			},
		},
		Status: corev1.ServiceStatus{LoadBalancer: corev1.LoadBalancerStatus{Ingress: ingress}},
	}
}

func balancedBy(hosts ...string) (list []corev1.LoadBalancerIngress) {
	for _, h := range hosts {
		if _, err := netip.ParseAddr(h); err == nil {
			list = append(list, corev1.LoadBalancerIngress{IP: h})
		} else {
			list = append(list, corev1.LoadBalancerIngress{Hostname: h})
		}
	}
	return list
}

// describe renders the fields that the tests compare.
func (g *Gateway) describe() string {
	if g == nil {
		return "none"
	}
	text := fmt.Sprintf("%v%v:%d %s", g.IPs, g.Names, g.Port, g.Identity)
	if g.Probe != (Probe{}) {
		text += fmt.Sprintf(" probe %d%s every %v", g.Probe.Port, g.Probe.Path, g.Probe.Period)
	}
	if g.NodePort != 0 {
		text += fmt.Sprintf(" node port %d", g.NodePort)
	}
	if g.NodeProbe != (Probe{}) {
		text += fmt.Sprintf(" node probe %d%s every %v", g.NodeProbe.Port, g.NodeProbe.Path, g.NodeProbe.Period)
	}
	if g.More > 0 {
		text += fmt.Sprintf(" and %d more", g.More)
	}
	return text
}

func TestReadGateway(t *testing.T) {
	annotate := func(name, value string) func(*corev1.Service) {
		return func(s *corev1.Service) { s.Annotations["mirror.linkerd.io/"+name] = value }
	}
	nodePorts := func(gateway, probe int32) func(*corev1.Service) {
		return func(s *corev1.Service) { s.Spec.Ports[0].NodePort, s.Spec.Ports[1].NodePort = gateway, probe }
	}
	const probed = " probe 4191/ready every 3s"
	for _, c := range []struct {
		ingress string
		change  func(*corev1.Service)
		want    string // $ stands for the chart's identity
	}{
		{"192.0.2.1", nil, "[192.0.2.1][]:4143 $" + probed},
		{"192.0.2.1 2001:db8::1 192.0.2.1", nil, "[192.0.2.1 2001:db8::1][]:4143 $" + probed},
		{"lb.example", nil, "[][lb.example]:4143 $" + probed},
		{"", nil, "[][]:4143 $" + probed},
		{"192.0.2.1", annotate("multicluster-gateway", "false"), "none"},
		{"192.0.2.1", annotate("multicluster-gateway", ""), "none"},
		{"", func(s *corev1.Service) { s.Spec.ExternalIPs = []string{"198.51.100.1", "127.0.0.1"} },
			"[198.51.100.1][]:4143 $" + probed + " and 1 more"},
		{"192.0.2.1", func(s *corev1.Service) { s.Spec.ExternalIPs = []string{"198.51.100.1"} },
			"[192.0.2.1][]:4143 $" + probed},
		{"192.0.2.1", func(s *corev1.Service) { s.Spec.Ports = nil }, "[192.0.2.1][]:0 $"},
		{"192.0.2.1", func(s *corev1.Service) { s.Spec.Ports[0].Protocol = corev1.ProtocolUDP },
			"[192.0.2.1][]:0 $" + probed},
		{"192.0.2.1", func(s *corev1.Service) { s.Spec.Ports[0].Port = 70000; s.Spec.Ports[1].Port = -1 },
			"[192.0.2.1][]:0 $"},
		{"192.0.2.1", func(s *corev1.Service) { s.Spec.Ports[1].Name = "probe" }, "[192.0.2.1][]:4143 $"},
		{"", nodePorts(30143, 30191), "[][]:4143 $" + probed + " node port 30143 node probe 30191/ready every 3s"},
		{"", nodePorts(30143, 0), "[][]:4143 $" + probed + " node port 30143"},
		{"", nodePorts(-1, 70000), "[][]:4143 $" + probed},
		{"192.0.2.1", annotate("probe-path", ""), "[192.0.2.1][]:4143 $"},
		{"192.0.2.1", annotate("probe-path", "ready"), "[192.0.2.1][]:4143 $"},
		{"192.0.2.1", annotate("probe-path", "//evil.example/"), "[192.0.2.1][]:4143 $"},
		{"192.0.2.1", annotate("probe-path", "/%zz"), "[192.0.2.1][]:4143 $"},
		{"192.0.2.1", annotate("probe-path", "/a HTTP/1.1\r\nHost: x"), "[192.0.2.1][]:4143 $"},
		{"192.0.2.1", annotate("probe-path", "/"+strings.Repeat("x", 1000)), "[192.0.2.1][]:4143 $"},
		{"192.0.2.1", annotate("probe-period", "10s"), "[192.0.2.1][]:4143 $ probe 4191/ready every 10s"},
		{"192.0.2.1", annotate("probe-period", "0"), "[192.0.2.1][]:4143 $ probe 4191/ready every 1s"},
		{"192.0.2.1", annotate("probe-period", "-1ns"), "[192.0.2.1][]:4143 $ probe 4191/ready every 1s"},
		{"192.0.2.1", annotate("probe-period", "9223372036854775807"),
			"[192.0.2.1][]:4143 $ probe 4191/ready every 5m0s"},
		{"192.0.2.1", annotate("probe-period", "soon"), "[192.0.2.1][]:4143 $" + probed},
		{"192.0.2.1", annotate("gateway-identity", ""), "[192.0.2.1][]:4143 " + probed},
		{"192.0.2.1", annotate("gateway-identity", "a b"), "[192.0.2.1][]:4143 " + probed},
		{"192.0.2.1", annotate("gateway-identity", "gw.example."), "[192.0.2.1][]:4143 " + probed},
		{"192.0.2.1", annotate("gateway-identity", "gw.\x00example"), "[192.0.2.1][]:4143 " + probed},
		{"192.0.2.1", annotate("gateway-identity", strings.Repeat("a.", 500)+"b"), "[192.0.2.1][]:4143 " + probed},
		{"127.0.0.1 ::1 0.0.0.0 169.254.169.254 224.0.0.1 fe80::1 ::ffff:127.0.0.1 " +
			"fe80::1%eth0 0.0.0.5 255.255.255.255 ::ffff:0.1.2.3", nil,
			"[][]:4143 $" + probed + " and 11 more"},
		{"-x a..b a_b.example <b> a/b [::1]", nil, "[][a_b.example]:4143 $" + probed + " and 5 more"},
	} {
		s := chartGateway(balancedBy(strings.Fields(c.ingress)...)...)
		if c.change != nil {
			c.change(s)
		}
		want := strings.ReplaceAll(c.want, "$", chartIdentity)
		if got := readGateway(s, Rules{}).describe(); got != want {
			t.Errorf("%s %v: %s, want %s", c.ingress, s.Annotations, got, want)
		}
	}
}

// TestGatewayNames checks that a Service with an invalid name is not a gateway. The name would be
// shown to people.
func TestGatewayNames(t *testing.T) {
	for _, name := range []string{"", "a\nb", "\x1b[31m", "<b>", strings.Repeat("a.", 1000) + "b"} {
		s := chartGateway(balancedBy("192.0.2.1")...)
		if s.Name = name; readGateway(s, Rules{}) != nil {
			t.Errorf("a gateway with name %.20q", name)
		}
		s = chartGateway(balancedBy("192.0.2.1")...)
		if s.Namespace = name; readGateway(s, Rules{}) != nil {
			t.Errorf("a gateway in namespace %.20q", name)
		}
	}
}

// TestManyGatewayAddresses checks that only a few of hundreds of addresses are cached.
func TestManyGatewayAddresses(t *testing.T) {
	var hosts []string
	for i := range 300 {
		hosts = append(hosts, fmt.Sprintf("192.0.%d.%d", i/200, i%200), fmt.Sprintf("n%d.example", i))
	}
	g := readGateway(chartGateway(balancedBy(hosts...)...), Rules{})
	if len(g.IPs) != maxHosts/2 || len(g.Names) != maxHosts/2 || g.More != 600-maxHosts {
		t.Errorf("%d addresses, %d names, %d more", len(g.IPs), len(g.Names), g.More)
	}
	want := "addresses that are not used because they are invalid, loopback, link-local, multicast or reserved, " +
		"or exceed the limit of 16 addresses: 584"
	if g.Problem() != want {
		t.Errorf("%s", g.Problem())
	}
}

// TestLoopbackGateways checks that loopback addresses of gateways are only accepted in tests.
func TestLoopbackGateways(t *testing.T) {
	s := chartGateway(balancedBy("127.0.0.1", "169.254.0.1")...)
	if got := readGateway(s, Rules{LoopbackGateways: true}).IPs; len(got) != 1 || !got[0].IsLoopback() {
		t.Errorf("%v", got)
	}
}

// TestFollowGateways checks that the gateways of a cluster follow its Services. Each change is
// reported once. Changes of other Services are not reported.
func TestFollowGateways(t *testing.T) {
	changes := 0
	w := newWorld(t, func(c *Config) { c.LinkChanged = func() { changes++ } })
	expect := func(reported bool, want ...string) {
		t.Helper()
		list, more := w.Gateways()
		var got []string
		for _, g := range list {
			got = append(got, g.Service.String())
		}
		if !slices.Equal(got, want) || more != 0 || (changes == 1) != reported || changes > 1 {
			t.Errorf("%q and %d more after %d reports, want %q", got, more, changes, want)
		}
		changes = 0
	}
	expect(false)
	w.put(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}})
	expect(false)
	w.put(chartGateway())
	expect(true, "linkerd-multicluster/linkerd-gateway")
	w.put(chartGateway())
	expect(false, "linkerd-multicluster/linkerd-gateway")
	w.put(chartGateway(balancedBy("192.0.2.1")...))
	expect(true, "linkerd-multicluster/linkerd-gateway")
	atNodes := chartGateway(balancedBy("192.0.2.1")...)
	for i := range atNodes.Spec.Ports {
		atNodes.Spec.Ports[i].NodePort = 30000 + int32(i)
		w.put(atNodes)
		expect(true, "linkerd-multicluster/linkerd-gateway")
	}
	second := chartGateway()
	second.Namespace = "a"
	w.put(second)
	expect(true, "a/linkerd-gateway", "linkerd-multicluster/linkerd-gateway")
	second.Annotations = nil
	w.put(second)
	expect(true, "linkerd-multicluster/linkerd-gateway")
	w.del(chartGateway())
	expect(true)
}

// TestManyGateways checks that the first gateway Services by name are used if there are too many.
func TestManyGateways(t *testing.T) {
	w := newWorld(t, nil)
	for i := range 100 {
		s := chartGateway()
		s.Name = fmt.Sprintf("g%02d", 99-i)
		w.put(s)
	}
	list, more := w.Gateways()
	if len(list) != maxGateways || more != 100-maxGateways || list[0].Service.Name != "g00" ||
		list[15].Service.Name != "g15" {
		t.Errorf("%d and %d more, %v first", len(list), more, list[0].Service)
	}
}

// FuzzReadGateway checks that the fields of a gateway are valid and bounded. A client can connect
// to the gateway and probe it.
func FuzzReadGateway(f *testing.F) {
	f.Add("192.0.2.1", "lb.example", "198.51.100.1", chartIdentity, "/ready", "3", int32(4143), int32(4191))
	f.Add("::ffff:127.0.0.1", "a..b", "fe80::1%eth0", "a\nb", "/%zz?x#y", "-1h", int32(0), int32(70000))
	f.Fuzz(func(t *testing.T, ip, name, external, identity, path, period string, port, probe int32) {
		s := chartGateway(corev1.LoadBalancerIngress{IP: ip}, corev1.LoadBalancerIngress{Hostname: name})
		s.Spec.ExternalIPs = []string{external}
		s.Spec.Ports[0].Port, s.Spec.Ports[1].Port = port, probe
		s.Spec.Ports[0].NodePort, s.Spec.Ports[1].NodePort = probe, port
		s.Annotations[identityAnnotation] = identity
		s.Annotations[pathAnnotation] = path
		s.Annotations[periodAnnotation] = period
		g := readGateway(s, Rules{})
		for _, ip := range g.IPs {
			if !ip.IsValid() || ip.Is4In6() || ip.Zone() != "" || !Routable(ip) {
				t.Errorf("address %v", ip)
			}
		}
		for _, n := range append(slices.Clone(g.Names), g.Identity) {
			if n != "" && !IsHostname(n) || len(n) > 253 || strings.ContainsAny(n, " \r\n\x00:/@%") {
				t.Errorf("name %q", n)
			}
		}
		if g.Port != 0 && int32(g.Port) != port || len(g.Problem()) > 300 {
			t.Errorf("port %d of %d; %s", g.Port, port, g.Problem())
		}
		for _, p := range []Probe{g.Probe, g.NodeProbe} {
			if p != (Probe{}) && (p.Port == 0 || p.Path[0] != '/' || len(p.Path) > maxPath ||
				strings.ContainsAny(p.Path, " \r\n") || p.Period < time.Second || p.Period > maxProbePeriod) {
				t.Errorf("probe %+v", p)
			}
		}
	})
}

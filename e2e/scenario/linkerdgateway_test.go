package scenario

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
)

func TestGateway(t *testing.T) {
	same(t, built(t, gatewayObject, "192.0.2.[1-2],lb.example", "external-ip=192.0.2.9", "identity=gw.id", "port=443", "probe=4191", "annotation.a=b"),
		`{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "x", "namespace": "ns", "annotations": {"a": "b",
			"mirror.linkerd.io/multicluster-gateway": "true", "mirror.linkerd.io/gateway-identity": "gw.id",
			"mirror.linkerd.io/probe-path": "/ready", "mirror.linkerd.io/probe-period": "1s"}},
		"spec": {"type": "LoadBalancer", "allocateLoadBalancerNodePorts": false, "externalIPs": ["192.0.2.9"], "ports": [
			{"name": "mc-gateway", "port": 443, "protocol": "TCP"}, {"name": "mc-probe", "port": 4191, "protocol": "TCP"}]},
		"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}, {"ip": "192.0.2.2"}, {"hostname": "lb.example"}]}}}`)
	same(t, built(t, gatewayObject, "-", "identity="),
		`{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "x", "namespace": "ns", "annotations": {
			"mirror.linkerd.io/multicluster-gateway": "true"}},
		"spec": {"type": "LoadBalancer", "allocateLoadBalancerNodePorts": false, "ports": [{"name": "mc-gateway", "port": 4143, "protocol": "TCP"}]},
		"status": {"loadBalancer": {"ingress": []}}}`)
}

// TestAnswers: a server answers as the case has it, is gone when the case ends it, and after the case in any event.
func TestAnswers(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	script := fmt.Sprintf("answers %s 200\nanswers %s 503\nanswers %s none\nanswers %s 302\n", addr, addr, addr, addr)
	if result, _ := runScript(t, newDouble(t), script, false); result.Err != nil {
		t.Error(result.Err)
	}
	if _, err := http.Get("http://" + addr + "/ready"); err == nil {
		t.Error("it answers after the case")
	}
	if result, _ := runScript(t, newDouble(t), "answers "+addr+" none\n", true); result.Err == nil {
		t.Error("nothing answers, and the case has ended it")
	}
	for _, bad := range []string{"unasked 192.0.2.1:80", "answers 192.0.2.1:80 200", "answers x 200", "answers 127.0.0.1:80 99", "answers 127.0.0.1:80 ok"} {
		if _, err := Parse("bad.txtar", []byte(bad)); err == nil {
			t.Errorf("%s: no mistake", bad)
		}
	}
}

// TestUnasked: a server that has been asked, or is not there, fails the case.
func TestUnasked(t *testing.T) {
	ctx, addr := t.Context(), netip.MustParseAddrPort("127.0.0.1:4191")
	unasked, err := parseUnasked(nil, []string{addr.String()})
	if err != nil {
		t.Fatal(err)
	}
	s := &answering{}
	s.code.Store(http.StatusOK)
	r := &run{answering: map[netip.AddrPort]*answering{}}
	if unasked(ctx, r) == nil {
		t.Error("nothing answers there")
	}
	r.answering[addr] = s
	if err := unasked(ctx, r); err != nil {
		t.Error(err)
	}
	s.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/other", nil))
	if unasked(ctx, r) == nil {
		t.Error("it has been asked")
	}
}

// TestAnswering: /ready has the status, a redirect leads to what is alive, and credentials are refused.
func TestAnswering(t *testing.T) {
	s := &answering{}
	for _, c := range []struct {
		path, header string
		code, want   int
	}{
		{"/ready", "", 200, 200},
		{"/ready", "", 503, 503},
		{"/ready", "", 302, 302},
		{"/elsewhere", "", 302, 200},
		{"/other", "", 200, 404},
		{"/ready", "Authorization", 200, 400},
	} {
		s.code.Store(int64(c.code))
		r, w := httptest.NewRequest(http.MethodGet, c.path, nil), httptest.NewRecorder()
		if c.header != "" {
			r.Header.Set(c.header, "x")
		}
		if s.ServeHTTP(w, r); w.Code != c.want {
			t.Errorf("%s with %q while it is %d: %d, not %d", c.path, c.header, c.code, w.Code, c.want)
		}
	}
}

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"isthmus/e2e/admin"
	"isthmus/e2e/gateway"
	"isthmus/e2e/kube"
	"isthmus/e2e/object"
	"isthmus/e2e/proxy"
)

// auditPage is /debug/audit.
type auditPage struct {
	Interval    string
	Services    int
	Differences int
	Results     []struct {
		Service, Cluster, Resource string
		Compared                   int
		Differences                []auditDifference
		Error                      string
	}
}

type auditDifference struct {
	Object, Problem string
	Healed          bool
}

func readAudit(ctx context.Context, g *gateway.Gateway) (p auditPage, err error) {
	text, err := admin.Get(ctx, g.MetricsAddr(), "/debug/audit")
	if err != nil {
		return p, err
	}
	return p, json.Unmarshal([]byte(text), &p)
}

// auditWorld is a gateway that audits and one that does not, both beside west, with east linked. What they watch passes
// swallowers. Both have a stream of a Service that both clusters are members of.
type auditWorld struct {
	admins          map[string]*kube.Client
	swallowers      map[string]*swallower
	audits, trusts  *gateway.Gateway
	healed, mislead *proxy.Stream
}

func newAuditWorld(t *testing.T) *auditWorld {
	w := &auditWorld{admins: map[string]*kube.Client{}, swallowers: map[string]*swallower{}}
	kubeconfigs := map[string][]byte{}
	for _, c := range startClusters(t, []string{"namespace"}, "west", "east") {
		w.admins[c.Name()], w.swallowers[c.Name()] = client(t, c), newSwallower(t, c)
		text, err := object.Kubeconfig(c.Name(), clientcmdapi.Cluster{Server: w.swallowers[c.Name()].URL}, clientcmdapi.AuthInfo{Token: "t"})
		must(t, err)
		kubeconfigs[c.Name()] = text
	}
	ctx := t.Context()
	for name, k := range w.admins {
		must(t, k.Apply(ctx, object.Namespace("ns"), object.Namespace(object.LinkNamespace), object.Service("ns", "web")))
		for i, ip := range w.addrs(name)[:3] {
			must(t, k.Apply(ctx, object.Slice("ns", "web", fmt.Sprint(i), object.Endpoint(ip))))
		}
	}
	must(t, w.admins["west"].Apply(ctx, object.Federated("ns", "all", "web", "web@east"), object.Link("east", kubeconfigs["east"])))
	path := filepath.Join(t.TempDir(), "kubeconfig")
	must(t, os.WriteFile(path, kubeconfigs["west"], 0o600))
	begin := func(audit string) (*gateway.Gateway, *proxy.Stream) {
		g := startGateway(t, gateway.Config{Kubeconfig: path, Args: []string{"-audit=" + audit, "-shutdown-delay=0s", "-drain=0s"}})
		conn, err := proxy.Dial(g.Addr())
		must(t, err)
		atEnd(t, conn.Close)
		s := proxy.NewStream(proxy.Config{Conn: conn, Kind: proxy.Get, Authority: object.Authority("ns", "all")})
		t.Cleanup(s.Close)
		must(t, s.Open(ctx))
		return g, s
	}
	w.audits, w.healed = begin("10s")
	w.trusts, w.mislead = begin("off")
	return w
}

// addrs are the addresses of a cluster's slices. The first stays all the time, the last comes later.
func (w *auditWorld) addrs(cluster string) []string {
	if cluster == "west" {
		return []string{"10.1.0.1", "10.1.0.2", "10.1.0.3", "10.1.0.4"}
	}
	return []string{"10.2.0.1", "10.2.0.2", "10.2.0.3", "10.2.0.4"}
}

// expect waits until a stream has exactly these addresses.
func (w *auditWorld) expect(t *testing.T, s *proxy.Stream, what string, addrs ...string) {
	t.Helper()
	var want []netip.AddrPort
	for _, a := range addrs {
		want = append(want, netip.AddrPortFrom(netip.MustParseAddr(a), object.Port))
	}
	slices.SortFunc(want, netip.AddrPort.Compare)
	awaitState(t, s, what, func(now proxy.Snapshot) bool {
		have := slices.Clone(now.Get.Addrs())
		slices.SortFunc(have, netip.AddrPort.Compare)
		return slices.Equal(have, want)
	})
}

// slice writes one of a cluster's slices.
func (w *auditWorld) slice(t *testing.T, cluster string, i int, addrs ...string) {
	t.Helper()
	o := object.Slice("ns", "web", fmt.Sprint(i))
	for _, a := range addrs {
		o.Endpoints = append(o.Endpoints, object.Endpoint(a))
	}
	_, err := kube.Put(t.Context(), w.admins[cluster].DiscoveryV1().EndpointSlices("ns"), o)
	must(t, err)
}

// lost waits until all events that are to be lost are.
func (w *auditWorld) lost(t *testing.T, s *swallower) {
	t.Helper()
	await(t, "events are lost to both gateways", func() error {
		if n := s.left(); n > 0 {
			return fmt.Errorf("%d are not", n)
		}
		return nil
	})
}

// found waits until a difference is on the page as healed, and in the metrics.
func (w *auditWorld) found(t *testing.T, shown, resource, object, problem string) {
	t.Helper()
	await(t, object+" "+problem, func() error {
		p, err := readAudit(t.Context(), w.audits)
		if err != nil {
			return err
		}
		for _, r := range p.Results {
			if r.Cluster == shown && r.Resource == resource && slices.Contains(r.Differences, auditDifference{object, problem, true}) {
				return nil
			}
		}
		return fmt.Errorf("no such result: %+v", p)
	})
}

// TestAudit loses events of watches, of the gateway's own cluster and of a linked one, while streams are open: an endpoint
// that comes back, slices that go and come, and a Service that goes. A gateway that audits finds, counts and heals each, and no stream
// loses anything else; one that does not goes on with what it knows.
func TestAudit(t *testing.T) {
	t.Parallel()
	w := newAuditWorld(t)
	clusters := map[string]string{"west": "local", "east": "east"}
	west, east := w.addrs("west"), w.addrs("east")
	for _, s := range []*proxy.Stream{w.healed, w.mislead} {
		w.expect(t, s, "all are there", slices.Concat(west[:3], east[:3])...)
	}
	for name := range clusters {
		w.slice(t, name, 1)
	}
	for _, s := range []*proxy.Stream{w.healed, w.mislead} {
		w.expect(t, s, "one of each goes", west[0], west[2], east[0], east[2])
	}

	// It comes back, another slice goes, and a new one comes: all of that gets lost.
	for name := range clusters {
		lossy, addrs := w.swallowers[name], w.addrs(name)
		for _, event := range []string{"MODIFIED web-1", "DELETED web-2", "ADDED web-3"} {
			lossy.lose(event, 2)
		}
		w.slice(t, name, 1, addrs[1])
		must(t, w.admins[name].DiscoveryV1().EndpointSlices("ns").Delete(t.Context(), "web-2", metav1.DeleteOptions{}))
		w.slice(t, name, 3, addrs[3])
		w.lost(t, lossy)
	}
	w.expect(t, w.healed, "what is lost is found", west[0], west[1], west[3], east[0], east[1], east[3])
	for _, shown := range clusters {
		w.found(t, shown, "endpointslices", "ns/web-1", "differs")
		w.found(t, shown, "endpointslices", "ns/web-2", "not in the API")
		w.found(t, shown, "endpointslices", "ns/web-3", "missing in the gateway")
	}
	w.expect(t, w.mislead, "without an audit it is not", west[0], west[2], east[0], east[2])

	// The Service of east goes, which gets lost.
	w.swallowers["east"].lose("DELETED web", 2)
	must(t, w.admins["east"].CoreV1().Services("ns").Delete(t.Context(), "web", metav1.DeleteOptions{}))
	w.lost(t, w.swallowers["east"])
	w.expect(t, w.healed, "the Service goes", west[0], west[1], west[3])
	w.found(t, "east", "services", "ns/web", "not in the API")

	samples, err := admin.Metrics(t.Context(), w.audits.MetricsAddr())
	must(t, err)
	for series, want := range map[string]float64{
		`isthmus_audit_differences_total{cluster="local",resource="endpointslices"}`: 3,
		`isthmus_audit_differences_total{cluster="east",resource="endpointslices"}`:  3,
		`isthmus_audit_differences_total{cluster="east",resource="services"}`:        1,
		`isthmus_audit_differences_total{cluster="local",resource="services"}`:       0,
	} {
		if i := slices.IndexFunc(samples, func(s admin.Sample) bool { return s.Series == series }); i < 0 || samples[i].Value != want {
			t.Errorf("%s is not %v: %v", series, want, samples)
		}
	}
	must(t, w.unflapped())
	p, err := readAudit(t.Context(), w.trusts)
	must(t, err)
	if p.Interval != "off" || p.Services != 1 || p.Differences != 0 || len(p.Results) != 0 {
		t.Errorf("the other gateway: %+v", p)
	}
}

// unflapped returns an error if the stream of the gateway that audits has lost an endpoint that was always there.
func (w *auditWorld) unflapped() error {
	var errs []error
	for _, m := range w.healed.Recent() {
		if m.Kind != "remove" {
			continue
		}
		for _, a := range m.Addrs {
			if a.Addr().String() == "10.1.0.1" {
				errs = append(errs, fmt.Errorf("%v: 10.1.0.1 was always there", m))
			}
		}
	}
	return errors.Join(errs...)
}

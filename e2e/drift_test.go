package e2e

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"isthmus/e2e/admin"
	"isthmus/e2e/gateway"
	"isthmus/e2e/kube"
	"isthmus/e2e/object"
	"isthmus/e2e/poll"
	"isthmus/e2e/proxy"
	"isthmus/internal/adminapi"
)

// driftWorld is a gateway that lists again and one that does not, both beside west, with east linked. What they watch passes
// swallowers. Both have a stream of a Service that both clusters are members of.
type driftWorld struct {
	admins          map[string]*kube.Client
	swallowers      map[string]*swallower
	relists, trusts *gateway.Gateway
	healed, mislead *proxy.Stream
}

func newDriftWorld(t *testing.T) *driftWorld {
	w := &driftWorld{admins: map[string]*kube.Client{}, swallowers: map[string]*swallower{}}
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
	begin := func(relist string) (*gateway.Gateway, *proxy.Stream) {
		g := startGateway(t, gateway.Config{Kubeconfig: path, Args: []string{"-relist=" + relist, "-shutdown-delay=0s", "-drain=0s"}})
		conn, err := proxy.Dial(g.Addr())
		must(t, err)
		atEnd(t, conn.Close)
		s := proxy.NewStream(proxy.Config{Conn: conn, MayBeLate: true, Kind: proxy.Get, Authority: object.Authority("ns", "all")})
		t.Cleanup(s.Close)
		must(t, s.Open(ctx))
		return g, s
	}
	w.relists, w.healed = begin("10s")
	w.trusts, w.mislead = begin("off")
	return w
}

// addrs are the addresses of a cluster's slices. The first stays all the time, the last comes later.
func (w *driftWorld) addrs(cluster string) []string {
	if cluster == "west" {
		return []string{"10.1.0.1", "10.1.0.2", "10.1.0.3", "10.1.0.4"}
	}
	return []string{"10.2.0.1", "10.2.0.2", "10.2.0.3", "10.2.0.4"}
}

// expect waits until a stream has exactly these addresses.
func (w *driftWorld) expect(t *testing.T, s *proxy.Stream, what string, addrs ...string) {
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
func (w *driftWorld) slice(t *testing.T, cluster string, i int, addrs ...string) {
	t.Helper()
	o := object.Slice("ns", "web", fmt.Sprint(i))
	for _, a := range addrs {
		o.Endpoints = append(o.Endpoints, object.Endpoint(a))
	}
	_, err := kube.Put(t.Context(), w.admins[cluster].DiscoveryV1().EndpointSlices("ns"), o)
	must(t, err)
}

// lost waits until all events that are to be lost are.
func (w *driftWorld) lost(t *testing.T, s *swallower) {
	t.Helper()
	await(t, "events are lost to both gateways", func() error {
		if n := s.left(); n > 0 {
			return fmt.Errorf("%d are not", n)
		}
		return nil
	})
}

// found waits for an event about an object.
func (w *driftWorld) found(t *testing.T, shown, text string) {
	t.Helper()
	must(t, poll.Until(t.Context(), 3*time.Minute, 200*time.Millisecond, func() error { // bookmarks come once a minute
		page, err := admin.Read[adminapi.Events](t.Context(), w.relists.MetricsAddr(), "/debug/events")
		if err != nil {
			return err
		}
		for _, e := range page.Events {
			if e.Kind == adminapi.EventDrift && e.Object == shown && e.Text == text && e.Problem {
				return nil
			}
		}
		return fmt.Errorf("no event %q: %+v", text, page.Events)
	}))
}

// TestDrift loses events of watches, of the gateway's own cluster and of a linked one, while streams are open: an endpoint
// that comes back, slices that go and come, and a Service that goes. A gateway that lists again finds, counts and corrects each, and no stream
// loses anything else; one that does not goes on with what it knows.
func TestDrift(t *testing.T) {
	t.Parallel()
	w := newDriftWorld(t)
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
	for _, shown := range clusters {
		w.found(t, shown, "endpointslices ns/web-1: another version of it was kept")
		w.found(t, shown, "endpointslices ns/web-2: it was kept, and is gone")
		w.found(t, shown, "endpointslices ns/web-3: it was missing")
	}
	w.expect(t, w.healed, "what is lost is found", west[0], west[1], west[3], east[0], east[1], east[3])
	w.expect(t, w.mislead, "without a list it is not", west[0], west[2], east[0], east[2])

	// The Service of east goes, which gets lost.
	w.swallowers["east"].lose("DELETED web", 2)
	must(t, w.admins["east"].CoreV1().Services("ns").Delete(t.Context(), "web", metav1.DeleteOptions{}))
	w.lost(t, w.swallowers["east"])
	w.found(t, "east", "services ns/web: it was kept, and is gone")
	w.expect(t, w.healed, "the Service goes", west[0], west[1], west[3])

	samples, err := admin.Metrics(t.Context(), w.relists.MetricsAddr())
	must(t, err)
	for series, want := range map[string]float64{
		`isthmus_drift_total{cluster="local",resource="endpointslices"}`: 3,
		`isthmus_drift_total{cluster="east",resource="endpointslices"}`:  3,
		`isthmus_drift_total{cluster="east",resource="services"}`:        1,
		`isthmus_drift_total{cluster="local",resource="services"}`:       0,
	} {
		if i := slices.IndexFunc(samples, func(s admin.Sample) bool { return s.Series == series }); i < 0 || samples[i].Value != want {
			t.Errorf("%s is not %v: %v", series, want, samples)
		}
	}
	must(t, w.unflapped())
	samples, err = admin.Metrics(t.Context(), w.trusts.MetricsAddr())
	must(t, err)
	for _, one := range samples {
		if strings.HasPrefix(one.Series, "isthmus_drift_total{") && one.Value != 0 {
			t.Errorf("the other gateway has corrected something: %v", one)
		}
	}
}

// unflapped returns an error if the stream of the gateway that lists again has lost an endpoint that was always there.
func (w *driftWorld) unflapped() error {
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

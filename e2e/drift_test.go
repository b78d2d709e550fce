package e2e

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"isthmus/e2e/admin"
	"isthmus/e2e/cluster"
	"isthmus/e2e/gateway"
	"isthmus/e2e/intercept"
	"isthmus/e2e/object"
	"isthmus/e2e/poll"
	"isthmus/internal/adminapi"
)

// TestDrift loses events on their way from the gateway's own cluster and from a linked one: that a slice and a link Secret are
// deleted. A gateway that lists again finds, counts and corrects each, and its stream loses nothing else.
func TestDrift(t *testing.T) {
	t.Parallel()
	var lost atomic.Int64
	ctx, w, kubeconfigs := t.Context(), newNearClusters(t, []string{"namespace"}, "west", "east"), map[string][]byte{}
	west, slice := w.clients["west"], map[string]string{"west": "10.1.9.9", "east": "10.2.9.9"}
	all := slices.Concat(w.pods["west"], w.pods["east"])
	with := slices.Clone(all)
	for name, ip := range slice {
		text, err := object.Kubeconfig(name, clientcmdapi.Cluster{Server: forgetful(t, w.servers[name], &lost)}, clientcmdapi.AuthInfo{Token: "t"})
		must(t, err)
		kubeconfigs[name] = text
		must(t, w.clients[name].Apply(ctx, object.Slice("shop", "web", "lost", object.Endpoint(ip))))
		with = append(with, netip.AddrPortFrom(netip.MustParseAddr(ip), object.Port))
	}
	dead, err := object.Kubeconfig("lost", clientcmdapi.Cluster{Server: "http://127.0.0.1:1"}, clientcmdapi.AuthInfo{Token: "t"})
	must(t, err)
	must(t, west.Apply(ctx, object.Federated("shop", "web-federated", "web", "web@east"), object.Link("east", kubeconfigs["east"]), object.Link("lost", dead)))
	w.gateway = startGateway(t, gateway.Config{Kubeconfig: writeKubeconfig(t, kubeconfigs["west"]), Args: []string{"-relist=10s", "-shutdown-delay=0s", "-drain=0s"}})
	w.subscribe(t)
	w.expect(t, "all are there", with)

	must(t, west.CoreV1().Secrets(object.LinkNamespace).Delete(ctx, object.LinkName("lost"), metav1.DeleteOptions{}))
	for name := range slice {
		must(t, w.clients[name].DiscoveryV1().EndpointSlices("shop").Delete(ctx, "web-lost", metav1.DeleteOptions{}))
	}
	must(t, poll.Until(ctx, 3*time.Minute, 200*time.Millisecond, func() error { // bookmarks come once a minute
		if n := lost.Load(); n != 3 {
			return fmt.Errorf("%d events of 3 are lost", n)
		}
		page, err := admin.Read[adminapi.Events](ctx, w.gateway.MetricsAddr(), "/debug/events")
		if err != nil {
			return err
		}
		for _, name := range []string{"local", "east"} {
			if !slices.ContainsFunc(page.Events, func(e adminapi.Event) bool {
				return e.Kind == adminapi.EventDrift && e.Object == name && e.Text == "endpointslices shop/web-lost: it was kept, and is gone" && e.Problem
			}) {
				return fmt.Errorf("no event of %s: %+v", name, page.Events)
			}
		}
		clusters, err := admin.ReadClusters(ctx, w.gateway.MetricsAddr())
		if err == nil && len(admin.Named(clusters, "lost")) > 0 {
			err = fmt.Errorf("the link that was deleted is there: %+v", clusters.Clusters)
		}
		return err
	}))
	w.expect(t, "what is lost is found", all)
	samples, err := admin.Metrics(ctx, w.gateway.MetricsAddr())
	must(t, err)
	for series, want := range map[string]float64{`^isthmus_drift_total\{`: 2, `^isthmus_drift_total\{cluster="local",resource="endpointslices"`: 1, `^isthmus_drift_total\{cluster="east",resource="endpointslices"`: 1} {
		if sum, _ := admin.Sum(samples, regexp.MustCompile(series)); sum != want {
			t.Errorf("%s: %v, not %v", series, sum, want)
		}
	}
}

// forgetful starts a server in front of an API server, to which everybody is the administrator. It loses the events of watches that
// something whose name ends in "-lost" is deleted, and counts them.
func forgetful(t *testing.T, c *cluster.Cluster, lost *atomic.Int64) (server string) {
	t.Helper()
	target, err := url.Parse(c.REST().Host)
	must(t, err)
	transport, err := rest.TransportFor(c.REST())
	must(t, err)
	return intercept.Start(t, target, transport, func(w http.ResponseWriter, r *http.Request, forward http.HandlerFunc) {
		r.Header.Del("Authorization") // the administrator's comes in its place
		forward(&forgetting{ResponseWriter: w, lost: lost}, r)
	}).URL
}

// forgetting is the answer to a request.
type forgetting struct {
	http.ResponseWriter
	lost *atomic.Int64
	rest []byte // the beginning of an event
}

func (f *forgetting) Unwrap() http.ResponseWriter { return f.ResponseWriter }

func (f *forgetting) Write(p []byte) (int, error) {
	if !strings.HasSuffix(f.Header().Get("Content-Type"), "protobuf;stream=watch") {
		return f.ResponseWriter.Write(p)
	}
	f.rest = append(f.rest, p...)
	for len(f.rest) >= 4 {
		n := 4 + int(binary.BigEndian.Uint32(f.rest))
		if len(f.rest) < n {
			break
		}
		event := f.rest[:n]
		f.rest = f.rest[n:]
		if bytes.Contains(event, []byte("DELETED")) && bytes.Contains(event, []byte("-lost")) {
			f.lost.Add(1)
			continue
		}
		if _, err := f.ResponseWriter.Write(event); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/kubernetes"

	"isthmus/e2e/cluster"
	"isthmus/e2e/faultproxy"
	"isthmus/e2e/gateway"
	"isthmus/e2e/proxy"
	"isthmus/e2e/shop"
)

const federatedShop = "web-federated.shop.svc.cluster.local:80"

// observed is the demo's world with two gateways, streams, changes and a few things that are not as they should be: a
// link to a cluster that is not there, and proxies that take nothing. The second gateway reads core Endpoints.
type observed struct {
	t        *testing.T
	shops    map[string]*shop.Cluster
	clients  map[string]*kubernetes.Clientset
	gateways []*gateway.Gateway
	stream   *proxy.Stream // of federatedShop, at the first gateway
}

func newObserved(t *testing.T) *observed {
	o := &observed{t: t, shops: map[string]*shop.Cluster{}, clients: map[string]*kubernetes.Clientset{}}
	names := []string{"west", "east", "north"}
	var configs []cluster.Config
	for _, name := range names {
		configs = append(configs, cluster.Config{Name: name, Dir: filepath.Join(t.TempDir(), name),
			Controllers: []string{"namespace", "serviceaccount", "token", "endpointslice", "gc"}})
	}
	servers, err := cluster.StartAll(t.Context(), configs...)
	o.check(err)
	for i, server := range servers {
		t.Cleanup(func() { o.report(server.Close()) })
		c, err := shop.New(server.Name(), byte(i+1), server.REST())
		o.check(err)
		o.shops[server.Name()], o.clients[server.Name()] = c, client(t, server)
		o.background(c)
	}
	var filled sync.WaitGroup
	for i, name := range names {
		filled.Go(func() { o.report(o.shops[name].Deploy(t.Context(), 3-i, 2)) })
	}
	filled.Wait()
	west := o.shops["west"]
	o.check(west.Mirror(t.Context()))
	access, err := west.GatewayAccess(t.Context()) // with the namespace that links are in
	o.check(err)
	for _, remote := range names[1:] {
		kubeconfig, err := o.shops[remote].RemoteAccess(t.Context(), "remote-access-token-1")
		o.check(err)
		o.check(west.Link(t.Context(), remote, kubeconfig))
	}
	o.linkDead()
	o.startGateways(access)
	o.updates(servers)
	return o
}

func (o *observed) check(err error) {
	o.t.Helper()
	if err != nil {
		o.t.Fatal(err)
	}
}

func (o *observed) report(err error) {
	if err != nil {
		o.t.Error(err)
	}
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

// linkDead links a cluster whose API server refuses connections.
func (o *observed) linkDead() {
	dead, err := faultproxy.Start("127.0.0.1:1") // below the ports that others are given
	o.check(err)
	o.t.Cleanup(func() { o.report(dead.Close()) })
	o.check(dead.Set(faultproxy.Mode{Refuse: true}))
	o.check(o.shops["west"].Link(o.t.Context(), "dead", fmt.Appendf(nil,
		`{"apiVersion":"v1","kind":"Config","current-context":"c","contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],`+
			`"clusters":[{"name":"c","cluster":{"server":"https://%s","insecure-skip-tls-verify":true}}],"users":[{"name":"u","user":{"token":"t"}}]}`, dead.Addr())))
}

func (o *observed) startGateways(kubeconfig []byte) {
	path := filepath.Join(o.t.TempDir(), "kubeconfig")
	o.check(os.WriteFile(path, kubeconfig, 0o600))
	for _, args := range [][]string{{"-service-metrics"}, {"-enable-endpoint-slices=false"}} {
		g, err := gateway.Start(o.t.Context(), gateway.Config{Kubeconfig: path,
			Args: append(args, "-target-cluster-label=true", "-shutdown-delay=0s", "-drain=0s", "-stream-stall-timeout=1s")})
		o.check(err)
		o.t.Cleanup(func() { o.report(g.Stop()) })
		o.gateways = append(o.gateways, g)
	}
}

// subscribe opens a stream at a gateway, as the proxy of a Pod in west.
func (o *observed) subscribe(g *gateway.Gateway, kind proxy.Kind, authority string) *proxy.Stream {
	conn, err := proxy.Dial(g.Addr())
	o.check(err)
	s := proxy.NewStream(proxy.Config{Conn: conn, Kind: kind, Authority: authority,
		Token: fmt.Sprintf(`{"ns":"shop","nodeName":%q,"pod":"test"}`, o.shops["west"].Node())})
	o.t.Cleanup(func() {
		s.Close()
		o.report(conn.Close())
	})
	o.check(s.Open(context.Background())) // not the test's: its end is no fault of the gateway
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
	large := func(n int) string {
		var endpoints, routes strings.Builder
		for i := range 900 {
			fmt.Fprintf(&endpoints, "- {addresses: [10.%d.%d.%d], conditions: {ready: true}}\n", 200+n%2, i/250, 1+i%250)
		}
		for i := range 400 {
			fmt.Fprintf(&routes, "  - {name: GET /a-route-with-a-long-name/%d/%d, condition: {method: GET, pathRegex: /a-route-with-a-long-name/%d}}\n", n, i, i)
		}
		return fmt.Sprintf(`
apiVersion: v1
kind: Service
metadata: {name: large, namespace: shop}
spec: {ports: [{name: http, port: 80}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: large-1, namespace: shop, labels: {kubernetes.io/service-name: large}}
addressType: IPv4
ports: [{name: http, port: 8080}]
endpoints:
%s---
apiVersion: linkerd.io/v1alpha2
kind: ServiceProfile
metadata: {name: large.shop.svc.cluster.local, namespace: shop}
spec:
  routes:
%s`, endpoints.String(), routes.String())
	}
	apply := func(n int) {
		eventually(o.t, "the large Service is applied", func(ctx context.Context) error { return west.Apply(ctx, strings.NewReader(large(n))) })
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
	for n := 1; ; n++ {
		metrics := o.metrics(o.t, g)
		if stalled[0].MatchString(metrics) && stalled[1].MatchString(metrics) {
			return
		}
		if n == 200 {
			o.t.Fatal("proxies that take nothing are not given up")
		}
		apply(n)
	}
}

// metrics returns what a gateway's /metrics says.
func (o *observed) metrics(t *testing.T, g *gateway.Gateway) (text string) {
	t.Helper()
	eventually(t, "/metrics", func(ctx context.Context) (err error) {
		text, err = get(ctx, "http://"+g.MetricsAddr()+"/metrics")
		return err
	})
	return text
}

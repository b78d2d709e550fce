package e2e

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/stats"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"isthmus/e2e/cluster"
	"isthmus/e2e/gateway"
	"isthmus/e2e/proxy"
)

const (
	largeNamespace = "large"
	largeSlice     = 100 // endpoints in each
)

// largeShares says how many slices a cluster has: 50 in all.
var largeShares = []struct {
	cluster string
	slices  int
}{{"west", 17}, {"east", 17}, {"north", 16}}

// large is three clusters that have one Service in common, with many meshed pods behind it.
type large struct {
	t       *testing.T
	servers map[string]*cluster.Cluster
	clients map[string]*kubernetes.Clientset
	slices  map[string][]*discoveryv1.EndpointSlice
	addrs   []netip.AddrPort // of all endpoints, in order
	sizes   sizes
}

// newLarge starts the clusters and fills them.
func newLarge(t *testing.T) *large {
	l := &large{t: t, servers: map[string]*cluster.Cluster{}, clients: map[string]*kubernetes.Clientset{}, slices: map[string][]*discoveryv1.EndpointSlice{}}
	var configs []cluster.Config
	for _, share := range largeShares {
		configs = append(configs, cluster.Config{Name: share.cluster, Dir: filepath.Join(t.TempDir(), share.cluster),
			Controllers: []string{"namespace", "serviceaccount"}})
	}
	servers, err := cluster.StartAll(t.Context(), configs...)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range servers {
		t.Cleanup(func() {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
		l.servers[c.Name()], l.clients[c.Name()] = c, client(t, c)
	}
	began := time.Now()
	for i, share := range largeShares {
		l.fill(share.cluster, i+1, share.slices)
	}
	l.federate()
	slices.SortFunc(l.addrs, netip.AddrPort.Compare)
	t.Logf("%d endpoints written in %v", len(l.addrs), time.Since(began))
	return l
}

// fill writes a cluster's share of the Service. The names are long, as they can be, so that an endpoint takes half a
// kilobyte; those of the ServiceAccounts differ, so that not everything is said once for all.
func (l *large) fill(where string, number, count int) {
	ctx, k, account := l.t.Context(), l.clients[where], strings.Repeat("checkout-", 9)+where
	must(l.t, create(ctx, k.CoreV1().Namespaces().Create, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: largeNamespace}}))
	must(l.t, create(ctx, k.CoreV1().ServiceAccounts(largeNamespace).Create, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: account}}))
	must(l.t, create(ctx, k.CoreV1().Services(largeNamespace).Create, largeService("web", nil)))
	pods := make(chan *corev1.Pod)
	var writers sync.WaitGroup
	for range 8 {
		writers.Go(func() {
			for p := range pods {
				if err := create(ctx, k.CoreV1().Pods(largeNamespace).Create, p); err != nil {
					l.t.Error(err)
				}
			}
		})
	}
	for s := range count {
		slice := &discoveryv1.EndpointSlice{
			ObjectMeta:  metav1.ObjectMeta{Name: fmt.Sprintf("web-%02d", s), Labels: map[string]string{discoveryv1.LabelServiceName: "web"}},
			AddressType: discoveryv1.AddressTypeIPv4,
			Ports:       []discoveryv1.EndpointPort{{Name: new("http"), Port: new(int32(8080))}},
		}
		for i := range largeSlice {
			ip := netip.AddrFrom4([4]byte{10, byte(number), byte(s), byte(i)})
			name := fmt.Sprintf("web-%02d-%02d", s, i)
			pods <- largePod(name, account)
			slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
				Addresses: []string{ip.String()}, Conditions: discoveryv1.EndpointConditions{Ready: new(true)},
				TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: largeNamespace, Name: name},
			})
			l.addrs = append(l.addrs, netip.AddrPortFrom(ip, 8080))
		}
		made, err := k.DiscoveryV1().EndpointSlices(largeNamespace).Create(ctx, slice, metav1.CreateOptions{})
		must(l.t, err)
		l.slices[where] = append(l.slices[where], made)
	}
	close(pods)
	writers.Wait()
}

// federate links the clusters to west and makes web of west a Service of them all.
func (l *large) federate() {
	ctx, k := l.t.Context(), l.clients["west"]
	must(l.t, create(ctx, k.CoreV1().Namespaces().Create, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "linkerd"}}))
	for _, remote := range []string{"east", "north"} {
		kubeconfig, err := os.ReadFile(l.servers[remote].Kubeconfig())
		must(l.t, err)
		must(l.t, create(ctx, k.CoreV1().Secrets("linkerd").Create, &corev1.Secret{
			Type: "mirror.linkerd.io/remote-kubeconfig",
			Data: map[string][]byte{"kubeconfig": kubeconfig},
			ObjectMeta: metav1.ObjectMeta{
				Name:        "cluster-credentials-" + remote,
				Labels:      map[string]string{"multicluster.linkerd.io/cluster-name": remote},
				Annotations: map[string]string{"multicluster.linkerd.io/trust-domain": "cluster.local", "multicluster.linkerd.io/cluster-domain": "cluster.local"},
			},
		}))
	}
	must(l.t, create(ctx, k.CoreV1().Services(largeNamespace).Create, largeService("web-all", map[string]string{
		"multicluster.linkerd.io/local-discovery": "web", "multicluster.linkerd.io/remote-discovery": "web@east,web@north",
	})))
}

func largeService(name string, annotations map[string]string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "http", Port: 80}}},
	}
}

func largePod(name, account string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"linkerd.io/control-plane-ns": "linkerd", "pod-template-hash": "5f79f964bc"}},
		Spec: corev1.PodSpec{
			NodeName: "node-1", ServiceAccountName: account, AutomountServiceAccountToken: new(false), TerminationGracePeriodSeconds: new(int64(0)),
			Containers: []corev1.Container{{Name: "app", Image: "none"}, {Name: "linkerd-proxy", Image: "none", Env: []corev1.EnvVar{
				{Name: "LINKERD2_PROXY_INBOUND_LISTEN_ADDR", Value: "0.0.0.0:4143"},
				{Name: "LINKERD2_PROXY_ADMIN_LISTEN_ADDR", Value: "0.0.0.0:4191"},
				{Name: "LINKERD2_PROXY_CONTROL_LISTEN_ADDR", Value: "0.0.0.0:4190"},
			}}},
		},
	}
}

// startGateway runs a gateway beside west until all clusters are ready, and returns its address.
func (l *large) startGateway() string {
	g, err := gateway.Start(l.t.Context(), gateway.Config{Kubeconfig: l.servers["west"].Kubeconfig()})
	must(l.t, err)
	l.t.Cleanup(func() {
		if err := g.Stop(); err != nil {
			l.t.Error(err)
		}
	})
	poll(l.t, "all clusters are ready", func() error {
		page, err := debugClusters(l.t.Context(), g.MetricsAddr())
		if err != nil {
			return err
		}
		for _, c := range append(page.Clusters, page.Local) {
			if c.State != "ready" {
				return fmt.Errorf("%q is %s: %s", c.Cluster, c.State, c.Reason)
			}
		}
		return nil
	})
	return g.Addr()
}

// awaitState waits until a stream's state is as it should be.
func awaitState(t *testing.T, s *proxy.Stream, what string, holds func(proxy.Snapshot) bool) {
	t.Helper()
	limit := time.After(10 * time.Second)
	for {
		changed, now := s.Changed(), s.Snapshot()
		if holds(now) {
			return
		}
		if now.Phase != proxy.Open {
			t.Fatalf("waiting for %s: the stream has ended: %v", what, now.Err)
		}
		select {
		case <-changed:
		case <-limit:
			t.Fatalf("%s: not in time; %d endpoints, %v", what, now.Get.Len(), s.Recent())
		}
	}
}

// quiet returns when nothing has come for a while: what one change leads to has all been sent by then.
func (l *large) quiet(s *proxy.Stream) {
	for {
		select {
		case <-s.Changed():
		case <-time.After(300 * time.Millisecond):
			return
		}
	}
}

func create[T any](ctx context.Context, to func(context.Context, T, metav1.CreateOptions) (T, error), o T) error {
	_, err := to(ctx, o, metav1.CreateOptions{})
	return err
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// sizes notes how many bytes the messages of a connection have, as encoded.
type sizes struct {
	mu   sync.Mutex
	list []int
}

// take returns what has been noted since the last time.
func (s *sizes) take() []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.list
	s.list = nil
	return list
}

func (s *sizes) HandleRPC(_ context.Context, event stats.RPCStats) {
	if in, ok := event.(*stats.InPayload); ok {
		s.mu.Lock()
		s.list = append(s.list, in.Length)
		s.mu.Unlock()
	}
}

func (s *sizes) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (s *sizes) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (s *sizes) HandleConn(context.Context, stats.ConnStats)                       {}

package faults

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"isthmus/e2e/harness"
	"isthmus/e2e/harness/kube"
	"isthmus/e2e/proxy"
	"isthmus/internal/adminapi"
)

// world is what all faults have in common: a gateway beside west, which knows north as a cluster
// named calm that nothing happens to.
type world struct {
	west, north *site
	more        []*site             // that may fail
	own         *harness.FaultProxy // between the gateway and west
	gateway     *harness.Replica
	stages      atomic.Int32
	clusters    reading[adminapi.Clusters]
	metrics     reading[[]harness.Sample]
}

const calm = "calm"

// newWorld starts the gateway with these flags, its clusters and some more, and watches until the
// end of the test that the gateway stays ready.
func newWorld(t *testing.T, flags []string, more ...string) *world {
	t.Helper()
	sites := startSites(t, append([]string{"west", "north"}, more...)...)
	w := &world{west: sites[0], north: sites[1], more: sites[2:]}
	must(t, w.west.apply(t.Context(), kube.LinkNamespace))
	var err error
	w.own, err = harness.StartFaultProxy(strings.TrimPrefix(w.west.cluster().REST().Host, "https://"))
	must(t, err)
	t.Cleanup(func() { must(t, w.own.Close()) })
	kubeconfig, err := credentials{server: "https://" + w.own.Addr(), site: w.west}.kubeconfig()
	must(t, err)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	must(t, os.WriteFile(path, kubeconfig, 0o600))
	flags = append([]string{"-max-connection-age=0"}, flags...) // the streams of the long form are open for longer
	g, err := harness.StartReplica(t.Context(), harness.ReplicaConfig{Kubeconfig: path, Args: flags})
	must(t, err)
	w.gateway = g
	t.Cleanup(func() { must(t, g.Stop()) })
	must(t, w.link(t.Context(), calm, credentials{server: w.north.cluster().REST().Host, site: w.north}))
	w.awaitState(t, calm, "ready", recovery)
	w.watch(t)
	return w
}

// watch notes whenever the gateway is not ready, or does not follow the cluster that nothing happens to.
func (w *world) watch(t *testing.T) {
	life, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var watching sync.WaitGroup
	watching.Go(func() {
		for harness.Pause(life, 200*time.Millisecond) == nil {
			if err := w.well(life); err != nil && life.Err() == nil {
				t.Errorf("at %s: %v", time.Now().Format("15:04:05.000"), err)
			}
		}
	})
	t.Cleanup(func() {
		stop()
		watching.Wait()
	})
}

// well returns an error unless the gateway is ready and follows calm.
func (w *world) well(ctx context.Context) error {
	if _, err := w.page(ctx, "/ready"); err != nil {
		return err
	}
	c, err := w.cluster(ctx, calm)
	if err == nil && c.State != "ready" {
		err = fmt.Errorf("cluster %s is %+v", calm, c)
	}
	return err
}

// reading is something that all faults read again and again. Those who wait for it share it: the gateway serves few
// requests at once and answers the others with 503 after a while.
type reading[T any] struct {
	mu    sync.Mutex
	begun time.Time // the last time
	value T
	err   error
}

// read returns what was read after the call of it.
func (r *reading[T]) read(read func() (T, error)) (T, error) {
	asked := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil || !r.begun.After(asked) {
		r.begun = time.Now()
		r.value, r.err = read()
	}
	return r.value, r.err
}

// page returns a page of the admin server.
func (w *world) page(ctx context.Context, path string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return harness.GetPage(ctx, w.gateway.MetricsAddr(), path)
}

// cluster returns what /debug/clusters shows of a cluster.
func (w *world) cluster(ctx context.Context, name string) (adminapi.Cluster, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	page, err := w.clusters.read(
		func() (adminapi.Clusters, error) { return harness.ReadClusters(ctx, w.gateway.MetricsAddr()) },
	)
	if all := harness.ClustersNamed(page, name); len(all) > 0 {
		return all[0], err
	}
	return adminapi.Cluster{ClusterStatus: adminapi.ClusterStatus{State: "absent"}}, err
}

// metric adds up the samples whose name and labels match.
func (w *world) metric(ctx context.Context, expr string) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	samples, err := w.metrics.read(
		func() ([]harness.Sample, error) { return harness.ReadMetrics(ctx, w.gateway.MetricsAddr()) },
	)
	sum, _ := harness.SumSamples(samples, regexp.MustCompile("^(?:"+expr+")$"))
	return sum, err
}

// awaitState waits until /debug/clusters and the metrics show a cluster in a state.
func (w *world) awaitState(t *testing.T, name, state string, limit time.Duration) {
	t.Helper()
	began := time.Now()
	await(t, limit, func() error {
		c, err := w.cluster(t.Context(), name)
		if err != nil {
			return err
		}
		if string(c.State) != state {
			return fmt.Errorf("cluster %s is %+v, not %s", name, c, state)
		}
		shown, err := w.metric(t.Context(), `isthmus_cluster_state\{cluster="`+name+`",state="`+state+`"\}`)
		if err == nil && shown != 1 && state != "absent" {
			err = fmt.Errorf("isthmus_cluster_state of %s is not %s", name, state)
		}
		return err
	})
	t.Logf("%s is %s after %v", name, state, time.Since(began).Round(10*time.Millisecond))
}

// await polls until check returns no error.
func await(t *testing.T, limit time.Duration, check func() error) {
	t.Helper()
	must(t, within(t.Context(), limit, check))
}

// within polls until check returns no error.
func within(ctx context.Context, limit time.Duration, check func() error) error {
	return harness.Poll(ctx, limit, 50*time.Millisecond, check)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// subscribe opens a stream on a connection of its own.
func (w *world) subscribe(t *testing.T, kind proxy.Kind, service, namespace string) *proxy.Stream {
	t.Helper()
	conn, err := proxy.Dial(w.gateway.Addr())
	must(t, err)
	t.Cleanup(func() { conn.Close() })
	s := proxy.NewStream(proxy.Config{
		Conn:      conn,
		Kind:      kind,
		Authority: service + "." + namespace + ".svc.cluster.local:80",
		MayBeLate: !*long,
	})
	t.Cleanup(s.Close)
	must(t, s.Open(t.Context()))
	return s
}

// subscribeToNew is as subscribe, of a Service that has just been made: it asks again while the gateway does not know
// that, as proxies do. It returns once the stream has begun.
func (w *world) subscribeToNew(t *testing.T, kind proxy.Kind, service, namespace string) *proxy.Stream {
	t.Helper()
	s := w.subscribe(t, kind, service, namespace)
	await(t, patience, func() error {
		now := s.Snapshot()
		if now.Messages > 0 {
			return nil
		}
		if status.Code(now.Err) == codes.NotFound {
			must(t, s.Open(t.Context()))
		}
		return fmt.Errorf("a stream of %s has not begun: %v", service, now.Err)
	})
	return s
}

const accountName = "gateway"

// credentials is what a link gives away.
type credentials struct {
	server string // https://HOST:PORT
	site   *site  // whose authority signs the server's certificate
	token  string // empty: an administrator's certificate
}

// kubeconfig returns the credentials as a link carries them.
func (c credentials) kubeconfig() ([]byte, error) {
	client, user := c.site.client(), clientcmdapi.AuthInfo{Token: c.token}
	if c.token == "" {
		user = client.Admin()
	}
	return client.Kubeconfig(c.server, user)
}

// link writes the link Secret of a cluster name.
func (w *world) link(ctx context.Context, name string, c credentials) error {
	kubeconfig, err := c.kubeconfig()
	if err != nil {
		return err
	}
	return w.writeLink(ctx, kube.Link(name, kubeconfig))
}

func (w *world) writeLink(ctx context.Context, o *corev1.Secret) error {
	_, err := kube.Put(ctx, w.west.client().CoreV1().Secrets(kube.LinkNamespace), o)
	return err
}

// unlink deletes the link Secret of a cluster name.
func (w *world) unlink(ctx context.Context, name string) error {
	return w.west.client().CoreV1().Secrets(kube.LinkNamespace).Delete(ctx, kube.LinkName(name), metav1.DeleteOptions{})
}

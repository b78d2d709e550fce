package page

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"isthmus/e2e/harness"
	"isthmus/e2e/proxy"
	"isthmus/e2e/shop"
)

// world is the shop in three clusters, a gateway, and its page.
type world struct {
	*browser
	shops   map[string]*shop.Cluster
	servers map[string]*harness.Cluster
	gateway *harness.Replica
	origin  string
}

func newWorld(t *testing.T) *world {
	w := &world{
		browser: newBrowser(t, chromium(t)),
		shops:   map[string]*shop.Cluster{},
		servers: map[string]*harness.Cluster{},
	}
	var configs []harness.ClusterConfig
	names := []string{"west", "east", "north"}
	for _, name := range names {
		configs = append(
			configs,
			harness.ClusterConfig{Name: name, Dir: filepath.Join(t.TempDir(), name), Controllers: shop.Controllers},
		)
	}
	servers, err := harness.StartClusters(t.Context(), configs...)
	w.must(err)
	var deployed sync.WaitGroup
	for i, s := range servers {
		w.atEnd(s.Close)
		c, err := shop.New(s.Name(), byte(i+1), s.REST())
		w.must(err)
		w.shops[s.Name()], w.servers[s.Name()] = c, s
		w.background(c)
		deployed.Go(func() {
			if err := c.Deploy(t.Context(), 3-i, 2); err != nil {
				t.Error(err)
			}
		})
	}
	deployed.Wait()
	west := w.shops["west"]
	w.must(west.Mirror(t.Context()))
	access, err := west.GatewayAccess(t.Context())
	w.must(err)
	for _, name := range names[1:] {
		kubeconfig, err := w.shops[name].RemoteAccess(t.Context(), "remote-access-token-1")
		w.must(err)
		w.must(west.Link(t.Context(), name, kubeconfig))
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	w.must(os.WriteFile(path, access, 0o600))
	w.gateway, err = harness.StartReplica(t.Context(), harness.ReplicaConfig{
		Kubeconfig: path,
		Env:        []string{"ISTHMUS_TEST_LOOPBACK_GATEWAYS=true"},
		Args:       []string{"-shutdown-delay=0s", "-drain=0s"},
	})
	w.must(err)
	w.atEnd(w.gateway.Stop)
	w.origin = "http://" + w.gateway.MetricsAddr()
	w.subscribe("web-federated.shop.svc.cluster.local:80")
	return w
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) atEnd(do func() error) {
	w.t.Cleanup(func() {
		if err := do(); err != nil {
			w.t.Error(err)
		}
	})
}

// background makes the cluster's Deployments into Pods until the test ends.
func (w *world) background(c *shop.Cluster) {
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.Run(ctx)
	}()
	w.t.Cleanup(func() {
		stop()
		<-done
		c.Close()
	})
}

func (w *world) subscribe(authority string) {
	conn, err := proxy.Dial(w.gateway.Addr())
	w.must(err)
	s := proxy.NewStream(proxy.Config{
		Conn:      conn,
		Kind:      proxy.Get,
		Authority: authority,
		Token:     fmt.Sprintf(`{"ns":"shop","nodeName":%q}`, w.shops["west"].Node()),
	})
	w.atEnd(conn.Close)
	w.t.Cleanup(s.Close)
	w.must(s.Open(context.Background()))
}

func (w *world) annotate(service, name, value string) {
	w.t.Helper()
	annotations := map[string]any{name: value}
	if value == "" {
		annotations[name] = nil // removes it
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": annotations}})
	w.must(err)
	_, err = w.shops["west"].CoreV1().
		Services(shop.Namespace).
		Patch(w.t.Context(), service, types.MergePatchType, patch, metav1.PatchOptions{})
	w.must(err)
}

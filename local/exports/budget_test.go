package exports

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	mcs "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"isthmus/clusterstore/cluster"
	"isthmus/clusterstore/follow"
	"isthmus/clusterstore/kube"
	"isthmus/federation"
	"isthmus/internal/apisim"
)

// TestBudget checks that exports count for at least the heap memory that they occupy.
func TestBudget(t *testing.T) {
	const services = 5000
	for name, tt := range map[string]struct {
		label  string // of each Service
		export bool   // whether each Service has a ServiceExport
	}{
		"labels":         {"mirror", false},
		"ServiceExports": {"app", true},
	} {
		t.Run(name, func(t *testing.T) {
			server := startServer(t)
			for i := range services {
				s := aService(fmt.Sprint("s", i), tt.label+"=1", "team=x", fmt.Sprint("app", i, "=x"))
				s.UID = types.UID(fmt.Sprintf("0f5d3c1e-6a0b-4c1d-9e8f-%012d", i))
				s.Annotations = map[string]string{"retry.linkerd.io/http": "5xx"}
				if err := server.Put(s); err != nil {
					t.Fatal(err)
				}
				if !tt.export {
					continue
				}
				export := new(unstructured.Unstructured)
				export.SetGroupVersionKind(mcs.SchemeGroupVersion.WithKind("ServiceExport"))
				export.SetNamespace(s.Namespace)
				export.SetName(s.Name)
				if err := server.Put(export); err != nil {
					t.Fatal(err)
				}
			}
			limit := follow.NewMemoryCap(56 << 20)
			before := heap()
			c := startCluster(t, server, newCatalog(true).hooks("east"), limit)
			awaitExports(t, c, services)
			took, counted := heap()-before, limit.Usage().Used
			runtime.KeepAlive(c)
			t.Logf("%d KiB, counted as %d KiB", took>>10, counted>>10)
			if took > counted {
				t.Errorf("%d KiB count as %d KiB", took>>10, counted>>10)
			}
		})
	}
}

// startServer starts an API server that is closed when the test ends.
func startServer(t *testing.T) *apisim.Server {
	t.Helper()
	server, err := apisim.Start("east", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	return server
}

// startCluster returns a synced linked cluster that runs until the test ends.
func startCluster(
	t *testing.T, server *apisim.Server, hooks cluster.ExportHooks, limit *follow.MemoryCap,
) *cluster.Cluster {
	t.Helper()
	client, err := kube.New("east", &rest.Config{Host: "http://" + server.Addr()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	hooks.Changed = func() {}
	c, err := cluster.New(cluster.Config{
		Name:    "east",
		Client:  client,
		Log:     zap.NewNop(),
		Changed: func(federation.ServiceID, time.Time) {},
		Memory:  limit,
		Exports: &hooks,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { c.Run(ctx) })
	t.Cleanup(func() {
		stop()
		running.Wait()
	})
	select {
	case <-c.Synced():
	case <-time.After(time.Minute):
		t.Fatalf("not synced: %+v", c.Health())
	}
	return c
}

// awaitExports waits until a cluster has n exports. A cluster can be synced before its exports are
// known.
func awaitExports(t *testing.T, c *cluster.Cluster, n int) {
	t.Helper()
	over := time.Now().Add(time.Minute)
	for {
		exports := c.Exports()
		if exports != nil && len(exports.List) == n {
			return
		}
		if time.Now().After(over) {
			t.Fatalf("exports %+v, want %d: %+v", exports, n, c.Health())
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// heap returns the size of the heap once garbage collections no longer change it.
func heap() int64 {
	const rounds, noise = 100, 1 << 10
	before := int64(math.MaxInt64)
	for range rounds {
		runtime.GC()
		runtime.Gosched()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		now := int64(m.HeapAlloc)
		if before-now < noise && now-before < noise {
			return now
		}
		before = now
	}
	return before
}

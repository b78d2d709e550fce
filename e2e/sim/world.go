package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"isthmus/e2e/harness"
	"isthmus/internal/adminapi"
	"isthmus/internal/apisim"
)

// world is the clusters with all that is in them. Only the steps change it, and what they do depends on the seed alone.
type world struct {
	cfg      Config
	flags    gatewayFlags
	rng      *rand.Rand
	clusters []*cluster // the first is the one that the gateway is local to
	services []string   // that clusters offer
	zones    map[string]string
	dir      string // of the gateway's kubeconfig; removed by close

	exports exporting

	written func(service string) // called after each change; empty: it may concern every service
	writes  int
	lagging time.Time // until then a fault may show that takes long to get over
	err     error     // mistakes in steps
}

// cluster is one cluster.
type cluster struct {
	objects
	name     string
	number   int
	api      *apisim.Server
	proxy    *harness.FaultProxy // through which the gateway reaches it
	fault    *fault              // what is wrong with it; nil: nothing
	shaken   bool                // something has been wrong since the last mark
	troubled bool                // and since the gateway last showed it as ready
	link     link
	made     int             // Pods and addresses so far
	tenant   *corev1.Service // of the local cluster: the tenant's federated one
	costly   bool            // the tenant has Servers in it that cost more than is accepted

	spreadUntil time.Time // a change of its cordon may take effect until then

	gateways []*played // that it can have; none of the local cluster
	probing  bool      // the gateway may not know which of them answer
}

func newWorld(cfg Config) (*world, error) {
	w := &world{
		cfg:     cfg,
		flags:   newFlags(cfg.Seed),
		zones:   map[string]string{"node-1": "zone-1", "node-2": "zone-2", "node-3": ""},
		written: func(string) {},
	}
	authority, err := apisim.NewAuthority()
	if err != nil {
		return nil, err
	}
	for i := range cfg.Clusters {
		c, err := newCluster(i, authority)
		if err != nil {
			return nil, errors.Join(err, w.close())
		}
		w.clusters = append(w.clusters, c)
	}
	for i := range cfg.Services {
		w.services = append(w.services, fmt.Sprintf("s%02d", i))
	}
	return w, nil
}

func newCluster(number int, authority *apisim.Authority) (*cluster, error) {
	c := &cluster{objects: newObjects(), name: fmt.Sprintf("c%03d", number), number: number}
	var err error
	if c.api, err = apisim.Start(c.name, authority); err != nil {
		return nil, err
	}
	if c.proxy, err = harness.StartFaultProxy(c.api.Addr()); err != nil {
		return nil, errors.Join(err, c.api.Close())
	}
	if number > 0 {
		if err := playGateways(c); err != nil {
			closeGateways(c)
			return nil, errors.Join(err, c.proxy.Close(), c.api.Close())
		}
	}
	return c, nil
}

func (w *world) close() error {
	errs := make([]error, len(w.clusters))
	var all sync.WaitGroup
	for i, c := range w.clusters {
		all.Go(func() {
			closeGateways(c)
			errs[i] = errors.Join(c.proxy.Close(), c.api.Close())
		})
	}
	all.Wait()
	if w.dir != "" {
		errs = append(errs, os.RemoveAll(w.dir))
	}
	return errors.Join(errs...)
}

func (w *world) named(name string) *cluster {
	for _, c := range w.clusters {
		if c.name == name {
			return c
		}
	}
	return nil
}

// linked reports whether the gateway must serve what the cluster offers.
func (c *cluster) linked() bool { return c != nil && (c.number == 0 || c.link.accepted != "") }

// put writes objects of a cluster that a service is made of; of all of them, if it is empty.
func (w *world) put(c *cluster, service string, list ...runtime.Object) {
	for _, o := range list {
		w.err = errors.Join(w.err, c.api.Put(o))
		c.set(o, true)
		w.writes++
		w.written(service)
	}
}

func (w *world) delete(c *cluster, service string, list ...runtime.Object) {
	for _, o := range list {
		w.err = errors.Join(w.err, c.api.Delete(o))
		c.set(o, false)
		w.writes++
		w.written(service)
	}
}

// pick returns one of the list, which is not empty.
func pick[T any](w *world, list []T) T { return list[w.rng.IntN(len(list))] }

// chance is true once in n times.
func (w *world) chance(n int) bool { return w.rng.IntN(n) == 0 }

// fill makes what there is at the beginning.
func (w *world) fill() {
	w.rng = rand.New(rand.NewPCG(w.cfg.Seed, 0))
	local := w.clusters[0]
	for _, c := range w.clusters {
		region := pick(w, regions)
		for _, node := range []string{"node-1", "node-2", "node-3"} {
			w.put(c, "", newNode(node, w.zones[node], region))
		}
		for _, s := range w.services {
			if w.chance(5) {
				continue
			}
			w.put(c, s, newService(s))
			if n := w.cfg.Endpoints; n > 0 {
				grow(w, c, s, 1+w.rng.IntN(2*n))
			}
		}
		if c.number > 0 {
			relink(w, c)
			fillGateways(w, c)
		}
	}
	for _, s := range w.services {
		w.put(local, s, anyPreference(w, federated(w, s)))
		for _, c := range mirrored(w, s) {
			w.put(local, s, mirror(s, c))
		}
	}
}

// startGateway runs a gateway that is local to the first cluster, with flags after those that all tests have.
func (w *world) startGateway(ctx context.Context, args ...string) (*harness.Replica, error) {
	local := w.clusters[0]
	text, err := local.api.Kubeconfig(local.proxy.Addr(), token(local))
	if err != nil {
		return nil, err
	}
	w.dir, err = os.MkdirTemp("", "isthmus-sim-")
	if err != nil {
		return nil, err
	}
	kubeconfig := filepath.Join(w.dir, "kubeconfig") // a gateway reads it once, at its start
	if err := os.WriteFile(kubeconfig, text, 0o600); err != nil {
		return nil, err
	}
	return harness.StartReplica(ctx, harness.ReplicaConfig{
		Binary: w.cfg.Gateway, Kubeconfig: kubeconfig, Output: w.cfg.Log,
		Args: append([]string{"-target-cluster-label=true"}, args...),
		Env:  []string{"ISTHMUS_TEST_LOOPBACK_GATEWAYS=true"}, // those that the simulator plays
	})
}

// ready returns why a cluster is not ready though it is linked.
func (c *cluster) ready(page adminapi.Clusters) error {
	if c.link.accepted == "" {
		return nil
	}
	state := "unknown"
	for _, x := range page.Clusters {
		if x.Cluster != c.name || x.State == "rejected" {
			continue
		}
		state = string(x.State)
		if c.link.good() && strings.Contains(strings.Join(x.Warnings, " "), "new credentials") {
			state = "not rotated"
		}
		if state == "ready" {
			return nil
		}
	}
	return fmt.Errorf("the gateway shows cluster %s as %s", c.name, state)
}

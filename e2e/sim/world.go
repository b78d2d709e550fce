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

// world holds the clusters with their objects. Only steps change it, and the steps depend on
// nothing but the seed.
type world struct {
	cfg      Config
	flags    gatewayFlags
	rng      *rand.Rand
	clusters []*cluster // the first is the local cluster
	services []string   // services that clusters have in common
	zones    map[string]string
	dir      string // directory of Isthmus' kubeconfig; close removes it

	exports exporting

	written func(service string) // called after each write; if service is empty, the write may concern every service
	writes  int
	lagging time.Time // until then, Isthmus may still back off after a fault
	err     error     // errors of steps
}

// cluster is a simulated cluster.
type cluster struct {
	objects
	name     string
	number   int
	api      *apisim.Server
	proxy    *harness.FaultProxy // Isthmus reaches the cluster through it
	fault    *fault              // the current fault, or nil
	shaken   bool                // there was a fault since the last mark
	troubled bool                // there was a fault since Isthmus last showed the cluster as ready
	link     link
	made     int             // number of Pods and addresses so far
	tenant   *corev1.Service // the tenant's federated Service; only set for the local cluster
	costly   bool            // the tenant has Servers in it that exceed the limit on selector cost

	spreadUntil time.Time // until then, a change of its cordon may not be complete

	gateways []*played // Linkerd gateways that it can have; the local cluster has none
	probing  bool      // Isthmus may not know yet which gateways answer
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

// linked reports whether Isthmus must serve the endpoints of the cluster.
func (c *cluster) linked() bool { return c != nil && (c.number == 0 || c.link.accepted != "") }

// put writes objects of a cluster that belong to a service. If service is empty, they concern all
// services.
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

// pick returns a random element of the list, which must not be empty.
func pick[T any](w *world, list []T) T { return list[w.rng.IntN(len(list))] }

// chance returns true with a probability of 1/n.
func (w *world) chance(n int) bool { return w.rng.IntN(n) == 0 }

// fill creates the initial objects.
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

// startGateway starts Isthmus in the first cluster, with args in addition to the flags that all
// tests use.
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
	kubeconfig := filepath.Join(w.dir, "kubeconfig") // Isthmus reads it once, at its start
	if err := os.WriteFile(kubeconfig, text, 0o600); err != nil {
		return nil, err
	}
	return harness.StartReplica(ctx, harness.ReplicaConfig{
		Binary: w.cfg.Gateway, Kubeconfig: kubeconfig, Output: w.cfg.Log,
		Args: append([]string{"-target-cluster-label=true"}, args...),
		Env:  []string{"ISTHMUS_TEST_LOOPBACK_GATEWAYS=true"}, // allows the Linkerd gateways of the simulator
	})
}

// ready returns an error if a linked cluster is not ready.
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
	return fmt.Errorf("cluster %s is shown as %s", c.name, state)
}

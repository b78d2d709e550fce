package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"isthmus/e2e/harness"
)

// The versions are prefixes of the replicas' names.
const (
	older = "previous"
	newer = "new"
)

// replicas contains the Isthmus replicas in west. All methods are safe for concurrent use.
type replicas struct {
	of       *world
	binaries map[string]string // by version

	mu      sync.Mutex
	started int
	running map[string]*harness.Replica
	logs    []io.Closer
}

func newReplicas(of *world, binaries map[string]string) *replicas {
	return &replicas{of: of, binaries: binaries, running: make(map[string]*harness.Replica)}
}

func (r *replicas) start(ctx context.Context, version string) error {
	r.mu.Lock()
	r.started++
	name := fmt.Sprint(version, "-", r.started)
	r.mu.Unlock()
	log, err := os.Create(filepath.Join(out, name+".log"))
	if err != nil {
		return err
	}
	flags := []string{"-shutdown-delay=1s", "-drain=2s"}
	if r.of.exports {
		flags = append(flags, "-exports=on", "-cluster-name=west")
	}
	g, err := harness.StartReplica(ctx, harness.ReplicaConfig{
		Binary: r.binaries[version], Kubeconfig: r.of.kubeconfig, Hostname: name, Output: log, Args: flags,
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	r.logs = append(r.logs, log)
	if err != nil {
		return fmt.Errorf("replica %s: %w", name, err)
	}
	r.running[name] = g
	return nil
}

// stop stops all replicas of a version like Kubernetes does: proxies no longer find them, and they
// receive SIGTERM.
func (r *replicas) stop(version string) (err error) {
	r.mu.Lock()
	var ending []*harness.Replica
	for name, g := range r.running {
		if strings.HasPrefix(name, version) {
			ending = append(ending, g)
			delete(r.running, name)
		}
	}
	r.mu.Unlock()
	for _, g := range ending {
		err = errors.Join(err, g.Stop())
	}
	return err
}

func (r *replicas) addresses() (list []string) {
	for _, g := range r.all() {
		list = append(list, g.Addr())
	}
	return list
}

func (r *replicas) all() []*harness.Replica {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Collect(maps.Values(r.running))
}

func (r *replicas) end() error {
	err := errors.Join(r.stop(older), r.stop(newer))
	for _, log := range r.logs {
		err = errors.Join(err, log.Close())
	}
	return err
}

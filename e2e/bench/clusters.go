package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"isthmus/e2e/bench/world"
	"isthmus/e2e/cluster"
)

// StartClusters starts new clusters, fills them, and returns their kubeconfigs and what ends them.
func StartClusters(ctx context.Context, cfg Config) (kubeconfigs []string, stop func() error, err error) {
	began := time.Now()
	unlock, err := lock(cfg.Dir)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, unlock())
		}
	}()
	var configs []cluster.Config
	for _, name := range world.Names {
		dir := ClusterDir(cfg.Dir, name)
		if err := os.RemoveAll(dir); err != nil { // what another run has left
			return nil, nil, err
		}
		configs = append(configs, cluster.Config{Name: name, Dir: dir, Binary: cfg.Controlplane, Controllers: []string{"namespace", "serviceaccount"}})
	}
	servers, err := cluster.StartAll(ctx, configs...)
	if err != nil {
		return nil, nil, err
	}
	end := func() error {
		var errs []error
		for _, s := range servers {
			errs = append(errs, s.Close())
		}
		return errors.Join(errs...)
	}
	for _, s := range servers {
		kubeconfigs = append(kubeconfigs, s.Kubeconfig())
	}
	w, err := world.New(kubeconfigs)
	if err == nil {
		err = w.Fill(ctx, cfg.Scale.World)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("clusters: %w", errors.Join(err, end()))
	}
	s := cfg.Scale.World
	cfg.Log("3 clusters of %d Pods and %d Services each, filled in %.0f s", s.Pods(), s.Web+s.App, time.Since(began).Seconds())
	return kubeconfigs, func() error { return errors.Join(end(), unlock()) }, nil
}

// lock keeps others from starting clusters in the same folder, which would remove these.
func lock(dir string) (unlock func() error, err error) {
	f, err := os.OpenFile(filepath.Join(dir, "clusters.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("clusters are running in %s already: %w", dir, err), f.Close())
	}
	return f.Close, nil
}

// ClusterDir is where a cluster has its state, its kubeconfig among it.
func ClusterDir(dir, name string) string { return filepath.Join(dir, "clusters", name) }

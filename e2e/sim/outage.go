package sim

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"

	"isthmus/e2e/harness"
	"isthmus/e2e/harness/kube"
)

// Labels of the ConfigMaps that store the copy of a lost cluster.
const (
	copiedCluster    = "isthmus.io/cache-cluster"
	copiedGeneration = "isthmus.io/cache-generation"
)

// outageEvery is the number of rounds, on average, after which a replica is replaced during an outage.
const outageEvery = 3

// outage makes a linked cluster unreachable, and replaces the replica once a copy of the cluster is
// stored. The clients must keep all endpoints of the cluster, before and after the cluster returns. An
// outage only follows a round after which all clusters were ready.
func outage(ctx context.Context, s *simulation, round int) error {
	w := s.world
	lost := pick(w, w.clusters[1:])
	if !w.chance(outageEvery) || !w.cfg.Faults.MatchString(refuse) || len(away(w)) > 0 || !lost.linked() {
		return nil
	}
	for _, c := range w.clusters[1:] {
		if c.troubled || !c.link.good() { // a new replica does not know the earlier credentials
			return nil
		}
	}
	before, err := copies(w, lost)
	if err != nil {
		return err
	}
	lost.fault = &fault{refuse, true}
	lost.shaken = true
	trouble(w, lost)
	if err := lost.proxy.Set(harness.FaultMode{Refuse: true}); err != nil {
		return err
	}
	lost.proxy.ResetAll()
	s.story.note("", lost.name+": outage, and the gateway is replaced")
	if err := harness.Poll(ctx, time.Minute, 100*time.Millisecond, func() error {
		now, err := copies(w, lost)
		for generation := range now {
			if !before[generation] {
				return err
			}
		}
		return errors.Join(err, fmt.Errorf("cluster %s has no new copy", lost.name))
	}); err != nil {
		return failure(s, round, nil, err)
	}
	s.ready.suspend(true)
	if err := s.gateway.Signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-s.gateway.Exited()
	if err := s.gateway.Restart(ctx); err != nil {
		return err
	}
	s.ready.suspend(false)
	s.report.Steps["replace the gateway"]++
	if err := settle(ctx, s, round); err != nil {
		return err
	}
	s.story.note("", lost.name+": "+heal(w, lost))
	return settle(ctx, s, round)
}

// copies returns the generations of the copies of a cluster.
func copies(w *world, c *cluster) (map[string]bool, error) {
	list, err := w.clusters[0].api.Objects("configmaps", kube.LinkNamespace)
	generations := make(map[string]bool)
	for _, o := range list {
		if m := o.(*corev1.ConfigMap); m.Labels[copiedCluster] == c.name {
			generations[m.Labels[copiedGeneration]] = true
		}
	}
	return generations, err
}

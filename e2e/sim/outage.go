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

// These are labels of the ConfigMaps that store a copy of a stale cluster.
const (
	copiedCluster    = "isthmus.io/cache-cluster"
	copiedGeneration = "isthmus.io/cache-generation"
)

// restarted is the name of an outage in Report.Steps.
const restarted = "restart Isthmus"

// outageEvery is the average number of rounds between outages.
const outageEvery = 6

// outage makes a linked cluster unreachable, and restarts Isthmus once it has stored a copy of the
// cluster. Clients must keep all endpoints of the cluster, before and after the cluster returns.
// Before an outage, all other faults end, and all links get credentials that work.
func outage(ctx context.Context, s *simulation, round int) error {
	w := s.world
	if !w.chance(outageEvery) || !w.cfg.Faults.MatchString(refuse) {
		return nil
	}
	var linked []*cluster
	for _, c := range w.clusters {
		if text := heal(w, c); text != "" {
			s.story.note("", c.name+": "+text)
		}
		if c.number == 0 || !c.linked() {
			continue
		}
		linked = append(linked, c)
		if !c.link.good() { // a restarted Isthmus does not know the previous credentials
			s.story.note("", c.name+": "+rotate(w, c))
		}
	}
	if len(linked) == 0 {
		return nil
	}
	lost := pick(w, linked)
	if err := harness.Pause(ctx, time.Until(w.lagging)); err != nil {
		return err
	}
	if err := settle(ctx, s, round); err != nil {
		return err
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
	s.story.note("", lost.name+": outage, and Isthmus is restarted")
	if err := harness.Poll(ctx, 2*time.Minute, 100*time.Millisecond, func() error {
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
	s.report.Steps[restarted]++
	if err := settle(ctx, s, round); err != nil {
		return err
	}
	s.story.note("", lost.name+": "+heal(w, lost))
	return settle(ctx, s, round)
}

// copies returns the generations of the stored copies of a cluster.
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

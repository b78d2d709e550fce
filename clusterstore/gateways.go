package clusterstore

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"isthmus/clusterstore/cluster"
	"isthmus/clusterstore/gateway"
)

// linkGateways holds the Linkerd gateways of a link to a cluster on another network. Only the
// link's goroutine writes to a linkGateways.
type linkGateways struct {
	tracker *gateway.Tracker // nil if Isthmus can reach the cluster's Pods directly
	targets []gateway.Target
	named   bool               // the link Secret specifies at least a part of the targets
	problem []string           // why targets are missing
	began   time.Time          // when the tracker started
	cancel  context.CancelFunc // set together with the tracker field
	done    chan struct{}      // set together with the tracker field
	source  *gateway.Source    // source in the table; nil if there is none yet
	dead    map[string]bool    // addresses that were logged as dead
}

func (g *linkGateways) follow(r *linkSettings, from *runningCluster, routable func(netip.Addr) bool) {
	found, more := from.cluster.Gateways()
	targets, problem := r.targets(found, more, routable)
	named := r.gateways != nil || r.identity != ""
	switch {
	case !cluster.IsHostname(from.creds.domain):
		targets = nil
		problem = []string{
			fmt.Sprintf(
				"annotation %s: %s is not a DNS domain, so Linkerd gateways cannot resolve the names of Services",
				ClusterDomainAnnotation,
				quote(from.creds.domain),
			),
		}
	case len(targets) == 0 && r.unread && g.named:
		targets = slices.Clone(g.targets)
		named = true
		problem = []string{
			"the link Secret's annotations for Linkerd gateways are invalid; " +
				"the gateways from the last valid annotations stay in use",
		}
	}
	for i := range targets {
		targets[i].Within = &from.creds.ranges
	}
	g.problem = problem
	g.named = named && len(targets) > 0
	if g.targets == nil || !slices.Equal(g.targets, targets) {
		g.targets = slices.Concat([]gateway.Target{}, targets)
		g.tracker.Set(targets)
	}
}

func (g *linkGateways) start(ctx context.Context, cfg gateway.Config) {
	ctx, g.cancel = context.WithCancel(ctx)
	t := gateway.New(cfg)
	done := make(chan struct{})
	g.tracker = t
	g.done = done
	g.began = time.Now()
	go func() { defer close(done); t.Run(ctx) }()
}

// linkGateways.end stops the tracker, and reports whether it was running.
func (g *linkGateways) end() bool {
	if g.tracker == nil {
		return false
	}
	g.cancel()
	<-g.done
	*g = linkGateways{}
	return true
}

func (g *linkGateways) settled() bool { return g.tracker == nil || closed(g.tracker.Settled()) }

// linkGateways.late reports whether the first attempt to resolve names is still running after
// namesTimeout.
func (g *linkGateways) late() bool { return !g.settled() && time.Since(g.began) >= namesTimeout }

// untilLate returns a channel that receives a value once namesTimeout has elapsed. The channel is
// nil if the first attempt to resolve names has finished, or if namesTimeout has already elapsed.
func (g *linkGateways) untilLate() <-chan time.Time {
	if g.settled() || g.late() {
		return nil
	}
	return time.After(time.Until(g.began.Add(namesTimeout)))
}

// allDead reports whether all gateways of the cluster are dead. If Isthmus does not use gateways to
// reach the cluster, the result is false.
func (g *linkGateways) allDead() bool {
	return g.tracker != nil && gateway.AllDead(g.tracker.Addresses())
}

// namesTimeout limits how long unresolved gateway names may delay the readiness of a synced
// cluster.
const namesTimeout = time.Second

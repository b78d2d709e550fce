package clusterstore

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"isthmus/clusterstore/cluster"
	"isthmus/clusterstore/gateway"
)

// linkGateways is how a link's cluster is reached if it is on another network than the
// gateway. Its link's goroutine writes it.
type linkGateways struct {
	tracker *gateway.Tracker   // nil: the cluster's Pods are reached themselves
	targets []gateway.Target   // that the tracker has
	named   bool               // the link Secret has a part in targets
	problem []string           // why there are none, or not all
	began   time.Time          // with tracker
	cancel  context.CancelFunc // with tracker
	done    chan struct{}      // with tracker
	source  *gateway.Source    // that the table has; nil: none yet
	dead    map[string]bool    // addresses, as they were logged
}

// follow makes the tracker follow what leads to the cluster by these settings.
func (g *linkGateways) follow(r *linkSettings, from *runningCluster, routable func(netip.Addr) bool) {
	found, more := from.cluster.Gateways()
	targets, problem := r.targets(found, more, routable)
	named := r.gateways != nil || r.identity != ""
	switch {
	case !cluster.IsHostname(from.creds.domain):
		targets, problem = nil, []string{
			fmt.Sprintf(
				"annotation %s: %s is no DNS domain: Linkerd gateways find Services by their names in it",
				ClusterDomainAnnotation,
				quote(from.creds.domain),
			),
		}
	case len(targets) == 0 && r.unread && g.named:
		targets, named = slices.Clone(g.targets), true
		problem = []string{
			"the link Secret's annotations for Linkerd gateways can't be read; the gateways that they named before " +
				"stay in use",
		}
	}
	for i := range targets {
		targets[i].Within = &from.creds.ranges
	}
	g.problem, g.named = problem, named && len(targets) > 0
	if g.targets == nil || !slices.Equal(g.targets, targets) {
		g.targets = slices.Concat([]gateway.Target{}, targets)
		g.tracker.Set(targets)
	}
}

func (g *linkGateways) start(ctx context.Context, cfg gateway.Config) {
	ctx, g.cancel = context.WithCancel(ctx)
	t, done := gateway.New(cfg), make(chan struct{})
	g.tracker, g.done, g.began = t, done, time.Now()
	go func() { defer close(done); t.Run(ctx) }()
}

// end ends the tracker, and reports whether there was one.
func (g *linkGateways) end() bool {
	if g.tracker == nil {
		return false
	}
	g.cancel()
	<-g.done
	*g = linkGateways{}
	return true
}

// settled reports whether it is known how the cluster is reached.
func (g *linkGateways) settled() bool { return g.tracker == nil || closed(g.tracker.Settled()) }

// late reports whether it has taken namesTake to find out how the cluster is reached.
func (g *linkGateways) late() bool { return !g.settled() && time.Since(g.began) >= namesTake }

// untilLate returns a channel that gets something when late will be true; nil: it is, or will not be.
func (g *linkGateways) untilLate() <-chan time.Time {
	if g.settled() || g.late() {
		return nil
	}
	return time.After(time.Until(g.began.Add(namesTake)))
}

// allDead reports whether the cluster is reached through gateways, and none answers.
func (g *linkGateways) allDead() bool {
	return g.tracker != nil && gateway.AllDead(g.tracker.Addresses())
}

// targets returns what leads to a cluster that has these gateways, and what is wrong.
func (r *linkSettings) targets(
	found []*cluster.Gateway, more int, routable func(netip.Addr) bool,
) (list []gateway.Target, problem []string) {
	switch {
	case r.gateways != nil:
		return r.namedTargets(found, routable)
	case len(found) == 0:
		return nil, []string{
			"the cluster is on another network, and has no Linkerd gateway: no Service there has the annotation " +
				"mirror.linkerd.io/multicluster-gateway: \"true\"",
		}
	}
	for _, g := range found {
		g := *g
		g.Identity = cmp.Or(r.identity, g.Identity)
		list = append(list, gateway.Targets([]*cluster.Gateway{&g})...)
		if why := g.Problem(); why != "" {
			problem = append(problem, fmt.Sprintf("Linkerd gateway %v: %s", g.Service, why))
		}
	}
	if more > 0 {
		problem = append(problem, fmt.Sprintf("the cluster has %d gateway Services more than are used", more))
	}
	return list, problem
}

// namedTargets returns what the link Secret names, and what is wrong.
func (r *linkSettings) namedTargets(
	found []*cluster.Gateway, routable func(netip.Addr) bool,
) (list []gateway.Target, problem []string) {
	identity := r.identity
	for _, g := range found {
		identity = cmp.Or(identity, g.Identity)
	}
	if identity == "" {
		return nil, []string{
			"annotation " + gatewayAddressesAnnotation + " needs " + gatewayIdentityAnnotation +
				": no Service of the cluster has the gateways' identity",
		}
	}
	for _, x := range r.gateways {
		if x.IP.IsValid() && !routable(x.IP) {
			problem = append(problem, fmt.Sprintf(
				"annotation %s: %v could not be another host's address, and is not used",
				gatewayAddressesAnnotation,
				x.IP,
			))
			continue
		}
		x.Identity = identity
		x.Probe = probeFor(found, x.Port)
		list = append(list, x)
	}
	return list, problem
}

// probeFor returns how to probe an address that the link Secret names with this port. The gateway Service that has the
// port decides. The zero Probe means that the address is not probed: either no Service has the port, or several
// Services have the port and differ in their probes. A wrong probe would take a gateway that is alive for dead.
func probeFor(found []*cluster.Gateway, port uint16) cluster.Probe {
	for _, g := range found {
		if g.NodePort == port { // no two Services of a cluster have the same node port
			return g.NodeProbe
		}
	}
	var first *cluster.Gateway
	for _, g := range found {
		switch {
		case g.Port != port:
		case first == nil:
			first = g
		case first.Probe.Port != g.Probe.Port || first.Probe.Path != g.Probe.Path:
			return cluster.Probe{}
		}
	}
	if first == nil {
		return cluster.Probe{}
	}
	return first.Probe
}

// namesTake is how long names of gateways may keep the gateway from being ready, once their cluster has synced.
const namesTake = time.Second

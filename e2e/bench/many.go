package bench

import (
	"fmt"
	"math/rand/v2"
	"time"

	"isthmus/e2e/bench/fleet"
	"isthmus/e2e/bench/load"
	"isthmus/e2e/harness"
	"isthmus/e2e/harness/kube"
)

// ManyScale is how much there is with many clusters.
type ManyScale struct {
	Linked    int // clusters
	Services  int // of each cluster
	Endpoints int // of each of these
	Spread    int // clusters that have the same Services: so many members a federated Service has
	Streams   int
	Conns     int
	Rates     Rates
	Over      time.Duration // in which changes are measured
}

// Rates are how many changes there are in each cluster a second.
type Rates struct{ Node, Endpoint, Label float64 }

// manyClusters lets hundreds of clusters change as they do, under open streams. There is no floor:
// it follows no clusters.
func manyClusters(s Scale) Trial {
	return Trial{
		Name: "clusters", Claims: sizing, repeats: 1, fleet: s.Many.fleet,
		Figures: []Figure{
			{Key: "share", Label: "CPU", Unit: "%", Max: 50},
			{Key: "memory", Label: "peak resident memory", Unit: "MB", Max: 600},
			{Key: "heap", Label: "heap after a collection", Unit: "MB"},
			{Key: "p99", Label: "99th percentile of the delay to the last stream", Unit: "ms", Max: 100},
		},
		do: func(r *run) {
			at := r.start("-enable-pprof")
			at.settled()
			m := s.Many.meter(at)
			m.resetPeak()
			delays := m.happen(s.Many)
			r.set("memory", megabytes(at.peak()))
			r.set("p99", percentile(delays, 99))
			r.set("heap", megabytes(float64(must(harness.HeapInUse(r.ctx, at.admin)))))
		},
	}
}

func (c ManyScale) fleet(int) fleet.Config {
	return fleet.Config{
		Linked:    c.Linked,
		Services:  c.Services,
		Slices:    1,
		Endpoints: c.Endpoints,
		Spread:    c.Spread,
		TLS:       true,
	}
}

// meter opens all streams, spread over all federated Services, and measures once what that took is over.
func (c ManyScale) meter(at *server) *meter {
	streams := at.open(spread(c.Streams, c.Conns, c.Linked/c.Spread*c.Services, federated))
	at.pause(aftermath)
	at.settle(streams)
	return at.meter(streams)
}

const (
	manySeed = 19
	// manyPause is how long the same endpoint or Pod is left alone: what changes and is undone
	// before it is sent is not sent.
	manyPause = time.Second
)

// manyChanges is what happens in many clusters: the same in every run, at times as they come by chance.
type manyChanges struct {
	ManyScale
	run  *run
	rand *rand.Rand

	count   int                    // of all changes
	seen    map[string][]time.Time // those that streams are sent, by authority: when the API server had taken each
	last    map[string]time.Time   // when an endpoint or Pod was last changed
	changed map[string]bool        // Pods that have another label than at first
}

// make makes changes for as long as the scale has it.
func (m *manyChanges) make() {
	each := m.Rates.Node + m.Rates.Endpoint + m.Rates.Label
	next := time.Now()
	for end := next.Add(m.Over); next.Before(end); m.count++ {
		next = next.Add(time.Duration(m.rand.ExpFloat64() / (each * float64(m.Linked)) * float64(time.Second)))
		m.run.pause(time.Until(next))
		cluster, kind := 1+m.rand.IntN(m.Linked), m.rand.Float64()*each
		switch {
		case kind < m.Rates.Node:
			m.node(cluster)
		case kind < m.Rates.Node+m.Rates.Endpoint:
			m.endpoint(cluster)
		default:
			m.label(cluster)
		}
	}
}

// node changes a label of a Node that no endpoint depends on.
func (m *manyChanges) node(cluster int) {
	node := kube.Node("node-1", "zone-1")
	node.Labels["seen"] = fmt.Sprint(m.count)
	check(m.run.fleet.Server(cluster).Put(node))
}

// endpoint makes an endpoint not ready, or ready again.
func (m *manyChanges) endpoint(cluster int) {
	service := m.draw("endpoint", cluster)
	check(m.run.fleet.Flip(cluster, fleet.Service(m.number(cluster, service))))
	m.sent(cluster, service)
}

// label gives the first Pod of a Service's slice another template, as proxies see by a label, or
// its first one again. It is not the Pod whose endpoint changes.
func (m *manyChanges) label(cluster int) {
	service := m.draw("label", cluster)
	pod := fleet.Pod(service * m.Endpoints)
	key := fmt.Sprint(cluster, pod.Name)
	if m.changed[key] = !m.changed[key]; m.changed[key] {
		pod.Labels[kube.HashLabel] = "changed"
	}
	check(m.run.fleet.Server(cluster).Put(pod))
	m.sent(cluster, service)
}

// draw returns which of a cluster's Services is changed: none that just has been.
func (m *manyChanges) draw(what string, cluster int) int {
	for {
		i, now := m.rand.IntN(m.Services), time.Now()
		key := fmt.Sprint(what, cluster, "/", i)
		if now.Sub(m.last[key]) > manyPause {
			m.last[key] = now
			return i
		}
	}
}

// sent notes a change that streams are sent.
func (m *manyChanges) sent(cluster, service int) {
	authority := federated(m.number(cluster, service))
	m.seen[authority] = append(m.seen[authority], time.Now())
}

// number returns the number, among all, of a cluster's Service.
func (m *manyChanges) number(cluster, service int) int {
	return (cluster-1)/m.Spread*m.ManyScale.Services + service
}

// maxUnsent is how many changes in a hundred may come to nothing, since they were undone before they could be sent.
const maxUnsent = 5

// nextDelays returns, in order, how long after each change the last stream of its service had its
// next message. Changes of one service that follow each other closely may be in one message, or in
// none.
func nextDelays(streams *load.Load, changed map[string][]time.Time) ([]float64, error) {
	last, missing := map[string][]float64{}, map[string]int{}
	streams.Arrivals(func(to load.Target, at []time.Time) {
		changes := changed[to.Authority]
		delays := last[to.Authority]
		if delays == nil {
			delays = make([]float64, len(changes))
			last[to.Authority] = delays
		}
		for i, change := range changes {
			for len(at) > 0 && !at[0].After(change) {
				at = at[1:]
			}
			if len(at) == 0 {
				missing[to.Authority] = max(missing[to.Authority], len(changes)-i)
				return
			}
			delays[i] = max(delays[i], milliseconds(at[0].Sub(change)))
		}
	})
	var all []float64
	unsent := 0
	for authority, delays := range last {
		all = append(all, delays[:len(delays)-missing[authority]]...)
		unsent += missing[authority]
	}
	if n := len(all) + unsent; len(all) == 0 || 100*unsent > maxUnsent*n {
		return nil, fmt.Errorf("after %d of %d changes no message has come", unsent, n)
	}
	return sorted(all), nil
}

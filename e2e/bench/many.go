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

// ManyScale is the size and the rate of changes for many clusters.
type ManyScale struct {
	Linked    int // number of linked clusters
	Services  int // Services per cluster
	Endpoints int // endpoints per Service and cluster
	Spread    int // number of clusters with the same Services, and thus of members per federated Service
	Streams   int
	Conns     int
	Rates     Rates
	Over      time.Duration // duration of the changes
}

// Rates are the changes per second in each cluster.
type Rates struct{ Node, Endpoint, Label float64 }

// manyClusters returns a trial with open streams in which hundreds of clusters change like real
// ones. There is no floor, because the floor does not watch clusters.
func manyClusters(s Scale) Trial {
	return Trial{
		Name: "clusters", Claims: sizing, repeats: 1, fleet: s.Many.fleet,
		Figures: []Figure{
			{Key: "share", Label: "CPU", Unit: "%", Max: 50},
			{Key: "memory", Label: "peak resident memory", Unit: "MB", Max: 600},
			{Key: "heap", Label: "heap after a collection", Unit: "MB"},
			{Key: "p99", Label: "99th percentile of the delay until the last stream is updated", Unit: "ms", Max: 100},
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

// meter opens all streams, spread over all federated Services. It starts the measurement after the
// cost of opening has settled.
func (c ManyScale) meter(at *server) *meter {
	streams := at.open(spread(c.Streams, c.Conns, c.Linked/c.Spread*c.Services, federated))
	at.pause(aftermath)
	at.settle(streams)
	return at.meter(streams)
}

const (
	manySeed = 19
	// manyPause is the minimum time between changes to the same endpoint or Pod. A change that is
	// undone too soon would not be sent.
	manyPause = time.Second
)

// manyChanges makes random changes in many clusters. Every run makes the same changes.
type manyChanges struct {
	ManyScale
	run  *run
	rand *rand.Rand

	count   int                    // number of all changes
	seen    map[string][]time.Time // changes that streams receive, by authority: the time after each write
	last    map[string]time.Time   // time of the last change to each endpoint or Pod
	changed map[string]bool        // Pods with a changed label
}

// make makes random changes for the duration in ManyScale.Over.
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

// node changes a label of a Node. The label has no effect on endpoints.
func (m *manyChanges) node(cluster int) {
	node := kube.Node("node-1", "zone-1")
	node.Labels["seen"] = fmt.Sprint(m.count)
	check(m.run.fleet.Server(cluster).Put(node))
}

func (m *manyChanges) endpoint(cluster int) {
	service := m.draw("endpoint", cluster)
	check(m.run.fleet.Flip(cluster, fleet.Service(m.number(cluster, service))))
	m.sent(cluster, service)
}

// label changes or restores the template hash of a Service's first Pod, which proxies receive as a
// label. The endpoint method changes another Pod.
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

// draw returns a random Service of a cluster that has not changed recently.
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

func (m *manyChanges) sent(cluster, service int) {
	authority := federated(m.number(cluster, service))
	m.seen[authority] = append(m.seen[authority], time.Now())
}

// number returns the position of a cluster's Service among all Services.
func (m *manyChanges) number(cluster, service int) int {
	return (cluster-1)/m.Spread*m.ManyScale.Services + service
}

// maxUnsent is the accepted percentage of changes that are undone before they are sent.
const maxUnsent = 5

// nextDelays returns sorted delays, one per change: the time until the last stream of the service
// received its next message. A single message can contain several changes to a service, and changes
// that undo each other can cause no message.
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
		return nil, fmt.Errorf("no message received after %d of %d changes", unsent, n)
	}
	return sorted(all), nil
}

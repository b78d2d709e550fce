package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"isthmus/e2e/bench/fleet"
	"isthmus/e2e/object"
	"isthmus/e2e/poll"
)

const (
	manySeed = 19
	// manyPause is how long the same endpoint or Pod is left alone: what changes and is undone before it is sent is not sent.
	manyPause = time.Second
)

// manyChanges is what happens in many clusters: the same in every run, at times as they come by chance.
type manyChanges struct {
	scale ManyScale
	fleet *fleet.Fleet
	rand  *rand.Rand

	count int                    // of all changes
	seen  map[string][]time.Time // those that streams are sent, by authority: when the API server had taken each
	last  map[string]time.Time   // when an endpoint or Pod was last changed
	turns turns
}

func newManyChanges(f *fleet.Fleet, s ManyScale) *manyChanges {
	return &manyChanges{
		scale: s, fleet: f, rand: rand.New(rand.NewPCG(manySeed, manySeed)),
		seen: map[string][]time.Time{}, last: map[string]time.Time{},
	}
}

// run makes changes for as long as the scale has it.
func (m *manyChanges) run(ctx context.Context) error {
	r := m.scale.Rates
	each := r.Node + r.Endpoint + r.Label
	next := time.Now()
	for end := next.Add(m.scale.Over); next.Before(end); {
		next = next.Add(time.Duration(m.rand.ExpFloat64() / (each * float64(m.scale.Linked)) * float64(time.Second)))
		if err := poll.Pause(ctx, time.Until(next)); err != nil {
			return err
		}
		cluster, kind := 1+m.rand.IntN(m.scale.Linked), m.rand.Float64()*each
		var err error
		switch {
		case kind < r.Node:
			err = m.node(cluster)
		case kind < r.Node+r.Endpoint:
			err = m.endpoint(cluster)
		default:
			err = m.label(cluster)
		}
		if err != nil {
			return err
		}
		m.count++
	}
	return nil
}

// node changes a label of a Node that no endpoint depends on.
func (m *manyChanges) node(cluster int) error {
	node := object.Node("node-1", "zone-1")
	node.Labels["seen"] = fmt.Sprint(m.count)
	return m.fleet.Server(cluster).Put(node)
}

// endpoint makes an endpoint not ready, or ready again.
func (m *manyChanges) endpoint(cluster int) error {
	service := m.draw("endpoint", cluster, m.scale.Services)
	name, _ := fleet.Service(m.number(cluster, service), false)
	err := m.fleet.Flip(cluster, name)
	m.sent(cluster, service)
	return err
}

// label gives the first Pod of a Service's slice another template, as proxies see by a label. It is not the Pod whose
// endpoint changes.
func (m *manyChanges) label(cluster int) error {
	service := m.draw("label", cluster, m.scale.Services)
	pod := fleet.Pod(service * m.scale.Endpoints)
	if m.turns.next(fmt.Sprint(cluster, pod.Name)) == 0 {
		pod.Labels[object.HashLabel] = "changed"
	}
	err := m.fleet.Server(cluster).Put(pod)
	m.sent(cluster, service)
	return err
}

// draw returns which of a cluster's Services is changed: none that just has been.
func (m *manyChanges) draw(what string, cluster, services int) int {
	for {
		i, now := m.rand.IntN(services), time.Now()
		key := fmt.Sprint(what, cluster, "/", i)
		if now.Sub(m.last[key]) > manyPause {
			m.last[key] = now
			return i
		}
	}
}

// sent notes a change that streams are sent.
func (m *manyChanges) sent(cluster, service int) {
	_, authority := fleet.Service(m.number(cluster, service), true)
	m.seen[authority] = append(m.seen[authority], time.Now())
}

// number returns the number, among all, of a cluster's Service.
func (m *manyChanges) number(cluster, service int) int {
	return (cluster-1)/m.scale.Spread*m.scale.Services + service
}

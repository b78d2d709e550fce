package bench

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"isthmus/e2e/bench/fleet"
	"isthmus/e2e/bench/load"
)

// meter measures, since a moment, what streams are sent and what that costs the server.
type meter struct {
	*server
	streams *load.Load
	began   time.Time

	cpuBefore                   time.Duration
	messagesBefore, bytesBefore int
}

// expect returns how many messages have come since the meter began. Other than so many end the run.
func (m *meter) expect(messages int) float64 {
	got := m.messages()
	if got != messages {
		check(fmt.Errorf("%d messages have come, not %d: they can't be matched with changes", got, messages))
	}
	if got == 0 {
		check(errors.New("no message has come"))
	}
	return float64(got)
}

// flip makes a change that all streams are sent, again and again. It returns the processor time of all, how
// many updates were delivered, and how long the last stream waited for each change, in milliseconds.
func (m *meter) flip(c change, times int) (cpu time.Duration, updates float64, lasts []float64) {
	for range times {
		m.pause(flipEvery)
		messages := m.streams.Received() / m.streams.Streams() // that each has had
		changed := m.change(c)
		check(m.streams.Await(m.ctx, messages+1))
		lasts = append(lasts, milliseconds(latest(m.streams).Sub(changed)))
	}
	m.pause(flipEvery)
	cpu = m.spent()
	return cpu, m.expect(times * m.streams.Streams()), lasts
}

// rolled sets what streams have been sent of a restart that is over, and for which so many bytes
// would have been enough.
func (m *meter) rolled(over time.Time, least int) {
	streams := float64(m.streams.Streams())
	m.set("late", milliseconds(latest(m.streams).Sub(over)))
	m.set("ratio", m.bytes()/streams/float64(least))
	m.set("messages", float64(m.messages())/streams)
}

// roll makes all steps of the restart, and returns when the last endpoint was replaced.
func (m *meter) roll(rolling *fleet.Rolling, within time.Duration) (over time.Time) {
	began, every := time.Now(), within/time.Duration(rolling.Endpoints())
	for i := 0; ; i++ {
		m.pause(time.Until(began.Add(time.Duration(i) * every)))
		replaced, done, err := rolling.Step()
		check(err)
		if replaced {
			over = time.Now()
		}
		if done {
			return over
		}
	}
}

// checkAll returns how large the message is that has all endpoints at the end. A stream that has
// had nothing after the last change ends the run, and so does one of those that are read if its
// messages do not lead to these endpoints.
func (m *meter) checkAll(want []netip.AddrPort, over time.Time) int {
	late := m.open(load.Config{Conns: 1, Targets: []load.Target{{Authority: local(0), Keep: true}}})
	slices.SortFunc(want, netip.AddrPort.Compare)
	leads := func(_ load.Target, messages [][]byte) {
		if messages == nil {
			return
		}
		if state := must(folded(messages)); !slices.Equal(state.Addrs(), want) {
			check(fmt.Errorf("a stream has %d endpoints, which are not the %d at the end", state.Len(), len(want)))
		}
	}
	late.Messages(leads)
	m.streams.Messages(leads)
	m.streams.Arrivals(func(_ load.Target, at []time.Time) {
		if last := at[len(at)-1]; last.Before(over) {
			check(fmt.Errorf("a stream has had nothing since %v before the last change", over.Sub(last)))
		}
	})
	return late.Bytes()
}

// happen lets the clusters change for a while, and returns, in order, how long after each change
// the last of its streams had it.
func (m *meter) happen(c ManyScale) []float64 {
	began, before := time.Now(), m.spent()
	all := &manyChanges{
		ManyScale: c, run: m.run, rand: rand.New(rand.NewPCG(manySeed, manySeed)),
		seen: map[string][]time.Time{}, last: map[string]time.Time{}, changed: map[string]bool{},
	}
	all.make()
	took := time.Since(began)
	m.set("share", share(m.spent()-before, took))
	m.settle(m.streams)
	return must(nextDelays(m.streams, all.seen))
}

// spent returns the processor time that the server has had.
func (m *meter) spent() time.Duration { return m.cpu() - m.cpuBefore }

// messages returns how many all streams have received.
func (m *meter) messages() int { return m.streams.Received() - m.messagesBefore }

// bytes returns how large these were in all.
func (m *meter) bytes() float64 { return float64(m.streams.Bytes() - m.bytesBefore) }

// spill scales the Services to nothing, scales them back, and waits until all has returned.
func (m *meter) spill(c SpillScale) {
	gone := m.scale(c, false)
	m.settle(m.streams)
	var had []int // messages, of each stream
	m.streams.Arrivals(func(_ load.Target, at []time.Time) { had = append(had, len(at)) })
	back := m.scale(c, true)
	m.pause(c.After + c.Return)
	m.settle(m.streams)
	m.set("spill", m.slowest(gone, func(stream int, at []time.Time) time.Time { return at[had[stream]-1] }))
	m.set("back", m.slowest(back, func(stream int, at []time.Time) time.Time { return at[had[stream]] }))
	m.set(
		"return",
		m.slowest(back, func(_ int, at []time.Time) time.Time { return at[len(at)-1] })-milliseconds(c.After+c.Return),
	)
}

// scale makes all endpoints that Services have in the local cluster ready, or none, service after
// service, and returns when the API server had taken each.
func (m *meter) scale(c SpillScale, ready bool) map[string]time.Time {
	taken := map[string]time.Time{}
	began, every := time.Now(), c.Over/time.Duration(c.Services)
	for i := range c.Services {
		m.pause(time.Until(began.Add(time.Duration(i) * every)))
		check(m.fleet.Scale(0, fleet.Service(i), ready))
		taken[federated(i)] = time.Now()
	}
	return taken
}

// slowest returns how long after a change of its service the last stream had a message.
func (m *meter) slowest(
	since map[string]time.Time,
	message func(stream int, at []time.Time) time.Time,
) (slowest float64) {
	i := 0
	m.streams.Arrivals(func(to load.Target, at []time.Time) {
		slowest = max(slowest, milliseconds(message(i, at).Sub(since[to.Authority])))
		i++
	})
	return slowest
}

// recordSent records the messages that have been kept, and returns in order when they came.
func (m *meter) recordSent() (steps []step) {
	m.record(m.streams)
	m.streams.Arrivals(func(to load.Target, at []time.Time) {
		if to.Keep {
			for i, at := range at[1:] {
				steps = append(steps, step{at.Sub(m.began), to.Authority, i})
			}
		}
	})
	slices.SortStableFunc(steps, func(a, b step) int { return cmp.Compare(a.after, b.after) })
	return steps
}

// replay has the floor send each step when it is due.
func (m *meter) replay(steps []step) {
	ordered := map[string][]time.Time{}
	for _, step := range steps {
		m.pause(time.Until(m.began.Add(step.after)))
		check(m.floor.Step(getMethod, step.authority, step.number))
		ordered[step.authority] = append(ordered[step.authority], time.Now())
	}
	m.settle(m.streams)
	late := 0.0 // of all messages
	m.streams.Arrivals(func(to load.Target, at []time.Time) {
		for i, ordered := range ordered[to.Authority] {
			late = max(late, milliseconds(at[1+i].Sub(ordered)))
		}
	})
	m.set("spill", late)
	m.set("back", late)
	m.set("return", late)
}

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

// meter measures the messages that streams receive, and their cost for the server, from a start
// time.
type meter struct {
	*server
	streams *load.Load
	began   time.Time

	cpuBefore                   time.Duration
	messagesBefore, bytesBefore int
}

// expect returns the number of messages since the start. If the number differs from the argument,
// the run ends.
func (m *meter) expect(messages int) float64 {
	got := m.messages()
	if got != messages {
		check(fmt.Errorf("%d messages received, want %d: they cannot be matched with changes", got, messages))
	}
	if got == 0 {
		check(errors.New("no message received"))
	}
	return float64(got)
}

// flip repeats a change that all streams receive. It returns the CPU time for all changes, the
// number of delivered updates, and for each change the delay in milliseconds until the last stream
// received it.
func (m *meter) flip(c change, times int) (cpu time.Duration, updates float64, lasts []float64) {
	for range times {
		m.pause(flipEvery)
		messages := m.streams.Received() / m.streams.Streams() // messages per stream
		changed := m.change(c)
		check(m.streams.Await(m.ctx, messages+1))
		lasts = append(lasts, milliseconds(latest(m.streams).Sub(changed)))
	}
	m.pause(flipEvery)
	cpu = m.spent()
	return cpu, m.expect(times * m.streams.Streams()), lasts
}

// rolled sets the figures of a completed restart. The argument least is the number of bytes per
// stream that would have been enough.
func (m *meter) rolled(over time.Time, least int) {
	streams := float64(m.streams.Streams())
	m.set("late", milliseconds(latest(m.streams).Sub(over)))
	m.set("ratio", m.bytes()/streams/float64(least))
	m.set("messages", float64(m.messages())/streams)
}

// roll makes all steps of the restart and returns the time of the last replaced endpoint.
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

// checkAll checks that each stream received a message after the last change, and that the decoded
// streams have exactly the wanted endpoints. It returns the size of a message with all endpoints.
func (m *meter) checkAll(want []netip.AddrPort, over time.Time) int {
	late := m.open(load.Config{Conns: 1, Targets: []load.Target{{Authority: local(0), Keep: true}}})
	slices.SortFunc(want, netip.AddrPort.Compare)
	leads := func(_ load.Target, messages [][]byte) {
		if messages == nil {
			return
		}
		if state := must(folded(messages)); !slices.Equal(state.Addrs(), want) {
			check(fmt.Errorf("a stream has %d endpoints, which are not the %d wanted", state.Len(), len(want)))
		}
	}
	late.Messages(leads)
	m.streams.Messages(leads)
	m.streams.Arrivals(func(_ load.Target, at []time.Time) {
		if last := at[len(at)-1]; last.Before(over) {
			check(fmt.Errorf("a stream has received nothing since %v before the last change", over.Sub(last)))
		}
	})
	return late.Bytes()
}

// happen lets the clusters change and returns the sorted delays of all changes (see nextDelays).
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

func (m *meter) spent() time.Duration { return m.cpu() - m.cpuBefore }

func (m *meter) messages() int { return m.streams.Received() - m.messagesBefore }

func (m *meter) bytes() float64 { return float64(m.streams.Bytes() - m.bytesBefore) }

// spill scales the Services to zero and back, and waits until all local endpoints are in use again.
func (m *meter) spill(c SpillScale) {
	gone := m.scale(c, false)
	m.settle(m.streams)
	var had []int // number of messages per stream
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

// scale sets the readiness of all local endpoints, one Service after the other, and returns the
// time after each write.
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

// slowest returns the maximum time from the change of a service to the selected message of a
// stream.
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

// recordSent records the stored messages and returns them as steps in order of receipt.
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

// replay makes the floor send each step when it is due.
func (m *meter) replay(steps []step) {
	ordered := map[string][]time.Time{}
	for _, step := range steps {
		m.pause(time.Until(m.began.Add(step.after)))
		check(m.floor.Step(getMethod, step.authority, step.number))
		ordered[step.authority] = append(ordered[step.authority], time.Now())
	}
	m.settle(m.streams)
	late := 0.0 // maximum delay
	m.streams.Arrivals(func(to load.Target, at []time.Time) {
		for i, ordered := range ordered[to.Authority] {
			late = max(late, milliseconds(at[1+i].Sub(ordered)))
		}
	})
	m.set("spill", late)
	m.set("back", late)
	m.set("return", late)
}

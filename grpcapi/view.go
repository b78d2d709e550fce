package grpcapi

import (
	"sync"

	"isthmus/federation"
	"isthmus/grpcapi/wire"
)

// maxSteps is how many steps to the newest set a view keeps.
const maxSteps = 8

// view is what one kind of client sees of a service port, with its protobuf:
// shared by all Get streams with the same key, and never written by them.
type view struct {
	base[federation.Key, *federation.Set]
	enc     wire.Encoder
	workers *workers

	// under mu
	first *message   // the newest set's first messages
	steps []*message // to the newest set, the latest last
}

func newView(k federation.Key, enc wire.Encoder, w *workers) *view {
	v := &view{enc: enc.InZone(k.Client.Zone), workers: w}
	v.key = k
	return v
}

// endpointBytes is about what an endpoint takes of a set and its messages.
const endpointBytes = 300

// rest is nothing for an empty view, which is made again in no time, and may be
// of a name that somebody made up.
func (v *view) rest() int {
	set, _ := v.get()
	return len(set.Endpoints) * endpointBytes
}

// message is what leads from one set to another (from is nil: to begin with),
// encoded by whoever asks first.
type message struct {
	from, to *federation.Set
	all      bool
	frames   func() []*wire.Frame
}

// full returns the set's first messages.
func (v *view) full(set *federation.Set) []*wire.Frame { return v.firstOf(set).frames() }

func (v *view) firstOf(set *federation.Set) *message {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.first != nil && v.first.to == set {
		return v.first
	}
	m := &message{to: set, frames: sync.OnceValue(func() []*wire.Frame { return v.enc.Full(set) })}
	if v.first == nil || v.first.to.Version < set.Version {
		v.first = m
	}
	return m
}

// step returns the messages from one set (of this or of another view) to a set
// of this one; see wire.Encoder.Step.
func (v *view) step(from, to *federation.Set, all bool) []*wire.Frame {
	return v.between(from, to, all).frames()
}

func (v *view) between(from, to *federation.Set, all bool) *message {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, m := range v.steps {
		if m.to == to && m.from == from && m.all == all {
			return m
		}
	}
	m := &message{from: from, to: to, all: all}
	m.frames = sync.OnceValue(func() (frames []*wire.Frame) {
		v.workers.do(func() { frames = v.enc.Step(from, to, all) })
		return frames
	})
	v.keep(m)
	return m
}

// keep remembers a step, and forgets those to older sets. v.mu is held.
func (v *view) keep(m *message) {
	if n := len(v.steps); n > 0 {
		switch newest := v.steps[n-1].to; {
		case newest.Version > m.to.Version:
			return
		case newest != m.to:
			clear(v.steps)
			v.steps = v.steps[:0]
		case n == maxSteps:
			copy(v.steps, v.steps[1:])
			v.steps = v.steps[:n-1]
		}
	}
	v.steps = append(v.steps, m)
	if v.first != nil && v.first.to.Version < m.to.Version {
		v.first = nil // nobody will ask for it again
	}
}

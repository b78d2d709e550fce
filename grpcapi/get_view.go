package grpcapi

import (
	"sync"
	"time"

	"isthmus/federation"
	"isthmus/grpcapi/wire"
)

// maxSteps is how many steps to the newest set a view keeps.
const maxSteps = 8

// firstKept is how long a view of a large set keeps the messages that streams begin with: most of
// these come together, and such messages are a large part of what the gateway has.
const (
	firstKept     = time.Second
	manyEndpoints = 64 // endpoints
)

// getView is the view of one federation.Key, shared by all Get streams of that key:
// the sets that the table publishes, with their encoded messages. Each message is
// encoded once, by the first stream that needs it, and all streams send the same
// bytes. That includes streams that missed the same sets: they need the same step. Those
// that streams of a large set begin with are encoded anew after firstKept.
type getView struct {
	viewBase[federation.Key, *federation.Set]
	enc wire.Encoder

	// under mu
	full    *lazyFrames   // of the newest set; nil: not needed lately
	steps   []*lazyFrames // to the newest set, the latest last
	charged uint64        // the version of the set that the budget has last been charged for
}

func newGetView(k federation.Key, enc wire.Encoder) *getView {
	v := &getView{enc: enc.InZone(k.Client.Zone)}
	v.key = k
	return v
}

// endpointBytes is about how much memory an endpoint takes in a set and its messages.
const endpointBytes = 300

// viewBytes is about how much memory a view takes, without its endpoints and members.
// memberBytes is how much a member of the service takes for each port, serving or not.
const (
	viewBytes   = 1 << 10
	memberBytes = 400
)

// costOfSet is about how much memory a view takes.
func costOfSet(s *federation.Set) int {
	return viewBytes + len(s.Endpoints)*endpointBytes + s.Members*memberBytes
}

// chargeFor charges the budget for the newest set: a view may have begun with a small
// one. v.mu is held.
func (v *getView) chargeFor(set *federation.Set) {
	if v.watch != nil && set.Version > v.charged { // in tests a view may have no watch
		v.charged = set.Version
		v.charge(int64(costOfSet(set)))
	}
}

// becomeIdle implements cachedView. A view without endpoints is not kept: it is cheap
// to make again, and clients can make up any number of names.
func (v *getView) becomeIdle() int {
	set, _ := v.get()
	if len(set.Endpoints) == 0 {
		return 0
	}
	return costOfSet(set)
}

// lazyFrames are the messages of a step, encoded when frames is called first.
type lazyFrames struct {
	from, to *federation.Set // from is nil: the whole set
	all      bool
	frames   func() []*wire.Frame
}

// fullFrames returns the first messages of a stream that begins with the set.
func (v *getView) fullFrames(set *federation.Set) []*wire.Frame { return v.lazyFull(set).frames() }

// alone is how messages are encoded for one stream alone.
type alone struct {
	port   uint16           // that the stream has asked for
	tiers  federation.Tiers // for a client that wants to know them
	budget *budget          // for what the client has not taken
}

func (a alone) encoder(v *getView) wire.Encoder { return v.enc.AtPort(a.port).Explaining(a.tiers) }

// fullFramesFor returns those of one stream alone that begins with the set.
func (v *getView) fullFramesFor(a alone, set *federation.Set) []*wire.Frame {
	enc := a.encoder(v)
	return a.budget.hold(enc.Full(set))
}

// stepFor returns the messages of a step for one stream alone.
func (v *getView) stepFor(a alone, from, to *federation.Set, all bool) []*wire.Frame {
	v.mu.Lock()
	v.chargeFor(to)
	v.mu.Unlock()
	enc := a.encoder(v)
	return a.budget.hold(enc.Step(from, to, all))
}

func (v *getView) lazyFull(set *federation.Set) *lazyFrames {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.chargeFor(set)
	if v.full != nil && v.full.to == set {
		return v.full
	}
	f := &lazyFrames{to: set, frames: sync.OnceValue(func() []*wire.Frame { return v.enc.Full(set) })}
	if v.full == nil || v.full.to.Version < set.Version {
		v.full = f
		if len(set.Endpoints) >= manyEndpoints {
			version := set.Version // not f, which would be kept for as long, whatever comes
			time.AfterFunc(firstKept, func() { v.forgetFull(version) })
		}
	}
	return f
}

// forgetFull forgets first messages, unless those of another set are there by now.
func (v *getView) forgetFull(version uint64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.full != nil && v.full.to.Version == version {
		v.full = nil
	}
}

// step returns the messages of the step from one set (of this or of another view) to
// a set of this view; see wire.Encoder.Step.
func (v *getView) step(from, to *federation.Set, all bool) []*wire.Frame {
	return v.lazyStep(from, to, all).frames()
}

func (v *getView) lazyStep(from, to *federation.Set, all bool) *lazyFrames {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.chargeFor(to)
	for _, f := range v.steps {
		if f.to == to && f.from == from && f.all == all {
			return f
		}
	}
	f := &lazyFrames{from: from, to: to, all: all, frames: sync.OnceValue(func() []*wire.Frame { return v.enc.Step(from, to, all) })}
	v.keepStep(f)
	return f
}

// keepStep remembers a step, and forgets those to older sets. v.mu is held.
func (v *getView) keepStep(f *lazyFrames) {
	if n := len(v.steps); n > 0 {
		switch newest := v.steps[n-1].to; {
		case newest.Version > f.to.Version:
			return
		case newest != f.to:
			clear(v.steps)
			v.steps = v.steps[:0]
		case n == maxSteps:
			copy(v.steps, v.steps[1:])
			v.steps = v.steps[:n-1]
		}
	}
	v.steps = append(v.steps, f)
	if v.full != nil && v.full.to.Version < f.to.Version {
		v.full = nil // no stream begins with an older set from now on
	}
}

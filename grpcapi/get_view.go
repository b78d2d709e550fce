package grpcapi

import (
	"slices"
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
	steps   []*lazyFrames // to the newest set, the latest last
	charged uint64        // the version of the set that cost is for
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

// chargeFor takes what the newest set costs of the quota: a view may have begun with a
// small set. v.mu is held.
func (v *getView) chargeFor(set *federation.Set) {
	if v.watch != nil && set.Version > v.charged { // in tests a view may have no watch
		v.charged = set.Version
		v.charge(int64(costOfSet(set)))
	}
}

func (v *getView) chargeLocked(set *federation.Set) {
	v.mu.Lock()
	defer v.mu.Unlock() // also after a panic, which ends one stream only
	v.chargeFor(set)
}

// becomeIdle implements cachedView. A view without endpoints is not kept: it is cheap
// to make again, and clients can make up any number of names. A view of an undeclared
// port is not kept either, because it would keep its place among
// federation.MaxUndeclaredPorts. While a cluster is pending, any port may be undeclared.
func (v *getView) becomeIdle() int {
	set, _ := v.get()
	if len(set.Endpoints) == 0 || set.Undeclared || !set.Complete {
		return 0
	}
	return costOfSet(set)
}

// lazyFrames are the messages of a step, encoded when frames is called first.
type lazyFrames struct {
	from, to *federation.Set // from is nil: the whole set, for a stream that begins
	all      bool
	frames   func() []*wire.Frame
}

// messages returns the messages of the step from one set (of this or of another view; nil:
// none) to a set of this view; see wire.Encoder.Step.
func (v *getView) messages(from, to *federation.Set, all bool) []*wire.Frame {
	return v.lazy(from, to, all).frames()
}

// messagesAfterHints returns the messages of the step from a set that node hints have chosen. They add all
// endpoints of the new set, as for a stream that begins. When node hints no longer count, the streams of all
// nodes take such a step at once, each from another set of few endpoints. So they share the large messages.
func (v *getView) messagesAfterHints(from, to *federation.Set) []*wire.Frame {
	return append(slices.Clip(v.messages(nil, to, false)), v.enc.Removal(from, to)...)
}

// messagesFor returns the messages of a step for one stream alone: see stream.setAlone.
func (v *getView) messagesFor(enc wire.Encoder, from, to *federation.Set, all bool) []*wire.Frame {
	v.chargeLocked(to)
	return encode(&enc, from, to, all)
}

func encode(enc *wire.Encoder, from, to *federation.Set, all bool) []*wire.Frame {
	if from == nil {
		return enc.Full(to)
	}
	return enc.Step(from, to, all)
}

func (v *getView) lazy(from, to *federation.Set, all bool) *lazyFrames {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.chargeFor(to)
	for _, f := range v.steps {
		if f.to == to && f.from == from && f.all == all {
			return f
		}
	}
	f := &lazyFrames{from: from, to: to, all: all, frames: sync.OnceValue(func() []*wire.Frame { return encode(&v.enc, from, to, all) })}
	if v.keep(f) && from == nil && len(to.Endpoints) >= manyEndpoints {
		version := to.Version // not f, which would be kept for as long, whatever comes
		time.AfterFunc(firstKept, func() { v.forgetFirst(version) })
	}
	return f
}

// keep remembers a step, and forgets those to older sets. It returns false for one to an older
// set. v.mu is held.
func (v *getView) keep(f *lazyFrames) bool {
	if n := len(v.steps); n > 0 {
		switch newest := v.steps[n-1].to; {
		case newest.Version > f.to.Version:
			return false
		case newest != f.to:
			v.steps = nil
		case n == maxSteps:
			v.steps = slices.Delete(v.steps, 0, 1)
		}
	}
	v.steps = append(v.steps, f)
	return true
}

// forgetFirst forgets first messages, unless those of another set are there by now.
func (v *getView) forgetFirst(version uint64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.steps = slices.DeleteFunc(v.steps, func(f *lazyFrames) bool { return f.from == nil && f.to.Version == version })
}

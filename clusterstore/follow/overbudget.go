package follow

import (
	"context"
	"sync/atomic"
	"time"

	metainternal "k8s.io/apimachinery/pkg/apis/meta/internalversion"

	"isthmus/clusterstore/budget"
)

const (
	// overPause is how long a resource that is over budget is left alone at least: each
	// attempt may cost as much as the budget allows. With the backoff on top it stays below 30 s.
	overPause = 20 * time.Second
	// overRest is how many times as long as an attempt took it is left alone after that, for
	// maxOverPause at most: with a large budget reading alone takes seconds of processor time.
	overRest     = 4
	maxOverPause = time.Minute
	// overProof is how long it must have been followed after that to count as healthy.
	overProof = 3 * time.Second
	// maxForeseen is how many lists in a row may be refused by their first pages: the
	// objects may have become smaller.
	maxForeseen = 4
)

// overBudget is what a Resource knows about being over budget.
type overBudget struct {
	now       atomic.Pointer[error] // why, since the reflector's goroutine last looked; nil: it is not
	probation atomic.Pointer[error] // why it has been, and is not healthy yet; nil: it has not

	// of the reflector's goroutine
	listing   time.Time     // when the list under way has begun; zero: none is
	pause     time.Duration // nothing is requested for so long; 0: there is no pause
	announced int64         // objects of the list under way, which is read; 0: not known
	tooMany   int64         // so many objects have been too many; 0: not known
	foreseen  int           // lists, in a row, that were refused by their first pages
	guessed   bool          // the newest list was

	// proof ends the probation; it may be nil. When the Group is stopped, a list may still be
	// under way in a goroutine of the reflector's.
	proof atomic.Pointer[time.Timer]
}

// begin begins a request: its answer counts for the budget, and if that refuses it, the
// resource is over budget.
func (r *Resource) begin(ctx context.Context, what string) (context.Context, *budget.Request) {
	r.stopProof()
	return r.group.options.Budget.Begin(ctx, what+r.name, r.exceed)
}

// exceed records and reports that the resource is over budget. It may be called by any
// goroutine. The next request then is a list, after a pause: what has come since is lost.
func (r *Resource) exceed(err error) {
	r.over.probation.Store(&err)
	r.over.now.CompareAndSwap(nil, &err)
	if !r.needed {
		r.markTried()
	}
	r.unreadable(err, err)
}

// foresee refuses a list if its first page announces as many objects as have been too many: a resource
// that was over budget mostly still is, and to read on until there is no more room costs
// as much as the budget allows.
func (r *Resource) foresee(first *metainternal.List) {
	if first.RemainingItemCount == nil {
		return
	}
	announced := int64(len(first.Items)) + *first.RemainingItemCount
	why := r.over.probation.Load()
	if why == nil || r.over.tooMany == 0 || announced < r.over.tooMany || r.over.foreseen == maxForeseen {
		r.over.announced = announced
		return
	}
	r.over.foreseen++
	r.over.guessed = true
	r.exceed(*why)
}

// stopWatch ends the watch under way, from the reflector's goroutine.
func (r *Resource) stopWatch() {
	if r.watching != nil {
		r.watching.Stop()
		r.watching = nil
	}
}

// takeOver returns why the resource has been over budget since the last call; nil: it has
// not.
func (r *Resource) takeOver() error {
	why := r.over.now.Swap(nil)
	if why == nil {
		return nil
	}
	began := r.over.listing
	switch {
	case r.over.guessed:
		r.over.guessed = false
	case began.IsZero():
		r.over.foreseen, r.over.tooMany = 0, r.objects.Load()+1
	default: // the list has been read as far as there was room
		r.over.foreseen, r.over.tooMany = 0, r.over.announced
	}
	r.stopProof()
	r.feed.beginList()
	r.over.pause = overPause
	if !began.IsZero() {
		r.over.pause = min(max(overPause, overRest*time.Since(began)), maxOverPause)
	}
	r.lastErr = *why
	return hidden{*why}
}

// healthy reports that the resource is listed and watched: at once, unless it was over
// budget.
func (r *Resource) healthy() {
	why := r.over.probation.Load()
	if why == nil {
		r.proven(nil)
		return
	}
	r.stopProof()
	r.over.proof.Store(time.AfterFunc(overProof, func() { r.proven(why) }))
}

// proven reports that the resource is healthy, unless it has been over budget since then.
func (r *Resource) proven(then *error) {
	if !r.over.probation.CompareAndSwap(then, nil) {
		return
	}
	r.readable(r.group.setHealthy)
	if why := r.over.probation.Load(); why != nil { // meanwhile
		r.unreadable(*why, *why)
	}
}

func (r *Resource) stopProof() {
	if proof := r.over.proof.Swap(nil); proof != nil {
		proof.Stop()
	}
}

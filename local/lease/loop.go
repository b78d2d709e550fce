package lease

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

const (
	// BatchDelay is how long a change waits for others.
	BatchDelay = 50 * time.Millisecond
	// PassShare is how many times as long as a pass has taken passes at least until the next, or MaxBatch.
	PassShare = 10
	// MaxBatch bounds how long after a change writes of a pass begin that does not know it.
	MaxBatch = time.Second
	// maxAtOnce is how many writes are under way at most, maxOfTurn how many of these of one turn.
	maxAtOnce, maxOfTurn = 32, 4
	// tick is the time between attempts to begin what could not begin yet.
	tick = 20 * time.Millisecond
)

// Lease lets a write begin only while this replica holds the Lease. The context of write ends when that is lost. It
// is an [Leadership].
//
// [Leadership]
type Lease interface {
	Write(write func(context.Context) error) error
}

// Task makes one object what it is to be. Tasks have different keys.
type Task[K comparable] struct {
	Key          K
	Turn, Within string // by which tasks take turns, and by which those of one turn do
	// Passing is whether the task is left to the next pass unless it begins with its own.
	Passing bool
	// Do does it; nil: nothing is to be done for now. It is called by a goroutine of its own.
	Do func(work context.Context) Outcome
}

// Pass is what there is to be done at one time.
type Pass[K comparable] struct {
	Tasks []Task[K] // also those whose time has not come: the Loop sees to that
	Due   time.Time // when there is more to do though nothing changes; zero: never
	Idle  bool      // nothing is left to be done, and nothing is that was
	// Unknown is whether it can't be said what there is to be done: there are no Tasks, and what is remembered of
	// objects stays.
	Unknown bool
}

// Options are a Loop's.
type Options[K comparable] struct {
	// Changed returns a channel that is closed when Pass may return something else than before the call.
	Changed func() <-chan struct{}
	Pass    func() Pass[K]
	Limiter *rate.Limiter // of the writes that begin; nil: none
	// MaxPause is how long an object waits at most that goes on changing, 1 s or more.
	MaxPause time.Duration
	// IdleTime is how long passes are idle before Run returns.
	IdleTime time.Duration
}

// Loop carries out tasks for one time in which a replica holds the Lease. Its methods are safe for concurrent use.
type Loop[K comparable] struct {
	Options[K]

	// of the goroutine of Run
	results chan result[K]
	writing map[K]Task[K] // under way
	queue   []Task[K]     // of the last pass, that have not begun
	passes  int

	mu      sync.Mutex
	objects map[K]History // of those that have been written, or could not be
}

type result[K comparable] struct {
	Task[K]
	Outcome
}

// NewLoop returns a Loop that has written nothing yet.
func NewLoop[K comparable](o Options[K]) *Loop[K] {
	return &Loop[K]{
		Options: o,
		results: make(chan result[K]),
		writing: make(map[K]Task[K]),
		objects: make(map[K]History),
	}
}

// History returns what is remembered of an object.
func (l *Loop[K]) History(key K) History {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.objects[key]
}

// Run writes until work ends, or passes have been idle for IdleTime. Then no write is under way.
func (l *Loop[K]) Run(work context.Context) {
	defer func() {
		for len(l.writing) > 0 {
			l.done(<-l.results)
		}
	}()
	busy := time.Now()
	for {
		changed := l.Changed()
		began := time.Now()
		wait, idle := l.pass()
		took := time.Since(began)
		if len(l.writing)+len(l.queue) > 0 || !idle {
			busy = time.Now()
		} else if wait = min(wait, l.IdleTime); time.Since(busy) >= l.IdleTime {
			return
		}
		l.begin(work)
		if all := len(l.queue); all > 0 {
			l.queue = slices.DeleteFunc(l.queue, func(t Task[K]) bool { return t.Passing })
			if len(l.queue) < all {
				wait = 0
			}
		}
		batch := min(max(BatchDelay, PassShare*took), MaxBatch)
		if !l.rest(work, changed, max(wait, batch), batch) {
			return
		}
	}
}

// rest waits for a change, and then for others, or until there is something to do. Meanwhile it goes on with what the
// pass has to be written, however long a pass takes. It returns false once work has ended.
func (l *Loop[K]) rest(work context.Context, changed <-chan struct{}, wait, batch time.Duration) bool {
	due := time.Now().Add(wait)
	for {
		var more <-chan time.Time
		if len(l.queue) > 0 {
			more = time.After(tick)
		}
		select {
		case <-work.Done():
			return false
		case <-time.After(time.Until(due)):
			return true
		case <-more:
			l.begin(work)
			continue
		case r := <-l.results:
			l.done(r)
			l.begin(work) // there is room for another
		case <-changed:
			changed = nil
		}
		if at := time.Now().Add(batch); at.Before(due) {
			due = at
		}
	}
}

// pass asks what there is to do, and puts what may begin into the queue.
func (l *Loop[K]) pass() (wait time.Duration, idle bool) {
	p := l.Pass()
	wait = time.Hour
	if !p.Due.IsZero() {
		wait = time.Until(p.Due)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queue = nil
	if p.Unknown {
		return max(wait, 0), false
	}
	pending := make(map[K]bool, len(p.Tasks))
	tasks := p.Tasks[:0:0]
	for _, t := range p.Tasks {
		pending[t.Key] = true
		if left := time.Until(l.objects[t.Key].next); t.Do == nil {
			continue
		} else if left > 0 {
			wait = min(wait, left)
		} else if _, busy := l.writing[t.Key]; !busy {
			tasks = append(tasks, t)
		}
	}
	for key, o := range l.objects {
		_, busy := l.writing[key]
		switch {
		case pending[key] || busy:
		case time.Since(o.at) > changeTime && (o.Failures > 0 || time.Until(o.next) <= 0):
			delete(l.objects, key)
		case o.Failures > 0:
			o.Failures = 0
			o.Problem = ""
			l.objects[key] = o
		}
	}
	l.queue = inTurn(tasks, l.passes)
	l.passes++
	return max(wait, 0), p.Idle
}

// inTurn orders tasks: one of each turn, then another of each; those of a turn likewise by what they are within. Each
// pass begins with another one: there may be fewer writes than turns, and what does not begin with a pass may wait
// for the next.
func inTurn[K comparable](tasks []Task[K], pass int) []Task[K] {
	turn := func(tasks []Task[K], of func(Task[K]) string) []Task[K] {
		by := make(map[string][]Task[K])
		for _, t := range tasks {
			by[of(t)] = append(by[of(t)], t)
		}
		keys := slices.Sorted(maps.Keys(by))
		all := make([]Task[K], 0, len(tasks))
		if first := pass % max(len(keys), 1); first > 0 {
			keys = slices.Concat(keys[first:], keys[:first])
		}
		for n := 0; len(all) < len(tasks); n++ {
			for _, key := range keys {
				if n < len(by[key]) {
					all = append(all, by[key][n])
				}
			}
		}
		return all
	}
	return turn(turn(tasks, func(t Task[K]) string { return t.Turn + "\x00" + t.Within }), func(t Task[K]) string {
		return t.Turn
	})
}

// begin begins as many of the writes that are left as there may be.
func (l *Loop[K]) begin(work context.Context) {
	ofTurn := make(map[string]int)
	for _, t := range l.writing {
		ofTurn[t.Turn]++
	}
	full := work.Err() != nil
	l.queue = slices.DeleteFunc(l.queue, func(t Task[K]) bool {
		if full || ofTurn[t.Turn] == maxOfTurn {
			return false
		}
		if full = len(l.writing) == maxAtOnce || l.Limiter != nil && !l.Limiter.Allow(); full {
			return false
		}
		ofTurn[t.Turn]++
		l.writing[t.Key] = t
		go func() { l.results <- result[K]{t, t.Do(work)} }()
		return true
	})
}

// done records the end of a write.
func (l *Loop[K]) done(r result[K]) {
	delete(l.writing, r.Key)
	l.mu.Lock()
	defer l.mu.Unlock()
	o := l.objects[r.Key]
	o.add(r.Outcome, time.Now(), l.MaxPause)
	l.objects[r.Key] = o
}

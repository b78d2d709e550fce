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
	// BatchDelay is the delay between a change and the next pass. Further changes are collected
	// during the delay.
	BatchDelay = 50 * time.Millisecond
	// The minimum time between passes is PassShare times the duration of the last pass, up to
	// MaxBatch.
	PassShare = 10
	// MaxBatch is the maximum delay between a change and the next pass. While a pass is delayed,
	// writes that the previous pass has planned may still begin.
	MaxBatch = time.Second
	// maxAtOnce is the maximum number of writes in progress. maxOfTurn is the maximum number of
	// writes in progress that have the same Turn.
	maxAtOnce, maxOfTurn = 32, 4
	// tick is the time between attempts to begin queued writes.
	tick = 20 * time.Millisecond
)

// Lease allows a write only while this replica holds the Kubernetes Lease. The context of the write
// is canceled when the Lease is lost. [Leadership] implements Lease.
type Lease interface {
	Write(write func(context.Context) error) error
}

// Task writes one object, unless the object is already correct. Each task in a pass has a unique
// key.
type Task[K comparable] struct {
	Key          K
	Turn, Within string // tasks alternate by Turn, and within a turn by Within
	// If Passing is true, and the task cannot begin immediately, the Loop drops the task. The next
	// pass may list a dropped task again.
	Passing bool
	// Do executes the task in its own goroutine. If Do is nil, the task has nothing to do at
	// present.
	Do func(work context.Context) Outcome
}

// Pass lists the tasks that are needed at the moment.
type Pass[K comparable] struct {
	Tasks []Task[K] // including tasks that must wait; the Loop delays them
	Due   time.Time // when to run the next pass without a change; zero means never
	Idle  bool      // nothing to write, and nothing that was written exists
	// Unknown means that the required tasks are not known yet. While the tasks are unknown, Tasks
	// is empty, and the Loop keeps the histories of all objects.
	Unknown bool
}

// Options configures a Loop. Changed and Pass are required.
type Options[K comparable] struct {
	// Each call to Changed returns a channel that is closed after the next change that may affect
	// the result of Pass.
	Changed func() <-chan struct{}
	Pass    func() Pass[K]
	Limiter *rate.Limiter // limits the rate of writes; nil means no limit
	// MaxPause is the longest pause between writes to an object that keeps changing. The minimum is
	// 1 s.
	MaxPause time.Duration
	// IdleTime is how long the Loop must be idle before Run returns.
	IdleTime time.Duration
}

// Loop executes tasks while this replica is the leader. Create a new Loop each time this replica is
// elected. All methods of a Loop are safe for concurrent use.
type Loop[K comparable] struct {
	Options[K]

	// Only the goroutine that calls Run may use the following fields.
	results chan result[K]
	writing map[K]Task[K] // tasks under way
	queue   []Task[K]     // tasks of the last pass that have not begun
	passes  int

	mu      sync.Mutex
	objects map[K]History // guarded by mu; only objects with an attempt to write them
}

type result[K comparable] struct {
	Task[K]
	Outcome
}

func NewLoop[K comparable](o Options[K]) *Loop[K] {
	return &Loop[K]{
		Options: o,
		results: make(chan result[K]),
		writing: make(map[K]Task[K]),
		objects: make(map[K]History),
	}
}

func (l *Loop[K]) History(key K) History {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.objects[key]
}

// Run executes tasks until its context is done, or until the Loop has been idle for IdleTime. Run
// returns after all writes have ended.
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

// rest waits until the next pass is due, and begins queued writes while it waits. The wait argument
// is the maximum time until the next pass. When something changes or a write finishes, the
// remaining time is capped at the value of batch. Once the context is done, the result is false.
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
			l.begin(work) // a slot is free
		case <-changed:
			changed = nil
		}
		if at := time.Now().Add(batch); at.Before(due) {
			due = at
		}
	}
}

// pass calls the Pass function and queues the tasks that may begin. The results are the time to
// wait before the next pass, and whether this pass is idle.
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

// inTurn orders tasks round-robin by Turn, and tasks with the same Turn round-robin by Within. Each
// pass starts with a different value of Turn, so that no value is left out even if each pass has
// room for only a few tasks.
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

func (l *Loop[K]) done(r result[K]) {
	delete(l.writing, r.Key)
	l.mu.Lock()
	defer l.mu.Unlock()
	o := l.objects[r.Key]
	o.add(r.Outcome, time.Now(), l.MaxPause)
	l.objects[r.Key] = o
}

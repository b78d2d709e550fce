package exports

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"isthmus/local/exports/plan"
)

const (
	// batchDelay is how long a change waits for others.
	batchDelay = 50 * time.Millisecond
	// planShare is how many times as long as a plan has taken passes at least until the next, or maxBatch.
	planShare = 10
	// maxBatch bounds how long after a change writes of a plan begin that does not know it.
	maxBatch = time.Second
	// writesAtOnce is how many writes are under way at most, writesOfLink of these for one link: a link whose
	// writes hang leaves room to the others.
	writesAtOnce, writesOfLink = 32, 4
	// writeRate is how many writes a second begin at most.
	writeRate, writeBurst = 50, 10
)

// failuresDelay is with how many failures, in 15 s, a write no longer delays deleting what was written before for the same exports: they
// may be another cluster's.
const failuresDelay = 5

// lease lets a write begin only while this replica holds the Lease. The context of write ends when that is lost. It is an
// [election.Term].
type lease interface {
	Write(write func(context.Context) error) error
}

// term is one time in which the replica holds the Lease. Its fields are of the goroutine of run, but for mu's.
type term struct {
	*Writer
	lease   lease
	limiter *rate.Limiter
	results chan result
	writing map[Object]task // under way
	queue   []task          // of the last plan, that have not begun
	passes  int             // that have been made

	mu      sync.Mutex
	memory  plan.Memory
	current *plan.Plan         // nil: not all has been read yet
	objects map[Object]history // of those that have been written, or could not be
}

// task is a change to be made.
type task struct {
	Change
	written, left string // what was written last, and what then was known of it, as in a history
}

type result struct {
	task
	outcome
}

func newTerm(w *Writer, lease lease) *term {
	return &term{
		Writer: w, lease: lease, limiter: rate.NewLimiter(writeRate, writeBurst), results: make(chan result),
		writing: make(map[Object]task), objects: make(map[Object]history),
	}
}

// run writes until work ends, or nothing has been left to do for a while. Then no write is under way.
func (t *term) run(work context.Context) {
	defer t.finish()
	busy := time.Now()
	for {
		changed := t.Changed()
		began := time.Now()
		tasks, wait := t.pass()
		if len(t.writing)+len(tasks) > 0 || t.current == nil || !idle(t.current) {
			busy = time.Now()
		} else if wait = min(wait, idleTime); time.Since(busy) >= idleTime {
			return
		}
		took := time.Since(began)
		t.queue = tasks
		t.begin(work)
		if t.dropDeletes() {
			wait = 0
		}
		batch := min(max(batchDelay, planShare*took), maxBatch)
		if !t.rest(work, changed, max(wait, batch), batch) {
			return
		}
	}
}

// rest waits for a change, and then for others, or until there is something to do. Meanwhile it goes on with what the plan has to be
// written, however long a plan takes. It returns false once work has ended.
func (t *term) rest(work context.Context, changed <-chan struct{}, wait, batch time.Duration) bool {
	due := time.Now().Add(wait)
	for {
		var more <-chan time.Time
		if len(t.queue) > 0 {
			more = time.After(time.Second / writeRate)
		}
		select {
		case <-work.Done():
			return false
		case <-time.After(time.Until(due)):
			return true
		case <-more:
			t.begin(work)
			continue
		case r := <-t.results:
			t.done(r)
		case <-changed:
			changed = nil
		}
		if at := time.Now().Add(batch); at.Before(due) {
			due = at
		}
	}
}

// dropDeletes leaves deletions that could not begin at once to the next plan, since what they are for may be back. It returns whether
// there were any.
func (t *term) dropDeletes() bool {
	all := len(t.queue)
	t.queue = slices.DeleteFunc(t.queue, func(one task) bool { return one.Verb == Delete })
	return len(t.queue) < all
}

// finish waits for the writes that are under way.
func (t *term) finish() {
	for len(t.writing) > 0 {
		t.done(<-t.results)
	}
}

// pass makes a plan. It returns what is to be written now, in turn by link and within that by namespace, and when there is more
// to do though nothing changes.
func (t *term) pass() (tasks []task, wait time.Duration) {
	world, ok := t.World()
	if !ok {
		return nil, time.Hour
	}
	if v := world.MCSVersion; v != "" && t.MCS[v].ServiceImports == nil {
		world.MCSVersion, world.Imports = "", nil // nothing is written of what there is no client for
	}
	p, memory := plan.Make(world, t.memory)
	t.mu.Lock()
	t.current, t.memory = p, memory
	t.mu.Unlock()
	wait = time.Hour
	if !p.Due.IsZero() {
		wait = time.Until(p.Due)
	}
	failing := make(map[exportsFor]bool)
	changes := Changes(world, p)
	for _, c := range changes {
		o, of := t.objects[c.Object], exportsFor{c.Of, c.For == plan.Import}
		failing[of] = failing[of] || c.Verb != Delete && 0 < o.failures && o.failures < failuresDelay
		switch left := time.Until(o.next); {
		case o.isLeft(&c):
		case c.Verb == Delete && failing[of]: // nothing goes before what is to be in its place is there
		case left > 0:
			wait = min(wait, left)
		default:
			if _, busy := t.writing[c.Object]; !busy {
				tasks = append(tasks, task{c, o.content, o.left})
			}
		}
	}
	t.forget(changes)
	tasks = inTurn(tasks, t.passes)
	t.passes++
	return tasks, max(wait, 0)
}

// exportsFor are the exports of one name, by labels or by ServiceExports: writes of one sort don't wait for the other's.
type exportsFor struct {
	plan.ID
	imports bool
}

// inTurn orders tasks: one of each link, then another of each; those of a link likewise by namespace. Each pass begins with another one:
// there may be fewer writes than links, and deletions that do not begin with a pass wait for the next.
func inTurn(tasks []task, pass int) []task {
	turn := func(tasks []task, of func(task) string) []task {
		by := make(map[string][]task)
		for _, one := range tasks {
			by[of(one)] = append(by[of(one)], one)
		}
		keys, all := slices.Sorted(maps.Keys(by)), make([]task, 0, len(tasks))
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
	return turn(turn(tasks, func(one task) string { return one.link + "\x00" + one.Namespace }), func(one task) string { return one.link })
}

// begin begins as many of the writes that are left as there may be.
func (t *term) begin(work context.Context) {
	ofLink := make(map[string]int)
	for _, one := range t.writing {
		ofLink[one.link]++
	}
	full := work.Err() != nil
	t.queue = slices.DeleteFunc(t.queue, func(one task) bool {
		if full || ofLink[one.link] == writesOfLink {
			return false
		}
		if full = len(t.writing) == writesAtOnce || !t.limiter.Allow(); full {
			return false
		}
		ofLink[one.link]++
		t.writing[one.Object] = one
		go func() { t.results <- result{one, t.write(one)} }()
		return true
	})
}

// done records the end of a write.
func (t *term) done(r result) {
	delete(t.writing, r.Object)
	t.mu.Lock()
	defer t.mu.Unlock()
	o := t.objects[r.Object]
	o.add(r.outcome, time.Now())
	t.objects[r.Object] = o
}

// forget drops what is remembered of failures where nothing is to be changed any more, and all of what has not been written for long.
func (t *term) forget(changes []Change) {
	pending := make(map[Object]bool, len(changes))
	for i := range changes {
		pending[changes[i].Object] = true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for id, o := range t.objects {
		switch {
		case pending[id]:
		case time.Since(o.at) > changeTime:
			delete(t.objects, id)
		case o.failures > 0:
			o.failures, o.problem = 0, ""
			t.objects[id] = o
		}
	}
}

package exports

import (
	"cmp"
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
	// planShare is how many times as long as a plan has taken passes at least until the next.
	planShare = 10
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
	writing map[plan.ID]task // under way

	mu      sync.Mutex
	memory  plan.Memory
	current *plan.Plan          // nil: not all has been read yet
	objects map[plan.ID]history // of those that have been written, or could not be
}

// task is one object to be written or deleted.
type task struct {
	id       plan.ID
	of       plan.ID             // the exports
	want     *plan.WantedService // nil: it is to be deleted, as unwanted says
	unwanted plan.Unwanted
	settings plan.Settings
	kind     plan.Kind
	link     string // by which tasks take turns
	written  string // what was written last, as a hash
}

type result struct {
	task
	outcome
}

func newTerm(w *Writer, lease lease) *term {
	return &term{
		Writer: w, lease: lease, limiter: rate.NewLimiter(writeRate, writeBurst), results: make(chan result),
		writing: make(map[plan.ID]task), objects: make(map[plan.ID]history),
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
		if later := t.begin(work, tasks); later > 0 {
			wait = min(wait, later)
		}
		if !t.rest(work, changed, max(wait, batchDelay, planShare*took), max(batchDelay, planShare*took)) {
			return
		}
	}
}

// rest waits for a change, and then for others, or until there is something to do. It returns false once work has ended.
func (t *term) rest(work context.Context, changed <-chan struct{}, wait, batch time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		select {
		case <-work.Done():
			return false
		case <-timer.C:
			return true
		case r := <-t.results:
			t.done(r)
			timer.Reset(batch)
		case <-changed:
			changed = nil
			timer.Reset(batch)
		}
	}
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
	p, memory := plan.Make(world, t.memory)
	t.mu.Lock()
	t.current, t.memory = p, memory
	t.mu.Unlock()
	wait = time.Hour
	if !p.Due.IsZero() {
		wait = time.Until(p.Due)
	}
	failing := make(map[plan.ID]bool) // exports
	add := func(one task) {
		o := t.objects[one.id]
		failing[one.of] = failing[one.of] || one.want != nil && 0 < o.failures && o.failures < failuresDelay
		one.settings, one.written = world.Settings, o.content
		switch left := time.Until(o.next); {
		case one.want == nil && failing[one.of]: // nothing goes before what is to be in its place is there
		case left > 0:
			wait = min(wait, left)
		default:
			if _, busy := t.writing[one.id]; !busy {
				tasks = append(tasks, one)
			}
		}
	}
	for i := range p.Services {
		want := &p.Services[i]
		if _, differs := want.Over(world.Services[want.ID]); differs {
			add(task{id: want.ID, of: want.Of, want: want, kind: want.Kind, link: want.Link})
		} else {
			t.settled(want.ID)
		}
	}
	for _, u := range p.Delete {
		add(task{id: u.ID, of: u.Of, unwanted: u, kind: u.Kind})
	}
	t.forget(p, world)
	return inTurn(tasks), max(wait, 0)
}

// inTurn orders tasks: one of each link, then another of each; those of a link likewise by namespace.
func inTurn(tasks []task) []task {
	turn := func(tasks []task, of func(task) string) []task {
		by := make(map[string][]task)
		for _, one := range tasks {
			by[of(one)] = append(by[of(one)], one)
		}
		keys, all := slices.Sorted(maps.Keys(by)), make([]task, 0, len(tasks))
		for n := 0; len(all) < len(tasks); n++ {
			for _, key := range keys {
				if n < len(by[key]) {
					all = append(all, by[key][n])
				}
			}
		}
		return all
	}
	return turn(turn(tasks, func(one task) string { return one.link + "\x00" + one.id.Namespace }), func(one task) string { return one.link })
}

// begin begins as many writes as there may be. It returns when more of them may begin; 0: as one ends, or none is left.
func (t *term) begin(work context.Context, tasks []task) (later time.Duration) {
	ofLink := make(map[string]int)
	for _, one := range t.writing {
		ofLink[one.link]++
	}
	for _, one := range tasks {
		switch {
		case work.Err() != nil || len(t.writing) == writesAtOnce:
			return 0
		case ofLink[one.link] == writesOfLink:
			continue
		case !t.limiter.Allow():
			return time.Second / writeRate
		}
		ofLink[one.link]++
		t.writing[one.id] = one
		go func() { t.results <- result{one, t.write(one)} }()
	}
	return 0
}

// done records the end of a write.
func (t *term) done(r result) {
	delete(t.writing, r.id)
	t.mu.Lock()
	defer t.mu.Unlock()
	o := t.objects[r.id]
	o.add(r.outcome, time.Now())
	t.objects[r.id] = o
}

// settled records that an object is as it is to be.
func (t *term) settled(id plan.ID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if o, ok := t.objects[id]; ok && o.failures > 0 {
		o.failures, o.problem = 0, ""
		t.objects[id] = o
	}
}

// forget drops what is remembered of objects that have not been written for long, and that nothing wants.
func (t *term) forget(p *plan.Plan, world plan.World) {
	t.mu.Lock()
	defer t.mu.Unlock()
	maps.DeleteFunc(t.objects, func(id plan.ID, o history) bool {
		_, wanted := slices.BinarySearchFunc(p.Services, id, func(w plan.WantedService, id plan.ID) int {
			return cmp.Or(cmp.Compare(w.Namespace, id.Namespace), cmp.Compare(w.Name, id.Name))
		})
		return !wanted && world.Services[id] == nil && time.Since(o.at) > changeTime
	})
}

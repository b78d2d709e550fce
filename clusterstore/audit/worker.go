package audit

import (
	"context"
	"time"

	"golang.org/x/time/rate"

	"isthmus/clusterstore/cluster"
	"isthmus/federation"
)

// worker audits the services of one cluster. Its goroutine runs while there is something to do.
type worker struct {
	// fixed
	name    federation.ClusterName
	limiter *rate.Limiter
	wake    chan struct{} // has an element if something was added

	// under Auditor.mu
	runs    bool
	rested  time.Time // when it last had nothing to do
	late    bool      // a service has waited for longer than an Interval
	waiting []*job    // to be looked at, the first one first
	queued  map[federation.ServiceID]*job
	again   []*job // to be looked at again, the next one first

	relisted map[string]time.Time // resources, of its goroutine
}

// worker returns the worker of a cluster. a.mu is held.
func (a *Auditor) worker(name federation.ClusterName) *worker {
	w := a.workers[name]
	if w == nil {
		w = &worker{
			name: name, limiter: rate.NewLimiter(1, 1), wake: make(chan struct{}, 1),
			queued: make(map[federation.ServiceID]*job), relisted: make(map[string]time.Time),
		}
		a.workers[name] = w
	}
	return w
}

// add adds a service that is due. Auditor.mu is held.
func (w *worker) add(id federation.ServiceID, t *turn, now time.Time) {
	if j := w.queued[id]; j != nil {
		j.turns = append(j.turns, t)
		return
	}
	j := &job{service: id, turns: []*turn{t}, since: now}
	w.queued[id] = j
	w.waiting = append(w.waiting, j)
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// work does what there is to do for a cluster, and returns when that is all.
func (a *Auditor) work(ctx context.Context, w *worker) {
	for ctx.Err() == nil {
		j, pause := a.next(w)
		switch {
		case j == nil && pause == 0:
			return
		case j == nil:
			timer := time.NewTimer(pause)
			select {
			case <-ctx.Done():
			case <-timer.C:
			case <-w.wake:
			}
			timer.Stop()
		default:
			a.look(ctx, w, j)
		}
	}
}

// next takes the next job: one that is to be looked at again, if its time has come. Without one
// it returns how long there is nothing to do; 0: the worker has ended.
func (a *Auditor) next(w *worker) (*job, time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	pause := time.Duration(0)
	if len(w.again) > 0 {
		j := w.again[0]
		if pause = time.Until(j.at); pause <= 0 {
			w.again = w.again[1:]
			return j, 0
		}
	}
	if len(w.waiting) > 0 {
		j := w.waiting[0]
		w.waiting[0] = nil
		w.waiting = w.waiting[1:]
		delete(w.queued, j.service)
		return j, 0
	}
	if pause == 0 {
		w.runs, w.rested = false, time.Now()
	}
	return nil, pause
}

// look looks at a service of a cluster, and draws the conclusions.
func (a *Auditor) look(ctx context.Context, w *worker, j *job) {
	c, state := a.opts.Cluster(w.name)
	if state != cluster.Ready || c == nil {
		why := "there is no such cluster"
		if state != "" {
			why = "the cluster is " + string(state)
		}
		a.finish(w, j, skipped, []*result{j.result(w.name, cluster.Looked{}, why)})
		return
	}
	all, err := c.Look(ctx, j.service, w.limiter.Wait)
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		a.finish(w, j, failed, []*result{j.result(w.name, cluster.Looked{}, err.Error())})
		return
	}
	counted, healed := j.judge(all, time.Now())
	for _, resource := range j.order {
		if list := counted[resource]; len(list) > 0 {
			a.count(w, j, resource, list)
		}
	}
	a.markHealed(healed)
	for _, resource := range j.wrong() {
		w.heal(c, resource, min(relistPause, a.opts.Interval))
	}
	j.looks++
	if len(j.open) > 0 && j.looks < maxLooks {
		a.mu.Lock()
		j.at = time.Now().Add(Settle)
		w.again = append(w.again, j)
		a.mu.Unlock()
		return
	}
	a.conclude(w, j)
}

// heal has a resource listed again, if that was not done less than a pause ago.
func (w *worker) heal(c Cluster, resource string, pause time.Duration) {
	if at, done := w.relisted[resource]; done && time.Since(at) < pause {
		return
	}
	w.relisted[resource] = time.Now()
	c.Relist(resource)
}

package grpcapi

import (
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"
)

// workerLinger is how long a worker waits for something else to do.
const workerLinger = 50 * time.Millisecond

// workers run what needs a deep stack for the goroutines of streams, which live
// for an hour and would keep such a stack for as long: see doc.go. There are no
// more than there were tasks at a time.
type workers struct {
	tasks chan *task   // to workers that have nothing to do
	alive atomic.Int64 // how many workers there are
}

// task is something to run once.
type task struct {
	run    func()
	done   chan struct{} // closed when it has been run
	reason any           // it has panicked
}

func newWorkers() *workers { return &workers{tasks: make(chan *task)} }

// do runs f on another goroutine, and returns or panics when f does.
func (w *workers) do(f func()) {
	t := &task{run: f, done: make(chan struct{})}
	select {
	case w.tasks <- t:
	default:
		w.alive.Add(1)
		go w.work(t)
	}
	<-t.done
	if t.reason != nil {
		panic(t.reason)
	}
}

// work runs a task, and others that come soon after.
func (w *workers) work(t *task) {
	defer w.alive.Add(-1)
	idle := time.NewTimer(workerLinger)
	defer idle.Stop()
	for {
		t.perform()
		idle.Reset(workerLinger)
		select {
		case t = <-w.tasks:
		case <-idle.C:
			return
		}
	}
}

// perform runs the task. What a panic leaves behind on this stack would be lost.
func (t *task) perform() {
	defer close(t.done)
	defer func() {
		if r := recover(); r != nil {
			t.reason = fmt.Sprintf("%v\n%s", r, debug.Stack())
		}
	}()
	t.run()
}

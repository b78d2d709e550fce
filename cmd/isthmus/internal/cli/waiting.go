package cli

import (
	"fmt"
	"sync"
	"time"
)

// slowAfter is when a verb that waits prints what for.
const slowAfter = time.Second

// Waiting prints what a verb waits for, once it has waited for a second. It is safe for concurrent use.
type Waiting struct {
	p     Process
	timer *time.Timer

	mu   sync.Mutex
	what string
	slow bool
}

// Wait returns what is waited for from now on, as it follows the word "waiting": " for x", ": making x". Empty means
// nothing yet. It must be stopped.
func (p Process) Wait(what string) *Waiting {
	w := &Waiting{p: p, what: what}
	w.timer = time.AfterFunc(slowAfter, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.slow = true
		w.print()
	})
	return w
}

// On notes what is waited for from now on.
func (w *Waiting) On(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.what == what {
		return
	}
	w.what = what
	if w.slow {
		w.print()
	}
}

// Stop ends it: after it nothing is printed.
func (w *Waiting) Stop() {
	w.timer.Stop()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.what, w.slow = "", false
}

func (w *Waiting) print() {
	if w.what != "" {
		fmt.Fprintf(w.p.Stderr, "%s: waiting%s\n", w.p.Name, w.what)
	}
}

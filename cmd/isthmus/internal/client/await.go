package client

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"isthmus/cmd/isthmus/internal/cli"
)

// slowAfter is when a verb that waits tells what for.
const slowAfter = time.Second

// waiting is what a run waits for. It is printed once that takes long.
type waiting struct {
	p     cli.Process
	limit time.Duration

	mu        sync.Mutex
	what, who string
	slow      bool
}

// on notes what is waited for from now on, and who has to answer.
func (w *waiting) on(what, who string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.what == what {
		return
	}
	w.what, w.who = what, who
	if w.slow {
		w.print()
	}
}

// takesLong prints what is waited for, now and whenever it changes.
func (w *waiting) takesLong() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.slow = true
	w.print()
}

func (w *waiting) print() {
	if w.what != "" {
		fmt.Fprintf(w.p.Stderr, "%s: waiting for %s, for %v at most\n", w.p.Name, w.what, w.limit)
	}
}

// late is the error for who has not answered in time.
func (w *waiting) late() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return late(w.who, w.limit)
}

func late(who string, limit time.Duration) error {
	return fmt.Errorf("%s has not answered within %v (--timeout)", who, limit)
}

// afterLimit is how long a run waits for work whose time is over. Only work that waits
// for a program of the kubeconfig takes as long.
const afterLimit = time.Second

// await does work for as long as the timeout, and prints what it waits for if that takes
// long. After an error, the work may still go on: its results must not be read.
func (o *printing) await(ctx context.Context, p cli.Process, work func(context.Context, *waiting) error) (err error) {
	limited, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	w := &waiting{p: p, limit: o.timeout}
	done := make(chan error, 1)
	go func() { done <- work(limited, w) }()
	slow := time.NewTimer(slowAfter)
	defer slow.Stop()
	for over := limited.Done(); ; {
		select {
		case <-slow.C:
			w.takesLong()
			continue
		case <-over:
			over = nil
			slow.Reset(afterLimit)
			select {
			case err = <-done:
			case <-slow.C:
				err = limited.Err()
			}
		case err = <-done:
		}
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return errors.New("interrupted")
		case limited.Err() != nil:
			return w.late()
		}
		return err
	}
}

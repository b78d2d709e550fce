package client

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"isthmus/cmd/isthmus/internal/cli"
)

// waiting is what a run waits for, and who has to answer.
type waiting struct {
	*cli.Waiting
	limit time.Duration
	who   atomic.Value // of string
}

// on notes what is waited for from now on, and who has to answer.
func (w *waiting) on(what, who string) {
	w.who.Store(who)
	w.On(fmt.Sprintf(" for %s, for %v at most", what, w.limit))
}

func late(who any, limit time.Duration) error {
	return fmt.Errorf("%v has not answered within %v (--timeout)", who, limit)
}

// afterLimit is how long a run waits for work whose time is over. Only work that waits
// for a program of the kubeconfig takes as long.
const afterLimit = time.Second

// await does work for as long as the timeout, and prints what it waits for if that takes
// long. After an error, the work may still go on: its results must not be read.
func (o *Target) await(ctx context.Context, p cli.Process, work func(context.Context, *waiting) error) (err error) {
	limited, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	w := &waiting{Waiting: p.Wait(""), limit: o.Timeout}
	defer w.Stop()
	w.who.Store("the gateway")
	done := make(chan error, 1)
	go func() { done <- work(limited, w) }()
	select {
	case err = <-done:
	case <-limited.Done():
		select {
		case err = <-done:
		case <-time.After(afterLimit):
			err = limited.Err()
		}
	}
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return errors.New("interrupted")
	case limited.Err() != nil:
		return late(w.who.Load(), w.limit)
	}
	return err
}

package main

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// reporter prints a line about the progress whenever nothing has been printed for a while.
type reporter struct {
	name  string
	began time.Time

	mu  sync.Mutex
	out io.Writer
	now func() string // the progress; nil before start

	quiet *time.Timer
	every time.Duration
	ended chan struct{}
	over  sync.WaitGroup
}

func newReporter(out io.Writer, name string) *reporter {
	return &reporter{out: out, name: name, began: time.Now(), ended: make(chan struct{})}
}

// start has the reporter print now's text every so often, until stop. now is called while nothing else is printed.
func (r *reporter) start(every time.Duration, now func() string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.every, r.now = every, now
	if r.quiet != nil {
		r.quiet.Reset(every)
		return
	}
	r.quiet = time.NewTimer(every)
	r.over.Go(func() {
		for {
			select {
			case <-r.quiet.C:
				r.mu.Lock()
				r.print(fmt.Sprintf("%s: %s, %v so far\n", r.name, r.now(), time.Since(r.began).Round(time.Second)))
				r.mu.Unlock()
			case <-r.ended:
				return
			}
		}
	})
}

func (r *reporter) stop() {
	close(r.ended)
	r.over.Wait()
}

// print prints a text now. r.mu is held.
func (r *reporter) print(text string) {
	fmt.Fprint(r.out, text)
	r.quiet.Reset(r.every)
}

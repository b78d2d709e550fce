package links

import (
	"context"
	"fmt"
	"io"
	"time"

	"isthmus/cmd/isthmus/internal/cli"
)

// work carries out the steps of a verb and reports each, or only names them.
type work struct {
	p   cli.Process
	out io.Writer // where steps are reported
	dry bool
}

// do takes a step: verb ends in "e", as in "create".
func (w *work) do(ctx context.Context, c *cluster, verb, object string, step func(context.Context) error) error {
	if w.dry {
		fmt.Fprintf(w.out, "%s: would %s %s\n", c.title, verb, object)
		return nil
	}
	if err := w.wait(verb+" "+object+" in "+c.title, func() error { return step(ctx) }); err != nil {
		return c.failed(verb+" "+object, err)
	}
	fmt.Fprintf(w.out, "%s: %sd %s\n", c.title, verb, object)
	return nil
}

// wait runs a function to its end, and reports what it does if it takes long.
func (w *work) wait(what string, f func() error) error {
	return w.p.Await(context.Background(), ": "+what, f)
}

// within is wait for a function that has so much time.
func (w *work) within(ctx context.Context, limit time.Duration, what string, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return w.wait(what, func() error { return f(ctx) })
}

// warn reports what does not keep the verb from going on.
func (w *work) warn(format string, args ...any) {
	fmt.Fprintf(w.p.Stderr, "%s: warning: %s\n", w.p.Name, fmt.Sprintf(format, args...))
}

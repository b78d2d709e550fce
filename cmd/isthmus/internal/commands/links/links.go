package links

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"isthmus/cmd/isthmus/internal/cli"
	"isthmus/cmd/isthmus/internal/commands"
	"isthmus/internal/adminapi"
	"isthmus/internal/pace"
)

// All returns all commands of this package, in the order in which the program's overview lists
// them.
func All() []cli.Command {
	return []cli.Command{linkCommand(), unlinkCommand(), cordonCommand(), uncordonCommand()}
}

func replicaFlags(s *pflag.FlagSet, t *commands.Target) {
	t.AdminFlag(s)
	t.PodFlag(s)
	s.DurationVar(&t.Timeout, "timeout", time.Minute, "Finish within this `DURATION`.")
}

// oneReplica marks --admin and --pod as mutually exclusive, because each flag selects a single
// replica.
var oneReplica = [][2]string{{"admin", "pod"}}

// work carries out and reports the steps of a command. With --dry-run, the steps are reported but
// not carried out.
type work struct {
	p   cli.Process
	out io.Writer // receives the reports
	dry bool
}

// do carries out a step. The verb must end in "e", like "create".
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

// wait runs a function. After a second, the method prints what the command is waiting for.
func (w *work) wait(what string, f func() error) error {
	return w.p.Await(context.Background(), ": "+what, f)
}

// within is like wait, but cancels the context of the function after a time limit.
func (w *work) within(ctx context.Context, limit time.Duration, what string, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return w.wait(what, func() error { return f(ctx) })
}

func (w *work) warn(format string, args ...any) {
	fmt.Fprintf(w.p.Stderr, "%s: warning: %s\n", w.p.Name, fmt.Sprintf(format, args...))
}

// pollEvery is the interval at which a command polls the replicas that it waits for.
const pollEvery = 500 * time.Millisecond

// lacks is the type of a function that checks whether a replica's page shows the awaited change. If
// the page does not show the whole change yet, the function describes what is still missing. If
// nothing is missing, the description is "". If the page will never show the change, the result is
// an error.
type lacks func(adminapi.Clusters) (string, error)

// awaitReplicas waits until the pages of all replicas show the awaited change. If no replica
// responds to the first request, there may be no running replica, so awaitReplicas returns an error
// immediately.
func awaitReplicas(ctx context.Context, w *work, t *commands.Target, what string, page lacks) error {
	return w.p.Await(context.Background(), fmt.Sprintf(" until every replica %s, for up to %v", what, t.Timeout),
		func() error {
			why, reached := "", false
			for {
				now, answered, err := askAll(ctx, w, t, page)
				if err != nil || now == "" {
					return err
				}
				reached = reached || answered
				if !reached {
					return errors.New(now)
				}
				if ctx.Err() == nil || why == "" { // the last request may be cut off
					why = now
				}
				if !pace.Sleep(ctx, pollEvery) {
					if ctx.Err() == context.Canceled {
						return fmt.Errorf("interrupted before every replica %s: %s", what, why)
					}
					return fmt.Errorf("not every replica %s within %v (--timeout): %s", what, t.Timeout, why)
				}
			}
		})
}

// askAll queries all replicas. If a replica does not respond or its page does not show the whole
// change yet, the first result describes the problem. If all pages show the change, the first
// result is "". The second result reports whether any replica responded.
func askAll(ctx context.Context, w *work, t *commands.Target, page lacks) (why string, answered bool, err error) {
	answers, err := commands.ReadAll[adminapi.Clusters](ctx, w.p, t, "/debug/clusters")
	if err != nil {
		return err.Error(), false, nil
	}
	for _, a := range answers {
		answered = answered || a.Err == nil
		if err := a.OtherFormat(w.p.Build); a.Err == nil && err != nil {
			return "", true, fmt.Errorf("%s: %w", commands.Printable(a.Replica), err)
		}
		if a.Err != nil {
			why = commands.Printable(a.Replica) + ": " + a.Err.Error()
		} else if text, err := page(*a.Value); err != nil {
			return "", true, err
		} else if text != "" {
			why = commands.Printable(a.Replica) + ": " + text
		}
	}
	return why, answered, nil
}

func describeCluster(c *adminapi.Cluster) string {
	warnings := slices.Clone(c.Warnings)
	if i := slices.Index(warnings, c.NewCredentials); i > 0 {
		warnings = slices.Insert(slices.Delete(warnings, i, i+1), 0, c.NewCredentials)
	}
	texts := slices.Concat([]string{string(c.State)}, warnings[:min(len(warnings), 5)])
	for i, text := range texts {
		texts[i] = commands.Printable(text)
	}
	if c.Reason != "" {
		texts[0] += ": " + commands.Printable(c.Reason)
	}
	return strings.Join(texts, "; ")
}

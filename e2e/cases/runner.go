package cases

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"k8s.io/client-go/rest"
)

// Environment is what cases are run against.
type Environment struct {
	Clusters map[string]Cluster // by the names of clusterNames
	Gateway  Gateway
	Tool     Tool // without Path: none
}

// Cluster is a Kubernetes API, whose server can be made to fail.
type Cluster interface {
	REST() *rest.Config // an administrator's
	Kill() error
	Restart(context.Context) error
	Pause() error
	Resume() error
}

// Gateway is the server under test.
type Gateway interface {
	Addr() string                // of gRPC
	MetricsAddr() string         // of HTTP
	Check(context.Context) error // fails while it is halted
	Log(lines int) string
	Halt() error
	// Restart starts it anew, with more flags. Words NAME=VALUE, which flags can't be, go into its environment.
	Restart(ctx context.Context, args ...string) error
}

// Options are a Runner's.
type Options struct {
	Trace   func(line string) // is called with each command as it begins; may be nil
	Timeout time.Duration     // of an expectation; zero: defaultTimeout
	Limit   time.Duration     // of a whole case; zero: five minutes
	Beside  bool              // other cases run at the same time: links stay. See Case.Alone
}

// Runner runs cases one after the other.
type Runner struct {
	env     Environment
	opt     Options
	writers map[string]*writer
	dead    net.Conn     // its own address refuses connections: it is taken, and nothing listens
	silent  net.Listener // never answers: the kernel accepts its connections, and nothing reads
}

// Result is what came of a case.
type Result struct {
	Case *Case
	Err  error // what failed, with all there is to know about it
	Took time.Duration
}

// NewRunner returns a Runner for an environment. Close it when done.
func NewRunner(env Environment, opt Options) (*Runner, error) {
	if opt.Limit == 0 {
		opt.Limit = 5 * time.Minute
	}
	if opt.Timeout == 0 {
		opt.Timeout = defaultTimeout
	}
	r := &Runner{env: env, opt: opt, writers: map[string]*writer{}}
	for name, c := range env.Clusters {
		w, err := newWriter(name, c.REST())
		if err != nil {
			return nil, err
		}
		r.writers[name] = w
	}
	var err error
	if r.silent, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return nil, err
	}
	bound := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}}
	if r.dead, err = bound.Dial("tcp", r.silent.Addr().String()); err != nil {
		return nil, errors.Join(err, r.silent.Close())
	}
	return r, nil
}

// Close gives back what the runner holds. The environment stays.
func (r *Runner) Close() error {
	for _, w := range r.writers {
		w.Close()
	}
	return errors.Join(r.dead.Close(), r.silent.Close())
}

func (r *Runner) trace(format string, args ...any) {
	if r.opt.Trace != nil {
		r.opt.Trace(fmt.Sprintf(format, args...))
	}
}

// Run runs a case and leaves the environment as it was before.
func (r *Runner) Run(ctx context.Context, c *Case) Result {
	start := time.Now()
	err := r.run(ctx, c)
	return Result{Case: c, Err: err, Took: time.Since(start)}
}

func (r *Runner) run(ctx context.Context, c *Case) (err error) {
	caseCtx, cancel := context.WithTimeout(ctx, r.opt.Limit)
	defer cancel()
	if err := r.revive(caseCtx, c.Restarts); err != nil {
		return fmt.Errorf("before the case: %w", err)
	}
	one := newRun(caseCtx, r, c)
	defer func() {
		// Also when the case ran out of time, or was interrupted.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 4*time.Minute)
		defer cancel()
		undo := one.end(ctx)
		if !one.flagged && err == nil { // else it is halted, or has been looked at, or may have
			undo = errors.Join(undo, r.env.Gateway.Check(ctx))
		}
		if undo != nil {
			err = errors.Join(err, fmt.Errorf("after the case: %w", undo))
		}
	}()
	if err = errors.Join(one.steps(caseCtx), r.env.Gateway.Check(caseCtx)); err != nil {
		return fmt.Errorf("%w\n%s", err, one.report())
	}
	return nil
}

// revive starts anew what has died since the last case, which has failed for that, and the gateway
// if that case has left it halted and the next does not begin by starting it.
func (r *Runner) revive(ctx context.Context, restarted bool) error {
	for name, w := range r.writers {
		err := w.answers(ctx)
		if err == nil {
			continue
		}
		r.trace("cluster %s is started anew: %v", name, err)
		if err := r.env.Clusters[name].Restart(ctx); err != nil {
			return err
		}
	}
	if restarted {
		return nil
	}
	err := r.env.Gateway.Check(ctx)
	if err == nil {
		return nil
	}
	r.trace("the gateway is started anew: %v", err)
	return r.env.Gateway.Restart(ctx)
}

package cases

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"k8s.io/client-go/rest"
)

// Environment consists of the clusters and the server that cases use.
type Environment struct {
	Clusters map[string]Cluster // by the names in clusterNames
	Gateway  Gateway
	Tool     Tool // optional; without Path, there is no command
}

// Cluster is an API server that can simulate faults.
type Cluster interface {
	REST() *rest.Config // an administrator's configuration
	Kill() error
	Restart(context.Context) error
	Pause() error
	Resume() error
}

// Gateway is the server under test.
type Gateway interface {
	Addr() string                // gRPC address
	MetricsAddr() string         // address of the admin server
	Check(context.Context) error // fails while the server is stopped
	Log(lines int) string
	Halt() error
	// Restart restarts the server with additional flags. Arguments of the form NAME=VALUE are
	// environment variables.
	Restart(ctx context.Context, args ...string) error
}

type Options struct {
	Trace   func(line string) // optional; called before each command
	Timeout time.Duration     // timeout of an expectation; zero means defaultTimeout
	Limit   time.Duration     // timeout of a case, and of the cleanup after it; zero means defaultLimit
	Beside  bool              // other cases run in parallel, so that links must be kept: see Case.Alone
}

// Runner runs cases one after the other.
type Runner struct {
	env     Environment
	opt     Options
	writers map[string]*writer
	dead    net.Conn     // an address that refuses connections, because it is in use without a listener
	silent  net.Listener // accepts connections in its backlog but never responds
}

type Result struct {
	Case *Case
	Err  error // detailed error of a failed case
	Took time.Duration
}

// NewRunner returns a Runner for an environment. It must be closed after use.
func NewRunner(env Environment, opt Options) (*Runner, error) {
	if opt.Limit == 0 {
		opt.Limit = defaultLimit
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

// Close releases the runner's resources. The environment is not closed.
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

// Run runs a case and restores the environment.
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
		// The cleanup also runs after a timeout or an interrupt.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.opt.Limit)
		defer cancel()
		undo := one.end(ctx)
		if !one.flagged && err == nil { // a flagged replica is stopped
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

// revive restarts processes that died during the previous case, which failed for that reason. It
// also restarts a replica that the previous case left stopped, unless the next case begins with a
// restart.
func (r *Runner) revive(ctx context.Context, restarted bool) error {
	for name, w := range r.writers {
		err := w.answers(ctx)
		if err == nil {
			continue
		}
		r.trace("cluster %s is restarted: %v", name, err)
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
	r.trace("the replica is restarted: %v", err)
	return r.env.Gateway.Restart(ctx)
}

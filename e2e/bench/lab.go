package bench

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"isthmus/e2e/bench/proc"
	"isthmus/e2e/bench/world"
)

// Config is what to measure with.
type Config struct {
	Scale        Scale
	Dir          string   // for files, the clusters' state among them
	Kubeconfigs  []string // of filled clusters, as package world fills them; nil: clusters are started and filled
	Isthmus      string   // the gateway's program; empty: program.Isthmus
	Controlplane string   // the clusters' program; empty: program.Controlplane
	Floor        []string // the command that runs floor.Serve; the recording's path is appended
	List         []string // the command that runs fleet.List and prints the number; the kubeconfig's path is appended

	Addr string // of another server to measure, which follows the clusters; empty: the gateway
	Pid  int    // that server's process

	Log func(format string, args ...any) // gets a line for each step
}

func (c *Config) validate() error {
	switch {
	case c.Dir == "" || len(c.Floor) == 0 || len(c.List) == 0:
		return errors.New("bench: Config has no Dir, no Floor or no List")
	case (c.Addr == "") != (c.Pid == 0):
		return errors.New("bench: another server needs both Addr and Pid")
	case c.Addr != "" && c.Kubeconfigs == nil:
		return errors.New("bench: another server needs Kubeconfigs of running clusters")
	case c.Scale.Streams < c.Scale.World.App:
		return fmt.Errorf("bench: %d streams are too few for %d Services", c.Scale.Streams, c.Scale.World.App)
	}
	if c.Log == nil {
		c.Log = func(string, ...any) {}
	}
	return nil
}

// Lab is where trials are made.
type Lab struct {
	cfg   Config
	busy  func(ctx context.Context, over time.Duration) (float64, error) // which part of the processors is in use
	close func() error

	// Of the real clusters, if a trial uses them:
	world     *world.World
	recording string         // the file with what the measured server answers
	first     map[string]int // how many messages a stream of a family begins with
}

// Open sets up a lab for trials, with real clusters if one of them uses these. Close ends what it has started.
func Open(ctx context.Context, cfg Config, trials []Trial) (_ *Lab, err error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	l := &Lab{cfg: cfg, busy: proc.Busy, close: func() error { return nil }, recording: filepath.Join(cfg.Dir, "recording.json"), first: map[string]int{}}
	if !slices.ContainsFunc(trials, func(t Trial) bool { return t.fleet == nil }) {
		return l, nil
	}
	if err := l.fill(ctx, trials); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// fill starts and fills clusters, unless there are some, and records what the measured server answers to the families of
// trials.
func (l *Lab) fill(ctx context.Context, trials []Trial) (err error) {
	kubeconfigs := l.cfg.Kubeconfigs
	if kubeconfigs == nil {
		var stop func() error
		if kubeconfigs, stop, err = StartClusters(ctx, l.cfg); err != nil {
			return err
		}
		l.close = stop
	}
	if l.world, err = world.New(kubeconfigs); err != nil {
		return err
	}
	if err := l.world.Load(ctx); err != nil {
		return err
	}
	r := &run{Lab: l, kind: Gateway, kubeconfig: l.world.Kubeconfig()}
	if err := r.once(ctx, func(r *run) { r.record(trials) }); err != nil {
		return fmt.Errorf("record the server's answers: %w", err)
	}
	return nil
}

// Close ends the clusters, if the lab has started them.
func (l *Lab) Close() error { return l.close() }

package bench

import (
	"context"
	"errors"
	"time"

	"isthmus/e2e/bench/proc"
)

// Config is what to measure with.
type Config struct {
	Scale   Scale
	Dir     string   // for files
	Isthmus string   // the gateway's program; empty: program.Isthmus
	Floor   []string // the command that runs floor.Serve; the recording's path is appended
	List    []string // the command that runs fleet.List and prints the number; the kubeconfig's path is appended

	Log func(format string, args ...any) // gets a line for each step
}

// Lab is where trials are made.
type Lab struct {
	cfg  Config
	busy func(ctx context.Context, over time.Duration) (float64, error) // which part of the processors is in use
}

// NewLab returns a lab. It starts nothing.
func NewLab(cfg Config) (*Lab, error) {
	if cfg.Dir == "" || len(cfg.Floor) == 0 || len(cfg.List) == 0 {
		return nil, errors.New("bench: Config has no Dir, no Floor or no List")
	}
	if cfg.Log == nil {
		cfg.Log = func(string, ...any) {}
	}
	return &Lab{cfg: cfg, busy: proc.Busy}, nil
}

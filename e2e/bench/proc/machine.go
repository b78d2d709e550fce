package proc

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/procfs"

	"isthmus/e2e/poll"
)

// Busy measures for a while and returns which part of all processors' time was in use: 0 is none, 1 is all. Waiting for a
// disk counts as idle, and what a hypervisor takes (steal) as in use.
func Busy(ctx context.Context, over time.Duration) (float64, error) {
	idle, all, err := times()
	if err != nil {
		return 0, err
	}
	if err := poll.Pause(ctx, over); err != nil {
		return 0, err
	}
	idleAfter, allAfter, err := times()
	if err != nil {
		return 0, err
	}
	if allAfter <= all {
		return 0, errors.New("/proc/stat counts no time")
	}
	// The kernel's counts of waiting and of steal may go back a little.
	return min(1, max(0, 1-(idleAfter-idle)/(allAfter-all))), nil
}

// times are those of all processors since the machine's start, in seconds. Those of guests are part of user and nice.
func times() (idle, all float64, err error) {
	proc, err := procfs.NewDefaultFS()
	if err != nil {
		return 0, 0, err
	}
	stat, err := proc.Stat()
	t := stat.CPUTotal
	idle = t.Idle + t.Iowait
	return idle, idle + t.User + t.Nice + t.System + t.IRQ + t.SoftIRQ + t.Steal, err
}

// Package proc reads from a Linux kernel what a process costs, its processor time and its memory, and how busy the machine
// is.
package proc

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"isthmus/e2e/poll"
)

// CPU returns the time that all threads of a process have had on processors, in user and kernel mode. /proc/PID/stat has
// the same in steps of 10 ms; the process's own clock has nanoseconds.
func CPU(pid int) (time.Duration, error) {
	const schedClock = 2 // CPUCLOCK_SCHED; the clock's number is made from that and the process's
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|schedClock), &t); err != nil {
		return 0, fmt.Errorf("processor time of process %d: %w", pid, err)
	}
	return time.Duration(t.Nano()), nil
}

// Memory is what a process takes, in bytes.
type Memory struct {
	RSS uint64 // resident
}

// ReadMemory reads a process's memory.
func ReadMemory(pid int) (Memory, error) {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return Memory{}, err
	}
	all, err := p.ProcSMapsRollup()
	return Memory{all.Rss}, some(all.Rss, pid, err)
}

// Peak returns the most resident memory that a process has had, in bytes.
func Peak(pid int) (uint64, error) {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return 0, err
	}
	status, err := p.NewStatus()
	return status.VmHWM, some(status.VmHWM, pid, err)
}

// some returns an error if a process has no memory: it has ended, and its parent has not asked how yet.
func some(bytes uint64, pid int, err error) error {
	if err == nil && bytes == 0 {
		err = fmt.Errorf("process %d has no memory: it has ended", pid)
	}
	return err
}

// ResetPeak lets a process's Peak begin anew, at what it has now.
func ResetPeak(pid int) error {
	return os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0)
}

// Settled returns a process's memory once it has not sunk by a hundredth within a second, at the latest after limit. What
// a Go program no longer uses it gives back little by little.
func Settled(ctx context.Context, pid int, limit time.Duration) (Memory, error) {
	last, err := ReadMemory(pid)
	for began := time.Now(); err == nil && time.Since(began) < limit; {
		if err := poll.Pause(ctx, time.Second); err != nil {
			return Memory{}, err
		}
		before := last
		if last, err = ReadMemory(pid); last.RSS+before.RSS/100 >= before.RSS {
			break
		}
	}
	return last, err
}

package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
)

// CPUTime returns the time that all threads of a process have had on processors, in user and kernel
// mode. /proc/PID/stat has the same in steps of 10 ms; the process's own clock has nanoseconds.
func CPUTime(pid int) (time.Duration, error) {
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
	return Memory{all.Rss}, someMemory(all.Rss, pid, err)
}

// PeakMemory returns the most resident memory that a process has had, in bytes.
func PeakMemory(pid int) (uint64, error) {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return 0, err
	}
	status, err := p.NewStatus()
	return status.VmHWM, someMemory(status.VmHWM, pid, err)
}

// someMemory returns an error if a process has no memory: it has ended, and its parent has not asked how yet.
func someMemory(bytes uint64, pid int, err error) error {
	if err == nil && bytes == 0 {
		err = fmt.Errorf("process %d has no memory: it has ended", pid)
	}
	return err
}

// ResetPeak lets a process's Peak begin anew, at what it has now.
func ResetPeak(pid int) error {
	return os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0)
}

// Settled returns a process's memory once it has not sunk by a hundredth within a second, at the
// latest after limit. What a Go program no longer uses it gives back little by little.
func Settled(ctx context.Context, pid int, limit time.Duration) (Memory, error) {
	last, err := ReadMemory(pid)
	for began := time.Now(); err == nil && time.Since(began) < limit; {
		if err := Pause(ctx, time.Second); err != nil {
			return Memory{}, err
		}
		before := last
		if last, err = ReadMemory(pid); last.RSS+before.RSS/100 >= before.RSS {
			break
		}
	}
	return last, err
}

// MachineBusy measures for a while and returns which part of all processors' time was in use: 0 is
// none, 1 is all. Waiting for a disk counts as idle, and what a hypervisor takes (steal) as in use.
func MachineBusy(ctx context.Context, over time.Duration) (float64, error) {
	idle, all, err := cpuTimes()
	if err != nil {
		return 0, err
	}
	if err := Pause(ctx, over); err != nil {
		return 0, err
	}
	idleAfter, allAfter, err := cpuTimes()
	if err != nil {
		return 0, err
	}
	if allAfter <= all {
		return 0, errors.New("/proc/stat counts no time")
	}
	// The kernel's counts of waiting and of steal may go back a little.
	return min(1, max(0, 1-(idleAfter-idle)/(allAfter-all))), nil
}

// cpuTimes are those of all processors since the machine's start, in seconds. Those of guests are
// part of user and nice.
func cpuTimes() (idle, all float64, err error) {
	proc, err := procfs.NewDefaultFS()
	if err != nil {
		return 0, 0, err
	}
	stat, err := proc.Stat()
	t := stat.CPUTotal
	idle = t.Idle + t.Iowait
	return idle, idle + t.User + t.Nice + t.System + t.IRQ + t.SoftIRQ + t.Steal, err
}

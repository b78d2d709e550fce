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

// CPUTime returns the user and system CPU time of all threads of a process. It reads the process's
// CPU clock, whose resolution is a nanosecond instead of the 10 ms of /proc/PID/stat.
func CPUTime(pid int) (time.Duration, error) {
	const schedClock = 2 // CPUCLOCK_SCHED, part of the number of a process's clock
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|schedClock), &t); err != nil {
		return 0, fmt.Errorf("CPU time of process %d: %w", pid, err)
	}
	return time.Duration(t.Nano()), nil
}

// Memory is the memory usage of a process in bytes.
type Memory struct {
	RSS uint64 // resident
}

func ReadMemory(pid int) (Memory, error) {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return Memory{}, err
	}
	all, err := p.ProcSMapsRollup()
	return Memory{all.Rss}, someMemory(all.Rss, pid, err)
}

// PeakMemory returns the peak resident memory of a process in bytes.
func PeakMemory(pid int) (uint64, error) {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return 0, err
	}
	status, err := p.NewStatus()
	return status.VmHWM, someMemory(status.VmHWM, pid, err)
}

// someMemory returns an error if a process has no memory: such a process has ended but has not been
// reaped.
func someMemory(bytes uint64, pid int, err error) error {
	if err == nil && bytes == 0 {
		err = fmt.Errorf("process %d has ended", pid)
	}
	return err
}

// ResetPeak resets the peak memory of a process to its current memory.
func ResetPeak(pid int) error {
	return os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0)
}

// Settled waits until the memory of a process shrinks by less than 1 % per second, but at most for
// the limit, and returns that memory. A Go program returns unused memory to the system gradually.
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

// MachineBusy measures the CPU usage of the machine, from 0 (idle) to 1 (all processors busy).
// Waiting for a disk counts as idle, and time taken by a hypervisor (steal) as busy.
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
		return 0, errors.New("/proc/stat contains no CPU times")
	}
	// The kernel's iowait and steal counters can decrease.
	return min(1, max(0, 1-(idleAfter-idle)/(allAfter-all))), nil
}

// cpuTimes returns the seconds since boot for all processors together. The user and nice times
// already include guest time.
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

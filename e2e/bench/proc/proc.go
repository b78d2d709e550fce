// Package proc reads from a Linux kernel what a process costs, its processor time and its memory, and how busy the machine
// is.
package proc

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
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
	RSS uint64 `json:"rss"` // resident
	PSS uint64 `json:"pss"` // resident, pages that are shared counting in part
}

// ReadMemory reads a process's memory.
func ReadMemory(pid int) (Memory, error) {
	path := fmt.Sprintf("/proc/%d/smaps_rollup", pid)
	text, err := os.ReadFile(path)
	if err != nil {
		return Memory{}, err
	}
	m, err := parseRollup(text)
	if err != nil {
		return Memory{}, fmt.Errorf("%s: %w", path, err)
	}
	return m, nil
}

// parseRollup reads the lines "Rss: N kB" and "Pss: N kB".
func parseRollup(text []byte) (m Memory, err error) {
	found := 0
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), ":")
		field := map[string]*uint64{"Rss": &m.RSS, "Pss": &m.PSS}[name]
		if field == nil {
			continue
		}
		kilobytes, ok := strings.CutSuffix(strings.TrimSpace(value), " kB")
		if *field, err = strconv.ParseUint(kilobytes, 10, 54); err != nil || !ok {
			return Memory{}, fmt.Errorf("%s is %q, not kilobytes", name, strings.TrimSpace(value))
		}
		*field *= 1024
		found++
	}
	if found != 2 {
		return Memory{}, fmt.Errorf("%d of the lines Rss and Pss, not one of each", found)
	}
	return m, nil
}

// Peak returns the most resident memory that a process has had, in bytes.
func Peak(pid int) (uint64, error) {
	path := fmt.Sprintf("/proc/%d/status", pid)
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		var kilobytes uint64
		if _, err := fmt.Sscanf(lines.Text(), "VmHWM: %d kB", &kilobytes); err == nil {
			return kilobytes * 1024, nil
		}
	}
	return 0, fmt.Errorf("%s has no line VmHWM", path)
}

// ResetPeak lets a process's Peak begin anew, at what it has now.
func ResetPeak(pid int) error {
	return os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0)
}

// Settled returns a process's memory once it has not sunk by a hundredth within a second, at the latest after most. What
// a Go program no longer uses it gives back little by little.
func Settled(ctx context.Context, pid int, most time.Duration) (Memory, error) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	last, err := ReadMemory(pid)
	for began := time.Now(); err == nil && time.Since(began) < most; {
		select {
		case <-ctx.Done():
			return Memory{}, ctx.Err()
		case <-tick.C:
		}
		before := last
		if last, err = ReadMemory(pid); last.RSS+before.RSS/100 >= before.RSS {
			break
		}
	}
	return last, err
}

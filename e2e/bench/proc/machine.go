package proc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"isthmus/e2e/poll"
)

// Busy measures for a while and returns which part of all processors' time was in use: 0 is none, 1 is all. Waiting for a
// disk counts as idle, and what a hypervisor takes (steal) as in use.
func Busy(ctx context.Context, over time.Duration) (float64, error) {
	before, err := readTimes()
	if err != nil {
		return 0, err
	}
	if err := poll.Pause(ctx, over); err != nil {
		return 0, err
	}
	after, err := readTimes()
	if err != nil {
		return 0, err
	}
	return after.busySince(before)
}

// busySince returns which part of the time since before was not idle. The kernel's counts of waiting and of steal may go
// back a little.
func (t times) busySince(before times) (float64, error) {
	if t.all <= before.all {
		return 0, errors.New("/proc/stat counts no time")
	}
	return min(1, max(0, 1-(t.idle-before.idle)/(t.all-before.all))), nil
}

// times are those of all processors since the machine's start, in ticks.
type times struct{ idle, all float64 }

func readTimes() (times, error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return times{}, err
	}
	return parseTimes(text)
}

// parseTimes reads the first line of /proc/stat: "cpu", then user, nice, system, idle, iowait, irq, softirq, steal. Those
// after that, of guests, are part of user and nice.
func parseTimes(text []byte) (t times, err error) {
	line, _, _ := bytes.Cut(text, []byte("\n"))
	fields := strings.Fields(string(line))
	if len(fields) < 9 || fields[0] != "cpu" {
		return times{}, fmt.Errorf("/proc/stat begins with %q, not with the times of all processors", line)
	}
	for i, f := range fields[1:9] {
		ticks, err := strconv.ParseUint(f, 10, 64)
		if err != nil {
			return times{}, fmt.Errorf("/proc/stat: %w", err)
		}
		t.all += float64(ticks)
		if i == 3 || i == 4 {
			t.idle += float64(ticks)
		}
	}
	return t, nil
}

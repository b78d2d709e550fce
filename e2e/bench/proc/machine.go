package proc

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"isthmus/e2e/poll"
)

// Busy returns the part of the processors' time, over the next while, that somebody uses: from 0, all are idle, to 1.
// Waiting for a disk is idle here, and what a hypervisor takes is used.
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
	if after.all <= before.all {
		return 0, fmt.Errorf("/proc/stat counts no time in %v", over)
	}
	return 1 - (after.idle-before.idle)/(after.all-before.all), nil
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

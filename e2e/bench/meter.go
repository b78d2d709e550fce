package bench

import (
	"context"
	"time"

	"isthmus/e2e/bench/load"
	"isthmus/e2e/bench/proc"
	"isthmus/e2e/poll"
)

// meter measures, since a moment, what streams are sent and what that costs the server.
type meter struct {
	pid     int
	streams *load.Load
	began   time.Time
	start   time.Duration // the server's processor time then

	before, beforeBytes int // received then
}

// startMeter measures from now on.
func startMeter(pid int, streams *load.Load) (*meter, error) {
	start, err := proc.CPU(pid)
	return &meter{pid: pid, streams: streams, began: time.Now(), start: start, before: streams.Received(), beforeBytes: streams.Bytes()}, err
}

// startPeakMeter is startMeter that lets the server's peak begin anew as well.
func startPeakMeter(pid int, streams *load.Load) (*meter, error) {
	if err := proc.ResetPeak(pid); err != nil {
		return nil, err
	}
	return startMeter(pid, streams)
}

// cpu returns the processor time that the server has had.
func (m *meter) cpu() (time.Duration, error) {
	now, err := proc.CPU(m.pid)
	return now - m.start, err
}

// messages returns how many all streams have received.
func (m *meter) messages() int { return m.streams.Received() - m.before }

// bytes returns how large these were in all.
func (m *meter) bytes() float64 { return float64(m.streams.Bytes() - m.beforeBytes) }

// cpuOf does something, and returns the processor time that it cost a process, until a while later.
func cpuOf(ctx context.Context, pid int, do func() error) (time.Duration, error) {
	start, err := proc.CPU(pid)
	if err != nil {
		return 0, err
	}
	if err := do(); err != nil {
		return 0, err
	}
	if err := poll.Pause(ctx, aftermath); err != nil {
		return 0, err
	}
	end, err := proc.CPU(pid)
	return end - start, err
}

// share returns what part of one core processor time is, in percent.
func share(cpu, took time.Duration) float64 { return 100 * cpu.Seconds() / took.Seconds() }

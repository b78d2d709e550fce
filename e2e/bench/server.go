package bench

import (
	"errors"
	"slices"
	"time"

	"isthmus/e2e/bench/load"
	"isthmus/e2e/harness"
)

// aftermath is how long after the work what it costs is read.
const aftermath = time.Second

// server is a running floor or gateway, until its run ends.
type server struct {
	*run
	addr    string
	pid     int
	admin   string        // HOST:PORT of the gateway's pages
	started time.Time     // when its process was
	ready   time.Duration // it took to start

	floor *floorProcess  // nil: it is no floor
	steps map[string]int // that the floor has made, by method and authority
}

// gatewayArgs are the flags of a Linkerd install, beyond those of harness.BaseArgs, and an end without delay.
func gatewayArgs() []string {
	return []string{
		"-log-level=info",
		"-outbound-transport-mode=transport-header",
		"-target-cluster-label=true",
		"-shutdown-delay=0s",
		"-drain=0s",
	}
}

// start starts a server of the run's kind, with more flags if it is the gateway.
func (r *run) start(flags ...string) *server { return r.startReplica("", flags...) }

// startReplica is start for a replica of a name of its own, if it is the gateway.
func (r *run) startReplica(name string, flags ...string) *server {
	s := &server{run: r, started: time.Now(), steps: map[string]int{}}
	switch {
	case r.kind == Floor:
		s.floor = must(startFloor(r.ctx, append(slices.Clip(r.Floor), r.recording)...))
		s.addr, s.pid = s.floor.Addr(), s.floor.Pid()
		r.atEnd(s.floor.Stop)
	default:
		g := must(harness.StartReplica(r.ctx, harness.ReplicaConfig{
			Binary:     r.Isthmus,
			Kubeconfig: r.kubeconfig,
			Hostname:   name,
			Env:        r.env,
			Args:       append(gatewayArgs(), flags...),
		}))
		s.addr, s.pid, s.admin = g.Addr(), g.Pid(), g.MetricsAddr()
		r.atEnd(func() error { return errors.Join(g.Check(r.ctx), g.Stop()) })
	}
	s.ready = time.Since(s.started)
	return s
}

// cpu returns the processor time that the server has had.
func (s *server) cpu() time.Duration { return must(harness.CPUTime(s.pid)) }

// rss returns the server's resident memory, in bytes.
func (s *server) rss() float64 { return float64(must(harness.ReadMemory(s.pid)).RSS) }

// settled is rss once that sinks no more.
func (s *server) settled() float64 {
	return float64(must(harness.Settled(s.ctx, s.pid, s.Scale.Settle)).RSS)
}

// peak returns the server's highest resident memory since its start, or since resetPeak.
func (s *server) peak() float64 { return float64(must(harness.PeakMemory(s.pid))) }

func (s *server) resetPeak() { check(harness.ResetPeak(s.pid)) }

// open opens streams, until the run ends at the latest.
func (s *server) open(cfg load.Config) *load.Load {
	cfg.Addr = s.addr
	streams := must(load.Open(s.ctx, cfg))
	s.atEnd(streams.Close)
	return streams
}

// cost does something, and returns the processor time that it takes the server until a while later.
func (s *server) cost(do func()) time.Duration {
	before := s.cpu()
	do()
	s.pause(aftermath)
	return s.cpu() - before
}

// change is something that happens to clusters, and of which streams of one method are sent a message.
type change struct {
	cluster     int
	service     string // one of its endpoints goes, or comes back
	method      string // profileMethod: no endpoint, but the protocol of the local cluster's Service's port
	authorities []string
}

// change makes a change, which the floor is ordered to send, and returns when the streams could be sent it.
func (s *server) change(c change) time.Time {
	switch {
	case s.floor != nil:
		for _, authority := range c.authorities {
			topic := c.method + " " + authority
			check(s.floor.Step(c.method, authority, s.steps[topic]))
			s.steps[topic]++
		}
	case c.method == profileMethod:
		check(s.fleet.FlipProfile(c.service))
	default:
		check(s.fleet.Flip(c.cluster, c.service))
	}
	return time.Now()
}

// meter measures, since a moment, what streams are sent and what that costs the server.
type meter struct {
	*server
	streams *load.Load
	began   time.Time

	cpuBefore                   time.Duration
	messagesBefore, bytesBefore int
}

// meter measures from now on.
func (s *server) meter(streams *load.Load) *meter {
	return &meter{
		server:         s,
		streams:        streams,
		began:          time.Now(),
		cpuBefore:      s.cpu(),
		messagesBefore: streams.Received(),
		bytesBefore:    streams.Bytes(),
	}
}

// spent returns the processor time that the server has had.
func (m *meter) spent() time.Duration { return m.cpu() - m.cpuBefore }

// messages returns how many all streams have received.
func (m *meter) messages() int { return m.streams.Received() - m.messagesBefore }

// bytes returns how large these were in all.
func (m *meter) bytes() float64 { return float64(m.streams.Bytes() - m.bytesBefore) }

// share returns what part of one core processor time is, in percent.
func share(cpu, took time.Duration) float64 { return 100 * cpu.Seconds() / took.Seconds() }

// perStream returns the kilobytes that each of so many streams has.
func perStream(bytes float64, streams *load.Load) float64 {
	return bytes / 1000 / float64(streams.Streams())
}

// latest returns when the last message came.
func latest(streams *load.Load) (last time.Time) {
	streams.Arrivals(func(_ load.Target, at []time.Time) {
		if newest := at[len(at)-1]; newest.After(last) {
			last = newest
		}
	})
	return last
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
func microseconds(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
func megabytes(bytes float64) float64      { return bytes / 1e6 }

package bench

import (
	"regexp"
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

// connectTwice opens all streams at once and lets something be done under them, ends them at once and opens them again.
func (s *server) connectTwice(cfg load.Config, do func(*load.Load)) {
	keepFirst(cfg.Targets)
	before := s.settled()
	streams, cpu := s.connect(cfg, nil)
	s.set("cpu", cpu.Seconds())
	s.set("memory", perStream(s.rss()-before, streams))
	s.set("bytes", float64(streams.Bytes())/float64(streams.Streams()))
	do(streams)
	if s.kind == Gateway {
		s.record(streams)
	}
	_, cpu = s.connect(cfg, streams)
	s.set("reconnect", cpu.Seconds())
}

// connect ends the streams that there were, if any, and opens all, and returns what that cost.
func (s *server) connect(cfg load.Config, before *load.Load) (streams *load.Load, cpu time.Duration) {
	cpu = s.cost(func() {
		if before != nil {
			check(before.Close())
		}
		streams = s.open(cfg)
	})
	return streams, cpu
}

// update changes services under open streams: endpoints, which the federated Service has and the
// local one if the endpoint is local, and the profiles of both.
func (s *server) update(streams *load.Load, scale ProxiesScale) {
	of := map[[2]string]int{} // streams
	streams.Arrivals(func(t load.Target, _ []time.Time) { of[[2]string{t.Method, t.Authority}]++ })
	m, expected, every := s.meter(streams), 0, time.Second/time.Duration(scale.Rate)
	next := time.Now()
	for range 2 {
		for i := range scale.Changed {
			for _, c := range serviceChanges(i) {
				s.pause(time.Until(next))
				next = next.Add(every)
				c.authorities = slices.DeleteFunc(
					c.authorities,
					func(a string) bool { return of[[2]string{c.method, a}] == 0 },
				)
				s.change(c)
				for _, authority := range c.authorities {
					expected += of[[2]string{c.method, authority}]
				}
			}
		}
	}
	s.settle(streams)
	cpu, updates := m.spent(), m.expect(expected)
	s.set("update", microseconds(cpu)/updates)
	s.set("update bytes", m.bytes()/updates)
}

// writes reports whether a replica is the one that writes what is exported.
func (s *server) writes() bool {
	samples := must(harness.ReadMetrics(s.ctx, s.admin))
	leads, _ := harness.SumSamples(samples, regexp.MustCompile("^isthmus_exports_leader"))
	return leads == 1
}

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

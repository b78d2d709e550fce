package bench

import (
	"regexp"
	"slices"
	"time"

	"isthmus/e2e/bench/load"
	"isthmus/e2e/harness"
)

// aftermath is the time between the end of the work and the measurement.
const aftermath = time.Second

// server is a running floor or replica. It stops at the end of the run.
type server struct {
	*run
	addr    string
	pid     int
	admin   string        // HOST:PORT of the replica's admin server
	started time.Time     // start of the process
	ready   time.Duration // time until ready

	floor *floorProcess  // nil for a replica
	steps map[string]int // number of the floor's steps by method and authority
}

// gatewayArgs returns the flags of a Linkerd installation in addition to harness.BaseArgs, without
// shutdown delays.
func gatewayArgs() []string {
	return []string{
		"-log-level=info",
		"-outbound-transport-mode=transport-header",
		"-target-cluster-label=true",
		"-shutdown-delay=0s",
		"-drain=0s",
	}
}

func (s *server) cpu() time.Duration { return must(harness.CPUTime(s.pid)) }

func (s *server) rss() float64 { return float64(must(harness.ReadMemory(s.pid)).RSS) }

// settled returns the server's resident memory when it no longer shrinks.
func (s *server) settled() float64 {
	return float64(must(harness.Settled(s.ctx, s.pid, s.Scale.Settle)).RSS)
}

// peak returns the server's peak resident memory since its start or the last resetPeak.
func (s *server) peak() float64 { return float64(must(harness.PeakMemory(s.pid))) }

func (s *server) resetPeak() { check(harness.ResetPeak(s.pid)) }

// open opens streams, which are closed at the end of the run at the latest.
func (s *server) open(cfg load.Config) *load.Load {
	cfg.Addr = s.addr
	streams := must(load.Open(s.ctx, cfg))
	s.atEnd(streams.Close)
	return streams
}

// cost returns the server's CPU time from the start of do until a while after its end.
func (s *server) cost(do func()) time.Duration {
	before := s.cpu()
	do()
	s.pause(aftermath)
	return s.cpu() - before
}

// change is a change in the clusters that some streams of one method receive.
type change struct {
	cluster     int
	service     string // Service with the changed endpoint or port
	method      string // profileMethod changes the protocol of a local port instead of an endpoint
	authorities []string
}

// change makes a change, or makes the floor send the corresponding message. It returns the time
// after the change.
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

// connectTwice opens all streams, calls do, and then closes and reopens all streams at once.
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

// connect closes the previous streams, if any, and opens new ones. It returns the server's CPU time
// for both.
func (s *server) connect(cfg load.Config, before *load.Load) (streams *load.Load, cpu time.Duration) {
	cpu = s.cost(func() {
		if before != nil {
			check(before.Close())
		}
		streams = s.open(cfg)
	})
	return streams, cpu
}

// update changes services with open streams. It changes endpoints, which affect the federated
// Service and, in the local cluster, also the local Service. It also changes the profiles of both
// Services.
func (s *server) update(streams *load.Load, scale ProxiesScale) {
	of := map[[2]string]int{} // number of streams by method and authority
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

// writes reports whether the replica holds the Lease for writing exports.
func (s *server) writes() bool {
	samples := must(harness.ReadMetrics(s.ctx, s.admin))
	leads, _ := harness.SumSamples(samples, regexp.MustCompile("^isthmus_exports_leader"))
	return leads == 1
}

func share(cpu, took time.Duration) float64 { return 100 * cpu.Seconds() / took.Seconds() }

func perStream(bytes float64, streams *load.Load) float64 {
	return bytes / 1000 / float64(streams.Streams())
}

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

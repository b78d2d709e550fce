package load

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"syscall"
	"time"

	"isthmus/e2e/poll"
	"isthmus/e2e/proxy"
)

// ProxiesConfig is who connects, and to what.
type ProxiesConfig struct {
	Addrs   []string      // of the replicas, as all proxies know them
	Targets [][]Target    // of each proxy, the streams of its connection
	Over    time.Duration // in which they start
}

// Proxies are clients that come back, as Linkerd's proxies do. Each has a connection of its own, to the first replica that takes
// it. When that ends, or a stream of it, or if a stream has had no message after three seconds, it waits a tenth of a second,
// twice as long after each failure, give or take a tenth, and tries all replicas again.
type Proxies struct {
	cfg     ProxiesConfig
	stop    context.CancelFunc
	running sync.WaitGroup

	mu       sync.Mutex
	loads    []*Load // of each proxy, nil: it has none now
	openings []Opening
	failures []Failure
}

// Opening is a connection of which each stream has had its first message.
type Opening struct {
	Addr  string
	Began time.Time   // when the proxy connected
	First []time.Time // when the first message of each stream came
}

// Failure is a connection that did not come so far, of the last replica that a proxy tried.
type Failure struct {
	Addr string
	Err  error
}

// StartProxies starts proxies, one after the other, until Close.
func StartProxies(cfg ProxiesConfig) *Proxies {
	ctx, stop := context.WithCancel(context.Background())
	p := &Proxies{cfg: cfg, stop: stop, loads: make([]*Load, len(cfg.Targets))}
	for i := range cfg.Targets {
		p.running.Go(func() {
			if poll.Pause(ctx, cfg.Over*time.Duration(i)/time.Duration(len(cfg.Targets))) == nil {
				p.run(ctx, i)
			}
		})
	}
	return p
}

// Close ends all connections.
func (p *Proxies) Close() {
	p.stop()
	p.running.Wait()
}

// Await returns once proxies have opened so many connections.
func (p *Proxies) Await(ctx context.Context, limit time.Duration, openings int) error {
	return poll.Until(ctx, limit, 5*time.Millisecond, func() error {
		p.mu.Lock()
		defer p.mu.Unlock()
		if n := len(p.openings); n < openings {
			return fmt.Errorf("%d connections have been opened, not %d; failures: %d %+v", n, openings, len(p.failures), p.failures[:min(1, len(p.failures))])
		}
		return nil
	})
}

// Openings returns what has been opened since a moment.
func (p *Proxies) Openings(since time.Time) (list []Opening) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, o := range p.openings {
		if o.Began.After(since) {
			list = append(list, o)
		}
	}
	return list
}

// Failures returns all failures.
func (p *Proxies) Failures() []Failure {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]Failure(nil), p.failures...)
}

// Loads returns the streams of each connection there is.
func (p *Proxies) Loads() (list []*Load) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.loads {
		if l != nil {
			list = append(list, l)
		}
	}
	return list
}

// run is one proxy.
func (p *Proxies) run(ctx context.Context, number int) {
	for pause := proxy.FirstPause; ctx.Err() == nil; pause = min(2*pause, proxy.LongestPause) {
		if l := p.connect(ctx, p.cfg.Targets[number]); l != nil {
			p.set(number, l)
			_ = l.ended(ctx) // which is what is waited for
			p.set(number, nil)
			_ = l.Close()
			pause = proxy.FirstPause
		}
		_ = poll.Pause(ctx, time.Duration(float64(pause)*(0.9+0.2*rand.Float64())))
	}
}

// connect tries all replicas; nil: none has answered.
func (p *Proxies) connect(ctx context.Context, targets []Target) *Load {
	var failure Failure
	for _, addr := range p.cfg.Addrs {
		began := time.Now()
		limited, cancel := context.WithTimeout(ctx, proxy.FirstMessageLimit)
		l, err := Open(limited, Config{Addr: addr, Conns: 1, Targets: targets})
		cancel()
		if err == nil {
			p.opened(l, addr, began)
			return l
		}
		if failure = (Failure{addr, err}); !errors.Is(err, syscall.ECONNREFUSED) {
			break
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if ctx.Err() == nil {
		p.failures = append(p.failures, failure)
	}
	return nil
}

// opened notes an opening.
func (p *Proxies) opened(l *Load, addr string, began time.Time) {
	o := Opening{Addr: addr, Began: began}
	l.Arrivals(func(_ Target, at []time.Time) { o.First = append(o.First, at[0]) })
	p.mu.Lock()
	defer p.mu.Unlock()
	p.openings = append(p.openings, o)
}

// set notes which streams a proxy has.
func (p *Proxies) set(number int, l *Load) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.loads[number] = l
}

package faults

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"isthmus/e2e/harness/kube"
	"isthmus/e2e/proxy"
)

// member is one cluster's part of a Service: stable addresses, and two moving addresses of which
// each turn replaces one.
type member struct {
	site               *site
	namespace, service string
	third              byte
	stable             []netip.AddrPort

	mu    sync.Mutex
	turn  int              // number of the last turn written
	extra []netip.AddrPort // additional addresses
}

func newMember(at *site, namespace, service string, third byte) *member {
	m := &member{site: at, namespace: namespace, service: service, third: third}
	for n := range 3 {
		m.stable = append(m.stable, m.addr(1+n))
	}
	return m
}

func (m *member) addr(last int) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, m.site.subnet, m.third, byte(last)}), kube.Port)
}

// moving returns the two moving addresses of a turn.
func (m *member) moving(turn int) []netip.AddrPort {
	const first, count = 10, 100
	return []netip.AddrPort{m.addr(first + turn%count), m.addr(first + (turn+1)%count)}
}

func (m *member) turns() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.turn
}

func (m *member) begin(ctx context.Context) error {
	if _, err := m.site.slice(ctx, m.namespace, m.service, "stable", m.stable...); err != nil {
		return err
	}
	return m.write(ctx, 0)
}

func (m *member) write(ctx context.Context, turn int) error {
	if _, err := m.site.slice(ctx, m.namespace, m.service, "moving", m.moving(turn)...); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.turn = turn
	return nil
}

// next performs the next turn and returns the new and the removed address.
func (m *member) next(ctx context.Context) (comes, goes netip.AddrPort, err error) {
	turn := m.turns()
	if err := m.write(ctx, turn+1); err != nil {
		return comes, goes, fmt.Errorf("%s: %w", m.service, err)
	}
	return m.moving(turn + 1)[1], m.moving(turn)[0], nil
}

func (m *member) now() []netip.AddrPort {
	m.mu.Lock()
	defer m.mu.Unlock()
	addrs := slices.Concat(m.stable, m.moving(m.turn), m.extra)
	slices.SortFunc(addrs, netip.AddrPort.Compare)
	return addrs
}

// has adds addresses that the cluster contains in addition to the stable and moving ones.
func (m *member) has(addrs ...netip.AddrPort) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.extra = append(m.extra, addrs...)
}

func (m *member) end(ctx context.Context) error {
	return m.site.client().
		DiscoveryV1().
		EndpointSlices(m.namespace).
		DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
}

func block(third byte, count int) (addrs []netip.AddrPort) {
	for n := range count {
		addrs = append(addrs, netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 200, third, byte(n)}), kube.Port))
	}
	return addrs
}

// churn continuously changes the endpoints of a stage. It waits until the proxy has received each
// change in a healthy cluster, and ignores failed writes to the faulty cluster.
type churn struct {
	stop context.CancelFunc
	done chan struct{}

	// The fields below are valid after done is closed.
	err   error
	turns int
	worst time.Duration // longest delay of a change in a healthy cluster
	lost  int           // number of failed writes to the faulty cluster
}

const pace = 150 * time.Millisecond

// step performs a turn in each cluster. It ignores the cancellation of the test, so that the state
// of the last write is known.
func (c *churn) step(s *stage) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.t.Context()), patience)
	defer cancel()
	for _, m := range s.healthy() {
		comes, goes, err := m.next(ctx)
		if err != nil {
			return err
		}
		began := time.Now()
		if err := arrives(ctx, s.all, comes, goes); err != nil {
			return fmt.Errorf("after %d turns: %s: %w", c.turns, m.service, err)
		}
		c.worst = max(c.worst, time.Since(began))
	}
	brief, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if _, _, err := s.faulty.next(brief); err != nil {
		c.lost++
	}
	c.turns++
	return nil
}

func arrives(ctx context.Context, s *proxy.Stream, comes, goes netip.AddrPort) error {
	return s.Until(ctx, patience, func() error {
		if now := s.Snapshot(); !now.Get.Has(comes) || now.Get.Has(goes) {
			return fmt.Errorf(
				"%v was not added or %v was not removed; the stream is %v (%v), its last messages are %v",
				comes,
				goes,
				now.Phase,
				now.Err,
				s.Recent(),
			)
		}
		return nil
	})
}

// finish ends the churn. It writes the faulty cluster's endpoints again, because the result of an
// earlier write may be unknown.
func (c *churn) finish(s *stage) {
	s.t.Helper()
	c.stop()
	<-c.done
	must(s.t, c.err)
	if c.turns == 0 {
		s.t.Error("no change in the meantime")
	}
	await(s.t, recovery, func() error {
		_, _, err := s.faulty.next(s.t.Context())
		return err
	})
	s.t.Logf(
		"%d turns, other clusters' changes within %v, %d failed writes to the faulty cluster",
		c.turns,
		c.worst.Round(time.Millisecond),
		c.lost,
	)
}

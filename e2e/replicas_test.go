package e2e

import (
	"slices"
	"testing"
	"time"

	"isthmus/e2e/harness"
	"isthmus/e2e/proxy"
)

// TestReplicas runs two replicas in one cluster, each with a proxy for the same Service. The
// Service spills over, returns in steps, spills over again, and gradually loses a cluster because
// of a cordon. Both proxies must receive the same messages in the same order and at about the same
// time.
func TestReplicas(t *testing.T) {
	t.Parallel()
	w := newNear(t)
	all := slices.Concat(w.pods["west"], w.pods["east"], w.pods["north"])
	w.expect(t, "without preference", all)
	other := *w
	other.gateway = startGateway(t, harness.ReplicaConfig{
		Kubeconfig: w.servers["west"].Kubeconfig(),
		Args:       []string{"-shutdown-delay=0s", "-drain=0s"},
	})
	other.had = nil
	other.subscribe(t)
	other.expect(t, "the second replica has started", all)
	first, second := last(w.stream), last(other.stream)

	both := func(when string) {
		t.Helper()
		w.expect(t, when, all)
		other.expect(t, when, all)
	}
	w.shorten(
		t,
		`service web -n shop isthmus.io/prefer=local,any isthmus.io/min-ready=3 isthmus.io/return-after=1s `+
			`isthmus.io/return-over=2s`,
	)
	w.expect(t, "the local cluster has enough endpoints", w.pods["west"])
	other.expect(t, "the local cluster has enough endpoints", w.pods["west"])
	few := w.pods["west"][:2]
	w.offer(t, "west", few...)
	all = slices.Concat(few, w.pods["east"], w.pods["north"])
	both("two local Pods are ready")
	w.offer(t, "west", w.pods["west"]...)
	w.expect(t, "the others are removed in steps", w.pods["west"])
	other.expect(t, "the others are removed in steps", w.pods["west"])
	w.offer(t, "west", few...)
	both("two local Pods are ready again")
	w.shorten(t, "secret cluster-credentials-east -n linkerd isthmus.io/cordon-over=2s isthmus.io/cordon=true")
	all = slices.Concat(few, w.pods["north"])
	both("east is cordoned")

	a, b := since(w.stream, first), since(other.stream, second)
	if len(a) < 8 { // otherwise the changes were not made in steps
		t.Errorf("only %d messages: %v", len(a), a)
	}
	if !slices.EqualFunc(
		a,
		b,
		func(x, y proxy.Message) bool { return x.Kind == y.Kind && slices.Equal(x.Addrs, y.Addrs) },
	) {
		t.Fatalf("one replica sent\n%v\nand the other\n%v", a, b)
	}
	for i := range a {
		if apart := a[i].At.Sub(b[i].At).Abs(); apart > time.Second {
			t.Errorf("message %v arrived %v apart", a[i], apart)
		}
	}
}

func last(s *proxy.Stream) int64 {
	recent := s.Recent()
	return recent[len(recent)-1].Number
}

// since returns the messages after the given number.
func since(s *proxy.Stream, number int64) []proxy.Message {
	return slices.DeleteFunc(s.Recent(), func(m proxy.Message) bool { return m.Number <= number })
}

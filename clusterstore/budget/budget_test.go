package budget

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"isthmus/internal/adminapi"
)

// TestPool: whatever clusters ask for, none has more than its limit, all together not more
// than theirs, and each gets its equal part of one half.
func TestPool(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := Limits{Cluster: rapid.Int64Range(1, 200).Draw(t, "limit"), All: rapid.Int64Range(1, 1000).Draw(t, "all")}
		pool := NewPool(l)
		var all []*Budget
		for range rapid.IntRange(1, 9).Draw(t, "clusters") {
			all = append(all, pool.Add())
		}
		part := l.All / 2 / int64(len(all))
		for range rapid.IntRange(1, 100).Draw(t, "charges") {
			b := rapid.SampledFrom(all).Draw(t, "cluster")
			before := b.Usage().Used
			n := rapid.Int64Range(-before, 2*l.Cluster).Draw(t, "bytes")
			charge, most := b.Charge, l.Cluster
			if keep := rapid.Bool().Draw(t, "keep"); keep {
				n = max(n, -b.kept)
				charge, most = b.Keep, l.Cluster-(before-b.kept)
			} else {
				n = max(n, b.kept-before)
			}
			err := charge(n, "x")
			after := b.Usage().Used
			switch {
			case err == nil && after != before+n, err != nil && after != before:
				t.Fatalf("%d bytes for %d: now %d, %v", n, before, after, err)
			case err != nil && !errors.Is(err, ErrOver):
				t.Fatalf("refused by %v", err)
			case err != nil && before+n <= min(most, part):
				t.Fatalf("%d bytes are refused, of the part of %d: %v", before+n, part, err)
			}
			sum := int64(0)
			for _, b := range all {
				if used := b.Usage().Used; used > l.Cluster+l.Cluster/4 || b.kept > l.Cluster || b.kept > used {
					t.Fatalf("a cluster has %d, and keeps %d", used, b.kept)
				}
				sum += b.Usage().Used
			}
			if sum > l.All {
				t.Fatalf("all have %d of %d", sum, l.All)
			}
		}
	})
}

// TestError: an error has how much of what was too much.
func TestError(t *testing.T) {
	pool := NewPool(Limits{Cluster: 64 << 20, All: 96 << 20})
	b := pool.Add()
	if err := b.Keep(60<<20, "x"); err != nil {
		t.Fatal(err)
	}
	err := b.Keep(5<<20, "the pods kept")
	want := "over budget: the pods kept would take 5.0 MiB more, by estimate, and the cluster has 60.0 MiB of the 64.0 MiB that --cluster-memory allows"
	if err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	if err = pool.Add().Charge(61<<20, "a list of pods"); err == nil || !strings.Contains(err.Error(), "all linked clusters together have no more to spare of their 96.0 MiB") {
		t.Error(err)
	}
	b.Close()
	if err := pool.Add().Charge(61<<20, "x"); err != nil {
		t.Errorf("after one has gone: %v", err)
	}
}

// TestReading: a cluster of which as much is kept as may be can still be read, and so can others
// when one has all that clusters share.
func TestReading(t *testing.T) {
	pool := NewPool(Limits{Cluster: 400, All: 400})
	b, other := pool.Add(), pool.Add()
	for b.Keep(1, "x") == nil {
	}
	if b.kept != 100+150 { // its part, and three quarters of what is shared
		t.Errorf("%d is kept", b.kept)
	}
	if err := other.Keep(101, "x"); !errors.Is(err, ErrOver) {
		t.Errorf("beyond its part another keeps: %v", err)
	}
	if err := errors.Join(other.Keep(100, "x"), other.Charge(50, "a list")); err != nil {
		t.Error(err)
	}
	pool = NewPool(Limits{Cluster: 400, All: 4000})
	b = pool.Add()
	if err := errors.Join(b.Keep(400, "x"), b.Charge(100, "a list")); err != nil {
		t.Error(err)
	}
	if err := b.Charge(1, "a list"); !errors.Is(err, ErrOver) {
		t.Errorf("more than a quarter more: %v", err)
	}
	if err := b.Keep(1, "x"); !errors.Is(err, ErrOver) {
		t.Errorf("more is kept: %v", err)
	}
}

// TestNear: a cluster's budget is worth a look from 80 % on; without a budget there is none.
func TestNear(t *testing.T) {
	for u, want := range map[adminapi.Memory]bool{{}: false, {Used: 79, Limit: 100}: false, {Used: 80, Limit: 100}: true, {Used: 1 << 40, Limit: 1 << 40}: true} {
		if u.Near() != want {
			t.Errorf("%+v: %v", u, !want)
		}
	}
}

// TestRequest: what an answer takes is given back at its end, and its first error is
// reported once.
func TestRequest(t *testing.T) {
	b := NewPool(Limits{Cluster: 100 * Factor, All: 1000 * Factor}).Add()
	var got []error
	ctx, r := b.Begin(t.Context(), "a list of pods", func(err error) { got = append(got, err) })
	if From(ctx) != r {
		t.Fatal("the context has another request")
	}
	if err := r.Took(125); err != nil || b.Usage().Used != 125*Factor {
		t.Fatalf("%v, %+v", err, b.Usage())
	}
	for range 2 {
		if err := r.Took(1); !errors.Is(err, ErrOver) || !errors.Is(r.Err(), ErrOver) {
			t.Errorf("beyond the limit: %v, %v", err, r.Err())
		}
	}
	if len(got) != 1 {
		t.Errorf("reported: %v", got)
	}
	r.End()
	r.End()
	if err := r.Took(50); err != nil || b.Usage().Used != 0 {
		t.Errorf("at the end: %v, %+v", err, b.Usage())
	}
	var none *Request
	none.End()
	none.Fail(ErrOver)
	if none.Took(1) != nil || none.AwaitTurn(t.Context()) != nil || none.Err() != nil || From(t.Context()) != nil {
		t.Error("a request that does not exist does something")
	}
}

// TestTurns: two lists are decoded at a time, in all clusters; who waits can give up.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := NewPool(Limits{Cluster: 1, All: 2})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, first := pool.Add().Begin(ctx, "a", nil)
		_, second := pool.Add().Begin(ctx, "b", nil)
		_, late := pool.Add().Begin(ctx, "c", nil)
		for range 2 { // a turn is taken once
			for _, r := range []*Request{first, second} {
				if err := r.AwaitTurn(ctx); err != nil {
					t.Fatal(err)
				}
			}
		}
		brief, stop := context.WithTimeout(ctx, time.Second)
		defer stop()
		if err := late.AwaitTurn(brief); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("three lists are decoded at once: %v", err)
		}
		var waiting sync.WaitGroup
		waiting.Go(func() {
			if err := late.AwaitTurn(ctx); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		first.End()
		waiting.Wait()
		second.End()
		late.End()
	})
}

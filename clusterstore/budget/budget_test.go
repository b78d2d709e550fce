package budget

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"isthmus/internal/adminapi"
)

// TestPool: whatever clusters ask for, none keeps more than its limit, all together take not more
// than theirs, each gets its equal part of one half, and none more than half of the other.
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
			used, counts := b.used, b.counts
			n := rapid.Int64Range(-used, 2*l.Cluster).Draw(t, "bytes")
			c := rapid.Int64Range(-counts, 2*l.Cluster).Draw(t, "of them count")
			fits := b.Fits(c, "x")
			err := b.Keep(n, c, "x")
			switch {
			case err == nil && (b.used != used+n || b.counts != counts+c), err != nil && (b.used != used || b.counts != counts):
				t.Fatalf("%d and %d bytes for %d and %d: now %d and %d, %v", n, c, used, counts, b.used, b.counts, err)
			case err != nil && !errors.Is(err, ErrOver):
				t.Fatalf("refused by %v", err)
			case err != nil && used+n <= part && counts+c <= l.Cluster:
				t.Fatalf("%d bytes are refused, of the part of %d: %v", used+n, part, err)
			case err != nil && n <= 0 && c <= 0:
				t.Fatalf("it may not give back: %v", err)
			case fits != nil && err == nil:
				t.Fatalf("%d do not fit, and are kept", c)
			}
			sum := int64(0)
			for _, b := range all {
				if b.counts > l.Cluster || b.used-part > l.All/4 {
					t.Fatalf("a cluster has %d, of which %d count", b.used, b.counts)
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
	if err := b.Keep(60<<20, 60<<20, "x"); err != nil {
		t.Fatal(err)
	}
	err := b.Keep(5<<20, 5<<20, "the pods kept")
	want := "over budget: the pods kept would take 5.0 MiB more, and the cluster has 60.0 MiB of the 64.0 MiB that --cluster-memory allows"
	if err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	other := pool.Add()
	if err = other.Keep(49<<20, 49<<20, "a list"); err == nil || !strings.Contains(err.Error(), "of the 96.0 MiB of all linked clusters one can't have more") {
		t.Error(err)
	}
	if err = other.Keep(48<<20, 48<<20, "a list"); err == nil || !strings.Contains(err.Error(), "all linked clusters together have no more to spare of their 96.0 MiB") {
		t.Error(err)
	}
	b.Close()
	if err := errors.Join(b.Keep(1<<40, 1<<40, "x"), other.Keep(60<<20, 60<<20, "x")); err != nil || b.Usage().Used != 0 {
		t.Errorf("after one has gone: %v, %+v", err, b.Usage())
	}
	var none *Budget
	none.Change(1, 1)
	none.Close()
	if none.Keep(1, 1, "x") != nil || none.Fits(1, "x") != nil || none.Usage() != (adminapi.Memory{}) {
		t.Error("without a budget something is refused")
	}
}

// TestFirstComer: a cluster within its limit that is read first leaves enough to another one, within its limit, that
// is read later. What is kept stays also when parts become smaller.
func TestFirstComer(t *testing.T) {
	const m = 1 << 20
	pool := NewPool(Limits{Cluster: 120 * m, All: 240 * m})
	first, second := pool.Add(), pool.Add()
	if err := errors.Join(first.Keep(110*m, 110*m, "x"), second.Keep(73*m, 73*m, "x"), second.Keep(47*m, 47*m, "x")); err != nil {
		t.Error(err)
	}
	third := pool.Add()
	if err := third.Keep(40*m, 40*m, "x"); err != nil {
		t.Errorf("its part: %v", err)
	}
	if err := first.Keep(1, 1, "x"); !errors.Is(err, ErrOver) {
		t.Errorf("beyond what is shared: %v", err)
	}
	if got := first.Usage(); got != (adminapi.Memory{Used: 110 * m, Limit: 100 * m}) || !got.Near() { // a third of a half, and a quarter
		t.Errorf("%+v", got)
	}
	third.Close()
	if got := first.Usage(); got != (adminapi.Memory{Used: 110 * m, Limit: 120 * m}) {
		t.Errorf("of two: %+v", got)
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

// TestNearAmongMany: where there are many clusters, one that is refused more for the limit of all is near that limit.
func TestNearAmongMany(t *testing.T) {
	pool := NewPool(Limits{Cluster: 1 << 20, All: 1 << 20})
	b := pool.Add()
	for range 99 {
		pool.Add()
	}
	for b.Keep(1<<10, 1<<10, "x") == nil {
	}
	if got := b.Usage(); !got.Near() || got.Used > got.Limit || got.Used < got.Limit-1<<10 {
		t.Errorf("%+v", got)
	}
}

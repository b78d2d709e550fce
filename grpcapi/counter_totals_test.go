package grpcapi

import "testing"

// TestCounterTotals: a series never falls while it exists, whatever its sources do.
func TestCounterTotals(t *testing.T) {
	var counts counterTotals[string, int]
	type source struct {
		id      int
		n, base uint64
	}
	for i, step := range []struct {
		sources []source
		want    uint64
	}{
		{[]source{{1, 5, 0}}, 5},
		{[]source{{1, 7, 0}, {2, 3, 0}}, 10},
		{[]source{{2, 4, 0}}, 11},                // 1 has gone
		{[]source{{2, 4, 0}, {1, 1, 0}}, 12},     // and come back
		{[]source{{2, 1, 0}, {1, 1, 0}}, 13},     // 2 has ended and come back between two scrapes
		{[]source{{3, 100, 100}}, 13},            // 3 has counted before it was a source
		{[]source{{3, 101, 101}}, 14},            // and once since
		{[]source{{3, 103, 0}, {3, 103, 0}}, 16}, // twice in one scrape
		{nil, 0},                                 // nothing left
		{[]source{{3, 1, 0}}, 1},                 // the series begins again
	} {
		counts.startScrape()
		for _, x := range step.sources {
			counts.add("web", counts.increase(x.id, x.n, x.base))
		}
		counts.finish()
		if n := counts.total("web"); n != step.want {
			t.Errorf("scrape %d: %d, want %d", i, n, step.want)
		}
		if _, ok := counts.totals["web"]; ok != (step.sources != nil) {
			t.Errorf("scrape %d: the series is there: %t", i, ok)
		}
	}
}

// TestCounterTotalsKeepNothing: the same series again need no memory, and the many that have
// gone keep none.
func TestCounterTotalsKeepNothing(t *testing.T) {
	var counts counterTotals[int, int]
	scrape := func(sources int) {
		counts.startScrape()
		for i := range sources {
			counts.add(i, counts.increase(i, 1, 0))
		}
		counts.finish()
	}
	scrape(1000)
	if n := testing.AllocsPerRun(10, func() { scrape(1000) }); n > 0 {
		t.Errorf("%v allocations for a scrape like the last one", n)
	}
	scrape(10)
	if len(counts.totals) != 10 || len(counts.seen) != 10 || counts.total(9) != 1 || counts.total(10) != 0 {
		t.Errorf("%d series of %d sources are left", len(counts.totals), len(counts.seen))
	}
}

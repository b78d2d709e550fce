package grpcapi

import "testing"

// TestTally: a series never falls while it is there, whatever its sources do.
func TestTally(t *testing.T) {
	var counts tally[string, int]
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
		{[]source{{2, 4, 0}, {1, 1, 0}}, 12},     // and come again
		{[]source{{2, 1, 0}, {1, 1, 0}}, 13},     // 2 has come anew between two scrapes
		{[]source{{3, 100, 100}}, 13},            // 3 has counted before it was one
		{[]source{{3, 101, 101}}, 14},            // and once since
		{[]source{{3, 103, 0}, {3, 103, 0}}, 16}, // asked twice
		{nil, 0},                                 // nothing left
		{[]source{{3, 1, 0}}, 1},                 // the series starts anew
	} {
		s := counts.begin()
		for _, x := range step.sources {
			s.add("web", s.rise(x.id, x.n, x.base))
		}
		totals := s.end()
		if totals["web"] != step.want {
			t.Errorf("scrape %d: %d, want %d", i, totals["web"], step.want)
		}
		if _, ok := totals["web"]; ok != (step.sources != nil) {
			t.Errorf("scrape %d: the series is there: %t", i, ok)
		}
	}
}

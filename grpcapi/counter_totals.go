package grpcapi

import "maps"

// counterTotals keeps the counters of series from falling while the sources that they
// sum up come and go: a series keeps the count of a source that has ended, for as long
// as it has other sources. One scrape at a time uses it. A scrape of the same series as
// the one before allocates nothing.
type counterTotals[Series, Source comparable] struct {
	scrape uint64 // the number of this one or, between two, the last
	totals map[Series]counted
	seen   map[Source]counted // each source's count
}

// counted is a count and the last scrape that has had it.
type counted struct{ n, scrape uint64 }

// startScrape begins a pass over all sources.
func (t *counterTotals[Series, Source]) startScrape() {
	if t.scrape++; t.totals == nil {
		t.totals, t.seen = make(map[Series]counted), make(map[Source]counted)
	}
}

// increase returns by how much a source's count has risen since the last scrape, and
// zero if this scrape has called it for the source before. For a source that is new,
// only the count above base is returned.
func (t *counterTotals[Series, Source]) increase(source Source, n, base uint64) uint64 {
	last, known := t.seen[source]
	if known && last.scrape == t.scrape {
		return 0
	}
	t.seen[source] = counted{n, t.scrape}
	if !known || n < last.n { // or another source with the same identity
		last.n = min(n, base)
	}
	return n - last.n
}

// add adds n to a series, which it makes if there is none.
func (t *counterTotals[Series, Source]) add(series Series, n uint64) {
	t.totals[series] = counted{t.totals[series].n + n, t.scrape}
}

// total returns what a series has come to.
func (t *counterTotals[Series, Source]) total(series Series) uint64 { return t.totals[series].n }

// finish ends the scrape. Series and sources that it has not seen are forgotten.
func (t *counterTotals[Series, Source]) finish() {
	t.totals, t.seen = sweep(t.totals, t.scrape), sweep(t.seen, t.scrape)
}

// sweep removes what that scrape has not had. Maps do not shrink: if most goes, the rest moves
// to a new one.
func sweep[K comparable](all map[K]counted, scrape uint64) map[K]counted {
	before := len(all)
	maps.DeleteFunc(all, func(_ K, s counted) bool { return s.scrape != scrape })
	if len(all) >= before/2 {
		return all
	}
	rest := make(map[K]counted, len(all))
	maps.Copy(rest, all)
	return rest
}

package grpcapi

// counterTotals keeps the counters of series from falling while the sources that they
// sum up come and go: a series keeps the count of a source that has ended, for as long
// as it has other sources. One scrape at a time uses it.
type counterTotals[Series, Source comparable] struct {
	totals map[Series]uint64
	seen   map[Source]uint64 // each source's count at the last scrape
}

// scrape is one pass over all sources.
type scrape[Series, Source comparable] struct {
	before *counterTotals[Series, Source]
	now    counterTotals[Series, Source]
}

func (t *counterTotals[Series, Source]) startScrape() *scrape[Series, Source] {
	return &scrape[Series, Source]{t, counterTotals[Series, Source]{make(map[Series]uint64), make(map[Source]uint64)}}
}

// increase returns by how much a source's count has risen since the last scrape, and
// zero if this scrape has called it for the source before. For a source that is new,
// only the count above base is returned.
func (s *scrape[Series, Source]) increase(source Source, n, base uint64) uint64 {
	if _, seen := s.now.seen[source]; seen {
		return 0
	}
	s.now.seen[source] = n
	last, known := s.before.seen[source]
	if !known || n < last { // or another source with the same identity
		last = min(n, base)
	}
	return n - last
}

// add adds n to a series, which it makes if there is none.
func (s *scrape[Series, Source]) add(series Series, n uint64) {
	total, ok := s.now.totals[series]
	if !ok {
		total = s.before.totals[series]
	}
	s.now.totals[series] = total + n
}

// finish makes this the last scrape, and returns its totals. Series and sources that
// it has not seen are forgotten.
func (s *scrape[Series, Source]) finish() map[Series]uint64 {
	*s.before = s.now
	return s.now.totals
}

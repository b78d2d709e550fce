package grpcapi

// tally makes counters that only rise, of what is counted by things that come and
// go: a series keeps what a source has counted after that has gone, for as long
// as the series has other sources. It is used for one scrape after the other.
type tally[Series, Source comparable] struct {
	totals map[Series]uint64
	seen   map[Source]uint64 // as of the last scrape
}

// scrape is one pass over all sources.
type scrape[Series, Source comparable] struct {
	before *tally[Series, Source]
	now    tally[Series, Source]
}

func (t *tally[Series, Source]) begin() *scrape[Series, Source] {
	return &scrape[Series, Source]{t, tally[Series, Source]{make(map[Series]uint64), make(map[Source]uint64)}}
}

// add takes a source's count into a series. Of a source that is new to the tally
// only what it has counted beyond base counts.
func (s *scrape[Series, Source]) add(series Series, source Source, n, base uint64) {
	last, known := s.before.seen[source]
	if !known || n < last { // or it has come anew
		last = min(n, base)
	}
	total, ok := s.now.totals[series]
	if !ok {
		total = s.before.totals[series]
	}
	s.now.totals[series] = total + n - last
	s.now.seen[source] = n
}

// end makes this the last scrape, and returns its totals. Series without a source
// are gone.
func (s *scrape[Series, Source]) end() map[Series]uint64 {
	*s.before = s.now
	return s.now.totals
}

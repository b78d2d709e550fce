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

// rise returns what a source has counted since the last scrape, or since this one
// has asked for it. Of a source that is new to the tally only what it has counted
// beyond base counts.
func (s *scrape[Series, Source]) rise(source Source, n, base uint64) uint64 {
	if _, asked := s.now.seen[source]; asked {
		return 0
	}
	s.now.seen[source] = n
	last, known := s.before.seen[source]
	if !known || n < last { // or it has come anew
		last = min(n, base)
	}
	return n - last
}

// add makes a series, if there is none, and lets it rise.
func (s *scrape[Series, Source]) add(series Series, n uint64) {
	total, ok := s.now.totals[series]
	if !ok {
		total = s.before.totals[series]
	}
	s.now.totals[series] = total + n
}

// end makes this the last scrape, and returns its totals. Series without a source
// are gone.
func (s *scrape[Series, Source]) end() map[Series]uint64 {
	*s.before = s.now
	return s.now.totals
}

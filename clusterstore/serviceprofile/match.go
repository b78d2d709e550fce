package serviceprofile

import (
	"errors"
	"fmt"

	"isthmus/clusterstore/crd"
	"isthmus/federation"
)

var (
	errNull    = errors.New("null, or missing")
	errNothing = errors.New("it says nothing")
)

// fields are what a condition says, in the order in which it is told. They are at
// one depth: if there are several, below what says that all are meant.
type fields struct {
	*translator
	depth int
	list  []federation.Match
	err   error
}

// fieldsOf prepares to read a condition of n fields.
func (t *translator) fieldsOf(n, depth int) *fields {
	f := &fields{translator: t, depth: depth}
	if n > 1 {
		f.depth++
		f.err = t.spend("")
	}
	switch {
	case n == 0:
		f.err = errNothing
	case f.depth > maxNested:
		f.err = fmt.Errorf("it is nested deeper than %d", maxNested)
	}
	return f
}

// add adds a field, unless something has gone wrong.
func (f *fields) add(m federation.Match) {
	if f.err == nil {
		f.err = f.spend(m.Text)
		f.list = append(f.list, m)
	}
}

// several adds conditions of which all, or any, are to hold.
func several[C any](f *fields, kind federation.MatchKind, from []*C, read func(*C, int) (federation.Match, error)) {
	m := federation.Match{Kind: kind}
	for i, c := range from {
		if f.err != nil {
			return
		}
		one, err := read(c, f.depth+1)
		if err != nil {
			f.err = fmt.Errorf("%s[%d]: %w", map[federation.MatchKind]string{federation.MatchAll: "all", federation.MatchAny: "any"}[kind], i, err)
		}
		m.Sub = append(m.Sub, one)
	}
	f.add(m)
}

// not adds a condition that is not to hold.
func not[C any](f *fields, from *C, read func(*C, int) (federation.Match, error)) {
	if f.err != nil {
		return
	}
	one, err := read(from, f.depth+1)
	if err != nil {
		f.err = fmt.Errorf("not: %w", err)
	}
	f.add(federation.Match{Kind: federation.MatchNot, Sub: []federation.Match{one}})
}

// match returns what the fields add up to.
func (f *fields) match() (federation.Match, error) {
	switch {
	case f.err != nil:
		return federation.Match{}, f.err
	case len(f.list) == 1:
		return f.list[0], nil
	}
	return federation.Match{Kind: federation.MatchAll, Sub: f.list}, nil
}

func (t *translator) request(c *crd.RequestMatch, depth int) (federation.Match, error) {
	if c == nil {
		return federation.Match{}, errNull
	}
	f := t.fieldsOf(count(c.All != nil, c.Any != nil, c.Method != "", c.Not != nil, c.PathRegex != ""), depth)
	if c.All != nil {
		several(f, federation.MatchAll, c.All, t.request)
	}
	if c.Any != nil {
		several(f, federation.MatchAny, c.Any, t.request)
	}
	if c.Method != "" {
		f.add(federation.Match{Kind: federation.MatchMethod, Text: c.Method})
	}
	if c.Not != nil {
		not(f, c.Not, t.request)
	}
	if c.PathRegex != "" {
		f.add(federation.Match{Kind: federation.MatchPath, Text: c.PathRegex})
	}
	return f.match()
}

func (t *translator) response(c *crd.ResponseMatch, depth int) (federation.Match, error) {
	if c == nil {
		return federation.Match{}, errNull
	}
	f := t.fieldsOf(count(c.All != nil, c.Any != nil, c.Status != nil, c.Not != nil), depth)
	if c.All != nil {
		several(f, federation.MatchAll, c.All, t.response)
	}
	if c.Any != nil {
		several(f, federation.MatchAny, c.Any, t.response)
	}
	if s := c.Status; s != nil {
		if err := checkStatus(s); err != nil && f.err == nil {
			f.err = fmt.Errorf("status: %w", err)
		}
		f.add(federation.Match{Kind: federation.MatchStatus, Min: s.Min, Max: s.Max})
	}
	if c.Not != nil {
		not(f, c.Not, t.response)
	}
	return f.match()
}

func count(set ...bool) (n int) {
	for _, b := range set {
		if b {
			n++
		}
	}
	return n
}

func checkStatus(s *crd.Range) error {
	for _, code := range []uint32{s.Min, s.Max} {
		if code != 0 && (code < 100 || code > 599) {
			return fmt.Errorf("%d is not from 100 to 599", code)
		}
	}
	if s.Min != 0 && s.Max != 0 && s.Max < s.Min {
		return fmt.Errorf("%d to %d is nothing", s.Min, s.Max)
	}
	return nil
}

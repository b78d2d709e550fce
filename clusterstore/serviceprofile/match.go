package serviceprofile

import (
	"errors"
	"fmt"

	"isthmus/clusterstore/crd"
	"isthmus/federation"
)

var (
	errNull  = errors.New("null or missing")
	errEmpty = errors.New("no field is set")
)

// condition collects the fields of a condition, in the order in which proxies get
// them. Several fields of one condition become a list of which all have to hold, one
// level deeper.
type condition struct {
	*translator
	depth int
	list  []federation.Match
	err   error
}

// newCondition begins a condition with n fields.
func (t *translator) newCondition(n, depth int) *condition {
	c := &condition{translator: t, depth: depth}
	if n > 1 {
		c.depth++
		c.err = t.spend("")
	}
	switch {
	case n == 0:
		c.err = errEmpty
	case c.depth > maxNested:
		c.err = fmt.Errorf("conditions are nested deeper than %d", maxNested)
	}
	return c
}

// add adds a field. After an error it does nothing.
func (c *condition) add(m federation.Match) {
	if c.err == nil {
		c.err = c.spend(m.Text)
		c.list = append(c.list, m)
	}
}

// addList adds the field "all" or "any": a list of conditions.
func addList[S any](c *condition, kind federation.MatchKind, from []*S, read func(*S, int) (federation.Match, error)) {
	m := federation.Match{Kind: kind}
	for i, spec := range from {
		if c.err != nil {
			return
		}
		one, err := read(spec, c.depth+1)
		if err != nil {
			c.err = fmt.Errorf("%s[%d]: %w", map[federation.MatchKind]string{federation.MatchAll: "all", federation.MatchAny: "any"}[kind], i, err)
		}
		m.Sub = append(m.Sub, one)
	}
	c.add(m)
}

// addNot adds the field "not": a condition that must not hold.
func addNot[S any](c *condition, from *S, read func(*S, int) (federation.Match, error)) {
	if c.err != nil {
		return
	}
	one, err := read(from, c.depth+1)
	if err != nil {
		c.err = fmt.Errorf("not: %w", err)
	}
	c.add(federation.Match{Kind: federation.MatchNot, Sub: []federation.Match{one}})
}

// match returns the whole condition.
func (c *condition) match() (federation.Match, error) {
	switch {
	case c.err != nil:
		return federation.Match{}, c.err
	case len(c.list) == 1:
		return c.list[0], nil
	}
	return federation.Match{Kind: federation.MatchAll, Sub: c.list}, nil
}

func (t *translator) request(spec *crd.RequestMatch, depth int) (federation.Match, error) {
	if spec == nil {
		return federation.Match{}, errNull
	}
	c := t.newCondition(count(spec.All != nil, spec.Any != nil, spec.Method != "", spec.Not != nil, spec.PathRegex != ""), depth)
	if spec.All != nil {
		addList(c, federation.MatchAll, spec.All, t.request)
	}
	if spec.Any != nil {
		addList(c, federation.MatchAny, spec.Any, t.request)
	}
	if spec.Method != "" {
		c.add(federation.Match{Kind: federation.MatchMethod, Text: spec.Method})
	}
	if spec.Not != nil {
		addNot(c, spec.Not, t.request)
	}
	if spec.PathRegex != "" {
		c.add(federation.Match{Kind: federation.MatchPath, Text: spec.PathRegex})
	}
	return c.match()
}

func (t *translator) response(spec *crd.ResponseMatch, depth int) (federation.Match, error) {
	if spec == nil {
		return federation.Match{}, errNull
	}
	c := t.newCondition(count(spec.All != nil, spec.Any != nil, spec.Status != nil, spec.Not != nil), depth)
	if spec.All != nil {
		addList(c, federation.MatchAll, spec.All, t.response)
	}
	if spec.Any != nil {
		addList(c, federation.MatchAny, spec.Any, t.response)
	}
	if s := spec.Status; s != nil {
		if err := checkStatus(s); err != nil && c.err == nil {
			c.err = fmt.Errorf("status: %w", err)
		}
		c.add(federation.Match{Kind: federation.MatchStatus, Min: s.Min, Max: s.Max})
	}
	if spec.Not != nil {
		addNot(c, spec.Not, t.response)
	}
	return c.match()
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
			return fmt.Errorf("code %d is not from 100 to 599", code)
		}
	}
	if s.Min != 0 && s.Max != 0 && s.Max < s.Min {
		return fmt.Errorf("range %d-%d is empty", s.Min, s.Max)
	}
	return nil
}

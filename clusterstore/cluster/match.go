package cluster

import (
	"cmp"
	"errors"
	"fmt"

	"isthmus/clusterstore/decode"
	"isthmus/federation"
)

var (
	errNull  = errors.New("null or missing")
	errEmpty = errors.New("no field is set")
	// errEmptyStatus is not why a ServiceProfile is refused: it describes a condition that proxies ignore.
	errEmptyStatus = errors.New("responseClasses: a status has neither min nor max: proxies ignore it")
)

// side is what a condition is about.
type side bool

const (
	ofRequest  side = false
	ofResponse side = true
)

// condition translates one. Several fields of it become a list of which all have to hold, one level deeper. Fields of the other
// side are ignored, as unknown ones are.
func (t *translator) condition(spec *decode.Match, of side, depth int) (all federation.Match, err error) {
	if spec == nil {
		return all, errNull
	}
	type read = func(depth int) (federation.Match, error)
	leaf := func(m federation.Match, err error) read { return func(int) (federation.Match, error) { return m, err } }
	var fields []read // in the order in which proxies get them
	if spec.All != nil {
		fields = append(fields, t.list("all", federation.MatchAll, spec.All, of))
	}
	if spec.Any != nil {
		fields = append(fields, t.list("any", federation.MatchAny, spec.Any, of))
	}
	if spec.Method != "" && of == ofRequest {
		fields = append(fields, leaf(federation.Match{Kind: federation.MatchMethod, Text: spec.Method}, nil))
	}
	if s := spec.Status; s != nil && of == ofResponse {
		fields = append(fields, leaf(t.status(s)))
	}
	if spec.Not != nil {
		fields = append(fields, func(depth int) (federation.Match, error) {
			one, err := t.condition(spec.Not, of, depth+1)
			if err != nil {
				err = fmt.Errorf("not: %w", err)
			}
			return federation.Match{Kind: federation.MatchNot, Sub: []federation.Match{one}}, err
		})
	}
	if spec.PathRegex != "" && of == ofRequest {
		fields = append(fields, leaf(federation.Match{Kind: federation.MatchPath, Text: spec.PathRegex}, nil))
	}
	all.Kind = federation.MatchAll
	if len(fields) > 1 {
		depth, err = depth+1, t.spend("")
	}
	switch {
	case len(fields) == 0:
		return all, errEmpty
	case depth > maxNested:
		return all, fmt.Errorf("conditions are nested deeper than %d", maxNested)
	}
	for _, field := range fields {
		if err != nil {
			return all, err
		}
		var one federation.Match
		if one, err = field(depth); err == nil {
			err = t.spend(one.Text)
		}
		all.Sub = append(all.Sub, one)
	}
	if len(all.Sub) == 1 {
		return all.Sub[0], err
	}
	return all, err
}

// list reads the field "all" or "any": a list of conditions.
func (t *translator) list(name string, kind federation.MatchKind, from []*decode.Match, of side) func(depth int) (federation.Match, error) {
	return func(depth int) (federation.Match, error) {
		m := federation.Match{Kind: kind}
		for i, spec := range from {
			one, err := t.condition(spec, of, depth+1)
			if err != nil {
				return m, fmt.Errorf("%s[%d]: %w", name, i, err)
			}
			m.Sub = append(m.Sub, one)
		}
		return m, nil
	}
}

// status translates a range of status codes. If only one bound is set, the range is that one status.
// Both bounds are sent: proxies ignore a condition of which one bound is 0.
func (t *translator) status(s *decode.Range) (federation.Match, error) {
	m := federation.Match{Kind: federation.MatchStatus, Min: cmp.Or(s.Min, s.Max), Max: cmp.Or(s.Max, s.Min)}
	for _, code := range []uint32{s.Min, s.Max} {
		if code != 0 && (code < 100 || code > 599) {
			return m, fmt.Errorf("status: code %d is not from 100 to 599", code)
		}
	}
	if m.Max < m.Min {
		return m, fmt.Errorf("status: range %d-%d is empty", s.Min, s.Max)
	}
	t.emptyStatus = t.emptyStatus || m.Min == 0
	return m, nil
}

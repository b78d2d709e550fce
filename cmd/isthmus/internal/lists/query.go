package lists

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

const (
	// MaxLimit is how many lines an answer has at most.
	MaxLimit = 500

	defaultLimit = 50
	maxSearch    = 400 // bytes: 100 characters of any script
)

// Query is what of a list is asked for.
type Query struct {
	Search string // words in lower case that a line's text must all have
	Sort   string // the name of an order; empty: the list's first
	Show   string // the name of a part of the lines; empty: all
	Page   int    // from 1; beyond the last page the last one is meant
	Limit  int    // lines of a page
}

// empty has no lines, and refuses what every Snapshot does.
var empty = NewSnapshot(Content{})

// ParseQuery reads the parameters q, sort, show, page and limit for a list, which is clusters, services, streams or events.
func ParseQuery(list string, v url.Values) (Query, error) {
	q := Query{Search: strings.ToLower(v.Get("q")), Sort: v.Get("sort"), Show: v.Get("show")}
	if len(q.Search) > maxSearch {
		return q, fmt.Errorf("q has %d bytes: give at most %d", len(q.Search), maxSearch)
	}
	var err error
	if q.Page, err = number(v, "page", 1, 1_000_000); err != nil {
		return q, err
	}
	if q.Limit, err = number(v, "limit", defaultLimit, MaxLimit); err != nil {
		return q, err
	}
	_, err = empty.Answer(list, q)
	return q, err
}

func number(v url.Values, name string, fallback, most int) (int, error) {
	text := v.Get(name)
	if text == "" {
		return fallback, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > most {
		return 0, fmt.Errorf("%s is %.20q: give a number from 1 to %d", name, text, most)
	}
	return n, nil
}

// named has values by name, in an order.
type named[V any] []option[V]

type option[V any] struct {
	name  string
	value V
}

// get returns the value of a name, which the parameter has; of an empty one the first.
func (n named[V]) get(parameter, name string) (V, error) {
	var names []string
	for _, one := range n {
		if name == "" || name == one.name {
			return one.value, nil
		}
		if one.name != "" {
			names = append(names, one.name)
		}
	}
	var none V
	return none, fmt.Errorf("%s is %.20q: give %s", parameter, name, strings.Join(names, ", "))
}

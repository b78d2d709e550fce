package lists

import (
	"slices"
	"strings"
	"sync"

	"isthmus/internal/adminapi"
)

// list is lines that can be asked for.
type list[T any] struct {
	lines []*T // in the first order of the kind
	kind  *kind[T]
	texts func() []string // of all lines, in lower case; made when they are first searched
}

// kind is how lines of a type are searched and sorted.
type kind[T any] struct {
	text  func(*T) string
	parts named[func(*T) bool]     // that may be shown; nil: all
	order named[func(a, b *T) int] // nil: as they are
}

func newList[T any](k *kind[T], lines []T) list[T] {
	all := make([]*T, len(lines))
	for i := range lines {
		all[i] = &lines[i]
	}
	if first := k.order[0].value; first != nil { // that of most answers
		slices.SortFunc(all, first)
	}
	return list[T]{all, k, sync.OnceValue(func() []string {
		texts := make([]string, len(all))
		for i, line := range all {
			texts[i] = strings.ToLower(k.text(line))
		}
		return texts
	})}
}

// find returns the lines that a query asks for.
func (l *list[T]) find(q Query) (adminapi.List[T], error) {
	var none adminapi.List[T]
	order, err := l.kind.order.get("sort", q.Sort)
	if err != nil {
		return none, err
	}
	part, err := l.kind.parts.get("show", q.Show)
	if err != nil {
		return none, err
	}
	words := strings.Fields(q.Search)
	var texts []string
	if len(words) > 0 {
		texts = l.texts()
	}
	found := l.lines
	if part != nil || len(words) > 0 {
		found = nil
		for i, line := range l.lines {
			if (part == nil || part(line)) && (len(words) == 0 || hasAll(texts[i], words)) {
				found = append(found, line)
			}
		}
	}
	if order != nil && q.Sort != "" && q.Sort != l.kind.order[0].name {
		found = slices.SortedFunc(slices.Values(found), order)
	}
	return cut(found, len(l.lines), q), nil
}

// cut returns one page.
func cut[T any](found []*T, all int, q Query) adminapi.List[T] {
	answer := adminapi.List[T]{All: all, Matching: len(found), Pages: max(1, (len(found)+q.Limit-1)/q.Limit), Lines: []T{}}
	answer.Page = min(q.Page, answer.Pages)
	first := (answer.Page - 1) * q.Limit
	for _, line := range found[first:min(first+q.Limit, len(found))] {
		answer.Lines = append(answer.Lines, *line)
	}
	return answer
}

func hasAll(text string, words []string) bool {
	for _, w := range words {
		if !strings.Contains(text, w) {
			return false
		}
	}
	return true
}

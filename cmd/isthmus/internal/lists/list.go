package lists

import (
	"slices"
	"strings"
	"sync"

	"isthmus/internal/adminapi"
)

// list is lines that can be asked for.
type list[T any] struct {
	lines  []T
	kind   *kind[T]
	orders named[func() []int] // indices of lines; each is sorted when it is first asked for
	texts  func() []string     // of lines, in lower case; made when they are first searched
}

// kind is how lines of a type are searched and sorted.
type kind[T any] struct {
	text  func(*T) string
	parts named[func(*T) bool]     // that may be shown; nil: all
	order named[func(a, b *T) int] // nil: as they are
}

func newList[T any](k *kind[T], lines []T) list[T] {
	l := list[T]{lines: lines, kind: k, texts: sync.OnceValue(func() []string {
		texts := make([]string, len(lines))
		for i := range lines {
			texts[i] = strings.ToLower(k.text(&lines[i]))
		}
		return texts
	})}
	for _, by := range k.order {
		l.orders = append(l.orders, option[func() []int]{by.name, sync.OnceValue(func() []int { return sorted(lines, by.value) })})
	}
	return l
}

// sorted returns the indices of lines in an order; nil: as they are.
func sorted[T any](lines []T, order func(a, b *T) int) []int {
	all := make([]int, len(lines))
	for i := range all {
		all[i] = i
	}
	if order != nil {
		slices.SortFunc(all, func(a, b int) int { return order(&lines[a], &lines[b]) })
	}
	return all
}

// find returns the lines that a query asks for.
func (l *list[T]) find(q Query) (adminapi.List[T], error) {
	var none adminapi.List[T]
	order, err := l.orders.get("sort", q.Sort)
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
	found := order()
	if part != nil || len(words) > 0 {
		all := found
		found = nil
		for _, i := range all {
			if (part == nil || part(&l.lines[i])) && (len(words) == 0 || hasAll(texts[i], words)) {
				found = append(found, i)
			}
		}
	}
	return l.cut(found, q), nil
}

// cut returns one page of the lines that were found.
func (l *list[T]) cut(found []int, q Query) adminapi.List[T] {
	answer := adminapi.List[T]{All: len(l.lines), Matching: len(found), Pages: max(1, (len(found)+q.Limit-1)/q.Limit), Lines: []T{}}
	answer.Page = min(q.Page, answer.Pages)
	first := (answer.Page - 1) * q.Limit
	for _, i := range found[first:min(first+q.Limit, len(found))] {
		answer.Lines = append(answer.Lines, l.lines[i])
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

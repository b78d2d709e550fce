package check

import (
	"cmp"
	"slices"

	"isthmus/internal/adminapi"
)

// Result is how one check of one object ended.
type Result = adminapi.CheckResult

// Level is how a check ended.
type Level = adminapi.CheckLevel

// The levels, from best to worst.
const (
	OK        = adminapi.CheckOK
	Unchecked = adminapi.CheckUnchecked
	Warning   = adminapi.CheckWarning
	Failure   = adminapi.CheckFailure
)

// Rank orders levels, the worst last; an unknown one is -1.
func Rank(l Level) int { return slices.Index([]Level{OK, Unchecked, Warning, Failure}, l) }

// report collects results.
type report struct{ results []Result }

// about returns a function that adds results of one check of one object.
func (r *report) about(section, check, object string) func(level Level, text, hint string) {
	return func(level Level, text, hint string) {
		r.results = append(r.results, Result{Section: section, Check: check, Object: object, Level: level, Text: text, Hint: hint})
	}
}

// sorted returns the results in the order of [Checks], and then by object.
func (r *report) sorted() []Result {
	slices.SortStableFunc(r.results, func(a, b Result) int {
		return cmp.Or(cmp.Compare(slices.Index(Checks, a.Check), slices.Index(Checks, b.Check)), cmp.Compare(a.Object, b.Object))
	})
	return r.results
}

package check

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"

	"isthmus/clusterstore/kube"
	"isthmus/internal/adminapi"
)

// Level is how a check ended.
type Level = adminapi.CheckLevel

// The levels, from best to worst.
const (
	OK        = adminapi.CheckOK
	Unchecked = adminapi.CheckUnchecked
	Warning   = adminapi.CheckWarning
	Failure   = adminapi.CheckFailure
)

// Result is how one check of one object ended.
type Result = adminapi.CheckResult

// MaxOfOne is how many results that are not OK one check has at most. One more counts the rest.
const MaxOfOne = 200

// Report collects results. It is safe for concurrent use.
type Report struct {
	mu      sync.Mutex
	results []Result
}

// Add adds a result. Its texts may come from anywhere.
func (r *Report) Add(x Result) {
	x.Object, x.Text, x.Hint = clean(x.Object), clean(x.Text), clean(x.Hint)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.results = append(r.results, x)
}

// Results returns what has been added, [Sorted].
func (r *Report) Results() []Result {
	r.mu.Lock()
	list := slices.Clone(r.results)
	r.mu.Unlock()
	return bound(Sorted(list))
}

// Sorted joins lists of results: checks are in the order of [Checks], and then by object.
func Sorted(lists ...[]Result) []Result {
	return slices.SortedStableFunc(slices.Values(slices.Concat(lists...)), func(a, b Result) int {
		return cmp.Or(cmp.Compare(order(a.Check), order(b.Check)), cmp.Compare(a.Object, b.Object))
	})
}

// bound leaves out what is too much of one check.
func bound(list []Result) []Result {
	bad := make(map[string]int)
	kept, last := make([]Result, 0, len(list)), make(map[string]Result)
	for _, x := range list {
		if x.Level != OK {
			if bad[x.Check]++; bad[x.Check] > MaxOfOne {
				if worst, known := last[x.Check]; !known || rank(x.Level) > rank(worst.Level) {
					last[x.Check] = x
				}
				continue
			}
		}
		kept = append(kept, x)
	}
	for name, x := range last {
		at := 1 + lastIndex(kept, name)
		more := Result{Section: x.Section, Check: name, Level: x.Level, Text: fmt.Sprintf("%d more like these", bad[name]-MaxOfOne), Hint: x.Hint}
		kept = slices.Insert(kept, at, more)
	}
	return kept
}

func lastIndex(list []Result, name string) int {
	for i, x := range slices.Backward(list) {
		if x.Check == name {
			return i
		}
	}
	return -1
}

func rank(l Level) int { return slices.Index([]Level{OK, Unchecked, Warning, Failure}, l) }

// clean makes a text printable, and 500 bytes long at most.
func clean(s string) string {
	if s == "" {
		return ""
	}
	return kube.Printable(errors.New(s)).Error()
}

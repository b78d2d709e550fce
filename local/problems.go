package local

import (
	"cmp"
	"slices"

	"go.uber.org/zap"

	"isthmus/federation"
)

// Problem is what can't be used of a Service's annotations and labels.
type Problem struct {
	Service  string   `json:"service"` // namespace/name
	Problems []string `json:"problems"`
}

// Problems lists the Services that are not, or not wholly, what their
// annotations and labels say, sorted by name.
func (l *Local) Problems() []Problem {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := make([]Problem, 0, len(l.problems))
	for id, problems := range l.problems {
		list = append(list, Problem{id.String(), problems})
	}
	slices.SortFunc(list, func(a, b Problem) int {
		return cmp.Compare(a.Service, b.Service)
	})
	return list
}

// report keeps what can't be used of a Service, and logs what is new.
func (l *Local) report(id federation.ServiceID, problems []string) {
	l.mu.Lock()
	before := l.problems[id]
	if len(problems) == 0 {
		delete(l.problems, id)
	} else {
		l.problems[id] = problems
	}
	l.mu.Unlock()
	if len(problems) > 0 && !slices.Equal(before, problems) {
		l.log.Warn("a part of the Service can't be used", zap.Stringer("service", id), zap.Strings("problems", problems))
	}
}

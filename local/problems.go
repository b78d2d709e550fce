package local

import (
	"cmp"
	"slices"

	"go.uber.org/zap"

	"isthmus/federation"
	"isthmus/internal/adminapi"
)

// Problems lists the Services whose annotations or labels can't be used, wholly or
// in part, sorted by name.
func (l *Local) Problems() []adminapi.Problem {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := make([]adminapi.Problem, 0, len(l.problems))
	for id, problems := range l.problems {
		list = append(list, adminapi.Problem{Service: id.String(), Problems: problems})
	}
	slices.SortFunc(list, func(a, b adminapi.Problem) int {
		return cmp.Compare(a.Service, b.Service)
	})
	return list
}

// ProblemsOf lists what can't be used of the annotations and labels of one Service.
func (l *Local) ProblemsOf(id federation.ServiceID) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.problems[id]
}

// report stores the problems of a Service, and logs them if they have changed.
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
		l.log.Warn("annotations or labels of the Service can't be used", zap.Stringer("service", id), zap.Strings("problems", problems))
	}
}

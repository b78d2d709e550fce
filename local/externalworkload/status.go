package externalworkload

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/types"

	"isthmus/internal/adminapi"
)

// failure is an error that is tried again.
type failure struct {
	text string
	at   time.Time
}

// Status returns the state now. It is safe for concurrent use.
func (w *Writer) Status() adminapi.SliceWriter {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := adminapi.SliceWriter{
		Identity: w.o.Identity, Holder: w.holder, Leading: w.term != nil, Since: w.since, LeaseError: w.leaseErr,
		Error: w.lastFailure.text, ErrorAt: w.lastFailure.at, Problems: make([]adminapi.Problem, 0, len(w.problems)), Unread: maps.Clone(w.unread),
	}
	if w.term != nil {
		s.Synced = w.term.synced.Load()
		s.Services, s.Slices = w.term.size()
	}
	for svc, list := range w.problems {
		s.Problems = append(s.Problems, adminapi.Problem{Service: svc.String(), Problems: list})
	}
	slices.SortFunc(s.Problems, func(a, b adminapi.Problem) int { return cmp.Compare(a.Service, b.Service) })
	return s
}

// report stores what is left out of a Service's slices, and logs it if it has changed.
func (w *Writer) report(svc types.NamespacedName, problems []string) {
	w.mu.Lock()
	before := w.problems[svc]
	if len(problems) == 0 {
		delete(w.problems, svc)
	} else {
		w.problems[svc] = problems
	}
	w.mu.Unlock()
	if len(problems) > 0 && !slices.Equal(before, problems) {
		w.log.Warn("a part of the Service's ExternalWorkloads is left out of its EndpointSlices", zap.Stringer("service", svc), zap.Strings("problems", problems))
	}
}

// setFailure stores the last error, for Status.
func (w *Writer) setFailure(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lastFailure = failure{err.Error(), time.Now()}
}

// setRead stores that a resource can be read, or why not, and logs when that changes.
func (w *Writer) setRead(resource string, err error) {
	w.mu.Lock()
	before, now := w.unread[resource], ""
	if err != nil {
		now = err.Error()
		w.unread[resource] = now
	} else {
		delete(w.unread, resource)
	}
	w.mu.Unlock()
	switch { // reasons may differ from attempt to attempt
	case (now == "") == (before == ""):
	case now != "":
		w.log.Error("a resource that EndpointSlices depend on can't be read; still trying", zap.String("resource", resource), zap.String("error", now))
	default:
		w.log.Info("a resource that EndpointSlices depend on can be read again", zap.String("resource", resource))
	}
}

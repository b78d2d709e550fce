package externalworkload

import (
	"cmp"
	"slices"
	"time"

	"go.uber.org/zap"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"isthmus/federation"
	"isthmus/internal/adminapi"
)

// failure is an error that is tried again.
type failure struct {
	text string
	at   time.Time
}

// workloadsName is how the cluster calls the kind.
const workloadsName = "externalworkloads"

// Status returns the state now. It is safe for concurrent use.
func (w *Writer) Status() adminapi.SliceWriter {
	unread := make(map[string]string)
	var slicesOf map[federation.ServiceID]int
	synced := false
	if w.leading() != nil {
		for _, resource := range []string{workloadsName, "services", "endpointslices"} {
			listed, err := w.cluster.Reads(resource)
			if err != nil {
				unread[resource] = err.Error()
			} else if resource == workloadsName {
				synced = listed
			}
		}
		slicesOf = w.cluster.AllMarked()
	}
	seen := w.standing.Seen()
	w.mu.Lock()
	defer w.mu.Unlock()
	s := adminapi.SliceWriter{
		Identity: w.o.Identity, Holder: seen.Holder, Leading: seen.Leading, Since: seen.Since, LeaseError: seen.Problem,
		Error: w.lastFailure.text, ErrorAt: w.lastFailure.at, Problems: make([]adminapi.Problem, 0, len(w.problems)),
		Unread: unread, Synced: synced, Services: len(slicesOf),
	}
	for _, n := range slicesOf {
		s.Slices += n
	}
	for svc, list := range w.problems {
		s.Problems = append(s.Problems, adminapi.Problem{Service: svc.String(), Problems: list})
	}
	slices.SortFunc(s.Problems, func(a, b adminapi.Problem) int { return cmp.Compare(a.Service, b.Service) })
	return s
}

// report stores what is left out of a Service's slices, and logs it if it has changed.
func (w *Writer) report(svc federation.ServiceID, problems []string) {
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

// hasProblems reports whether something is left out of a Service's slices.
func (w *Writer) hasProblems(svc federation.ServiceID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.problems[svc]) > 0
}

// setFailure stores the last error, for Status.
func (w *Writer) setFailure(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lastFailure = failure{err.Error(), time.Now()}
}

// ready reports whether ExternalWorkloads can be read: else slices stay as they are. It logs when that
// changes.
func (w *Writer) ready() bool {
	listed, err := w.cluster.Reads(workloadsName)
	failed := err != nil && !apierrors.IsNotFound(err) // Linkerd's definitions need not be installed
	w.mu.Lock()
	before := w.unread
	w.unread = failed
	w.mu.Unlock()
	switch { // reasons may differ from attempt to attempt
	case failed == before:
	case failed:
		w.log.Error("ExternalWorkloads can't be read, so EndpointSlices stay as they are; still trying", zap.Error(err))
	default:
		w.log.Info("ExternalWorkloads can be read again")
	}
	return listed && err == nil
}

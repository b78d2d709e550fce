package externalworkload

import (
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
		slicesOf = w.cluster.AllManagedSlices()
	}
	seen := w.candidate.Seen()
	w.mu.Lock()
	defer w.mu.Unlock()
	s := adminapi.SliceWriter{
		Identity: w.o.Identity, Holder: seen.Holder, Leading: seen.Leading, Since: seen.Since, LeaseError: seen.Problem,
		Error: w.lastFailure.text, ErrorAt: w.lastFailure.at, Problems: w.problems.All(),
		Unread: unread, Synced: synced, Services: len(slicesOf),
	}
	for _, n := range slicesOf {
		s.Slices += n
	}
	return s
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

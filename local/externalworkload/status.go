package externalworkload

import (
	"cmp"
	"slices"
	"time"

	"go.uber.org/zap"

	"isthmus/federation"
	"isthmus/internal/adminapi"
)

// failure is an error that is tried again.
type failure struct {
	text string
	at   time.Time
}

// Status returns the state now. It is safe for concurrent use.
func (w *Writer) Status() adminapi.SliceWriter {
	var unread map[string]string
	var slicesOf map[federation.ServiceID][]string
	synced := false
	if w.leading() != nil {
		unread, synced = w.unreadable()
		slicesOf = w.cluster.AllMarked()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	s := adminapi.SliceWriter{
		Identity: w.o.Identity, Holder: w.holder, Leading: w.term != nil, Since: w.since, LeaseError: w.leaseErr,
		Error: w.lastFailure.text, ErrorAt: w.lastFailure.at, Problems: make([]adminapi.Problem, 0, len(w.problems)),
		Unread: unread, Synced: synced, Services: len(slicesOf),
	}
	for _, names := range slicesOf {
		s.Slices += len(names)
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

// setFailure stores the last error, for Status.
func (w *Writer) setFailure(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lastFailure = failure{err.Error(), time.Now()}
}

// unreadable returns why resources that slices are made of can't be read, and whether ExternalWorkloads can.
func (w *Writer) unreadable() (why map[string]string, workloads bool) {
	why = make(map[string]string)
	listed := false
	select {
	case <-w.cluster.Synced():
		listed = true
	default:
	}
	for _, r := range w.cluster.Resources() {
		switch r.Resource {
		case "externalworkloads":
			workloads = listed && r.Synced && r.Err == ""
			fallthrough
		case "services", "endpointslices":
			if r.Err != "" {
				why[r.Resource] = r.Err
			}
		}
	}
	return why, workloads
}

// ready reports whether ExternalWorkloads can be read: else slices stay as they are. It logs when that
// changes.
func (w *Writer) ready() bool {
	all, ready := w.unreadable()
	now := all["externalworkloads"]
	w.mu.Lock()
	before := w.unread
	w.unread = now
	w.mu.Unlock()
	switch { // reasons may differ from attempt to attempt
	case (now == "") == (before == ""):
	case now != "":
		w.log.Error("ExternalWorkloads can't be read, so EndpointSlices stay as they are; still trying", zap.String("error", now))
	default:
		w.log.Info("ExternalWorkloads can be read again")
	}
	return ready
}

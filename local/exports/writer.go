package exports

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"isthmus/clusterstore/kube"
	"isthmus/internal/adminapi"
	"isthmus/internal/pace"
	"isthmus/local/exports/plan"
	"isthmus/local/lease"
)

// leaseName is not that of the EndpointSlice writer: Linkerd's destination controller may hold that one.
const leaseName = "isthmus-exports-write"

// idleTime is how long nothing is exported and nothing written before the Lease is given back.
const idleTime = time.Minute

// Options are a Writer's. All are needed.
type Options struct {
	Services            func(namespace string) corev1.ServiceInterface
	MCS                 map[string]kube.MCS // by version: all those that World has
	Leases              func(namespace string) coordinationv1.LeaseInterface
	Namespace, Identity string // of the Lease, and by which it is held
	// World returns what there is now; false: not all of it has been read. What it returns is not changed.
	World func() (plan.World, bool)
	// Changed returns a channel that is closed when World may return something else than before the call.
	Changed    func() <-chan struct{}
	Registerer prometheus.Registerer
	Log        *zap.Logger
}

// Writer writes Services and ServiceImports, and conditions of ServiceExports, while it holds the Lease.
type Writer struct {
	Options
	writes    *prometheus.CounterVec
	candidate *lease.Candidate[leadership]
}

// New registers the metrics. It does no network IO and starts nothing.
func New(o Options) (*Writer, error) {
	w := &Writer{Options: o, candidate: lease.NewCandidate[leadership]("exported Services", lease.Config{
		Leases: o.Leases, Namespace: o.Namespace, Name: leaseName, Identity: o.Identity,
	}, o.Log)}
	var err error
	if w.writes, err = newWriteMetric(o.Registerer, w.candidate); err != nil {
		return nil, fmt.Errorf("writer of exported Services: %w", err)
	}
	return w, nil
}

// Run takes part in elections while there is something to write, and writes while it holds the Lease, until ctx ends.
// Then it finishes the writes under way, releases the Lease, and returns nil.
func (w *Writer) Run(ctx context.Context) error {
	for w.await(ctx) {
		busy, stop := context.WithCancel(ctx)
		err := w.candidate.Run(busy, func(lease *lease.Leadership) *leadership {
			return newLeadership(w, lease)
		}, func(work context.Context, t *leadership) {
			if t.loop.Run(work); work.Err() == nil { // nothing is left to be done
				stop()
			}
		})
		stop()
		if err != nil {
			return err
		}
	}
	return nil
}

// await waits until there is something to write, or something that is written. It returns false once ctx has ended.
func (w *Writer) await(ctx context.Context) bool {
	for ctx.Err() == nil {
		changed := w.Changed()
		began := time.Now()
		if world, ok := w.World(); ok {
			if p, _ := plan.Make(world, plan.Memory{}); !idle(p) {
				return true
			}
		}
		took := time.Since(began)
		select {
		case <-ctx.Done():
		case <-changed:
			pace.Sleep(ctx, max(lease.BatchDelay, lease.PassShare*took))
		}
	}
	return false
}

// idle reports whether nothing is exported, nothing written, and nothing of it held until a time.
func idle(p *plan.Plan) bool {
	return len(p.Services)+len(p.Imports)+len(p.Delete)+len(p.DeleteImports)+len(p.Exports) == 0 && p.Due.IsZero()
}

// Status returns who writes.
func (w *Writer) Status() adminapi.ExportsWriter {
	seen := w.candidate.Seen()
	return adminapi.ExportsWriter{
		Mode:       "on",
		Identity:   w.Identity,
		Holder:     seen.Holder,
		Leading:    seen.Leading,
		LeaseError: seen.Problem,
	}
}

// Memory returns what the plans of the writer remember; false: this replica does not write.
func (w *Writer) Memory() (plan.Memory, bool) {
	t := w.candidate.Leadership()
	if t == nil {
		return plan.Memory{}, false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.memory, true
}

// Attempt returns what became of the writes of an object, as far as this replica knows: only the leader writes.
func (w *Writer) Attempt(kind string, id plan.ID) plan.Attempt {
	if t := w.candidate.Leadership(); t != nil {
		return t.attempt(kind, id)
	}
	return plan.Attempt{}
}

// Trouble returns why a change has not been made, as far as this replica knows: a state, and that in words. The state
// is empty if no more is to be done: the kind that is served does not have all fields,
// or the change is left to another controller.
func (w *Writer) Trouble(c *Change) (state, detail string) {
	if t := w.candidate.Leadership(); t != nil {
		return t.trouble(c)
	}
	return adminapi.ExportBeingWritten, ""
}

// count counts a write.
func (w *Writer) count(c *Change, v Verb, err error) {
	result := "ok"
	if err != nil {
		result = "error"
	}
	w.writes.WithLabelValues(cmp.Or(string(c.For), "unknown"), string(v), result).Inc()
}

// newWriteMetric registers the metrics, and returns the counter of writes.
func newWriteMetric(r prometheus.Registerer, s *lease.Candidate[leadership]) (*prometheus.CounterVec, error) {
	writes := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "isthmus_service_writes_total",
		Help: "Writes of Services, ServiceImports and conditions of ServiceExports, by what they are for, what was " +
			"done and how that ended.",
	}, []string{"kind", "verb", "result"})
	leader := s.Gauge(
		"isthmus_exports_leader",
		"Whether this replica holds the Lease for writing exported Services: 1 or 0.",
		nil,
		func(*leadership) float64 { return 1 },
	)
	return writes, errors.Join(r.Register(writes), r.Register(leader))
}

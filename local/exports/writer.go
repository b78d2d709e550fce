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

// The writer of exports does not share the Lease of the EndpointSlice writer, because Linkerd's
// destination controller may hold that Lease.
const leaseName = "isthmus-exports-write"

// The leader releases the Lease after it has found no exports, and no objects written by Isthmus,
// for idleTime.
const idleTime = time.Minute

// Options configure a Writer. All fields are required.
type Options struct {
	Services            func(namespace string) corev1.ServiceInterface
	MCS                 map[string]kube.MCS // by version; includes each version that World returns
	Leases              func(namespace string) coordinationv1.LeaseInterface
	Namespace, Identity string // namespace of the Lease, and its holder's name
	// World returns the current state and true. Until all required objects have been listed, the
	// second result is false. The Writer does not modify the result.
	World func() (plan.World, bool)
	// Each call to Changed returns a channel that is closed after the next change that may affect
	// the result of World.
	Changed    func() <-chan struct{}
	Registerer prometheus.Registerer
	Log        *zap.Logger
}

// Writer writes Services, ServiceImports and conditions of ServiceExports while it holds the Lease.
type Writer struct {
	Options
	writes    *prometheus.CounterVec
	candidate *lease.Candidate[leadership]
}

// New returns a Writer and registers its metrics. New sends no requests and starts no goroutines.
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

// Run takes part in elections while there are objects to write, and writes the objects while this
// replica holds the Lease. When ctx ends, Run finishes pending writes, releases the Lease, and
// returns nil.
func (w *Writer) Run(ctx context.Context) error {
	for w.await(ctx) {
		busy, stop := context.WithCancel(ctx)
		err := w.candidate.Run(busy, func(lease *lease.Leadership) *leadership {
			return newLeadership(w, lease)
		}, func(work context.Context, t *leadership) {
			if t.loop.Run(work); work.Err() == nil { // the loop was idle
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

// await waits until a plan is no longer idle. If ctx is done, the result is false.
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

// A plan is idle if it lists no objects and does not say when the next plan is due.
func idle(p *plan.Plan) bool {
	return len(p.Services)+len(p.Imports)+len(p.Delete)+len(p.DeleteImports)+len(p.Exports) == 0 && p.Due.IsZero()
}

func (w *Writer) Status() adminapi.ExportsWriter {
	seen := w.candidate.Status()
	return adminapi.ExportsWriter{
		Mode:       "on",
		Identity:   w.Identity,
		Holder:     seen.Holder,
		Leading:    seen.Leading,
		LeaseError: seen.Problem,
	}
}

// Memory returns the state that each of the leader's plans inherits from the previous plan. If this
// replica is not the leader, Memory returns false.
func (w *Writer) Memory() (plan.Memory, bool) {
	t := w.candidate.Leadership()
	if t == nil {
		return plan.Memory{}, false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.memory, true
}

// Attempt returns the outcome of the writes to an object. If this replica is not the leader,
// Attempt returns the zero Attempt.
func (w *Writer) Attempt(kind string, id plan.ID) plan.Attempt {
	if t := w.candidate.Leadership(); t != nil {
		return t.attempt(kind, id)
	}
	return plan.Attempt{}
}

// Trouble returns the state of a change, and the reason why the change has not been written. If
// this replica is not the leader, the state is [adminapi.ExportBeingWritten], and the reason is
// empty. If the served version of the kind lacks the changed fields, or if Isthmus leaves the
// conditions of a ServiceExport to another controller, the state is empty.
func (w *Writer) Trouble(c *Change) (state, detail string) {
	if t := w.candidate.Leadership(); t != nil {
		return t.trouble(c)
	}
	return adminapi.ExportBeingWritten, ""
}

func (w *Writer) count(c *Change, v Verb, err error) {
	result := "ok"
	if err != nil {
		result = "error"
	}
	w.writes.WithLabelValues(cmp.Or(string(c.For), "unknown"), string(v), result).Inc()
}

func newWriteMetric(r prometheus.Registerer, s *lease.Candidate[leadership]) (*prometheus.CounterVec, error) {
	writes := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "isthmus_service_writes_total",
		Help: "Writes to Services, ServiceImports and ServiceExport conditions, by kind of export, verb and result.",
	}, []string{"kind", "verb", "result"})
	leader := s.Gauge(
		"isthmus_exports_leader",
		"1 while this replica holds the Lease for writing exported Services, otherwise 0.",
		nil,
		func(*leadership) float64 { return 1 },
	)
	return writes, errors.Join(r.Register(writes), r.Register(leader))
}

package externalworkload

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"isthmus/clusterstore/crd"
	"isthmus/clusterstore/typed"
	"isthmus/local/election"
)

// leaseName is the name that Linkerd's controller uses.
const leaseName = "linkerd-destination-endpoint-write"

// Options are a Writer's.
type Options struct {
	Client    *typed.Clients // of the local cluster
	Workloads WorkloadClient // of the same
	Namespace string         // of the control plane: the Lease is there
	Identity  string         // by which the Lease is held; no other replica may have the same
	// QueueMetrics exports the metrics of the work queue.
	QueueMetrics bool
	Registerer   prometheus.Registerer // nil: no metrics
	Log          *zap.Logger           // nil: no logs
}

// WorkloadClient reads a cluster's ExternalWorkloads, in all namespaces.
type WorkloadClient interface {
	List(context.Context, metav1.ListOptions) (*crd.ExternalWorkloadList, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
}

func (o *Options) validate() error {
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	if o.Registerer == nil {
		o.Registerer = prometheus.NewRegistry()
	}
	switch {
	case o.Client == nil:
		return errors.New("Options.Client is nil")
	case o.Workloads == nil:
		return errors.New("Options.Workloads, the client for ExternalWorkloads, is nil")
	case o.Namespace == "":
		return errors.New("Options.Namespace, the namespace of the Lease, is empty")
	case o.Identity == "":
		return errors.New("Options.Identity, the name of the Lease's holder, is empty")
	}
	return nil
}

// Writer writes EndpointSlices while it holds the Lease.
type Writer struct {
	// fixed
	o       Options
	log     *zap.Logger
	metrics *metrics

	mu          sync.Mutex
	holder      string    // of the Lease, as last seen
	leaseErr    string    // why the Lease can't be used; empty: it can
	term        *term     // nil: does not lead
	since       time.Time // when it began, or stopped, to lead
	lastFailure failure
	problems    map[types.NamespacedName][]string // what is left out, by Service
	unread      map[string]string                 // why resources can't be read, by resource
}

// New checks the options. It does no network IO and starts nothing.
func New(o Options) (*Writer, error) {
	if err := o.validate(); err != nil {
		return nil, fmt.Errorf("EndpointSlice writer: %w", err)
	}
	w := &Writer{o: o, log: o.Log, problems: make(map[types.NamespacedName][]string), unread: make(map[string]string)}
	m, err := newMetrics(o.Registerer, o.QueueMetrics, w.leads)
	if err != nil {
		return nil, fmt.Errorf("EndpointSlice writer: %w", err)
	}
	w.metrics = m
	return w, nil
}

// Run takes part in elections, and writes while it holds the Lease, until ctx ends.
// Then it finishes the write under way, releases the Lease if it holds it, and
// returns nil, within some seconds. Run is called once.
func (w *Writer) Run(ctx context.Context) error {
	w.mu.Lock()
	w.since = time.Now()
	w.mu.Unlock()
	return election.Run(ctx, election.Config{
		Leases: w.o.Client.Leases, Namespace: w.o.Namespace, Name: leaseName, Identity: w.o.Identity, Observe: w.observeLease,
	}, func(work context.Context, lease *election.Term) { w.lead(work, lease) })
}

// lead writes until work ends. The writes under way are then finished, unless the Lease is lost.
func (w *Writer) lead(work context.Context, lease lease) {
	w.log.Info("this replica holds the Lease and writes EndpointSlices for ExternalWorkloads", zap.String("identity", w.o.Identity))
	for work.Err() == nil {
		t := newTerm(w, lease)
		w.setTerm(t)
		t.run(work)
	}
	w.setTerm(nil)
	w.log.Info("this replica no longer writes EndpointSlices", zap.String("reason", context.Cause(work).Error()))
}

// setTerm begins a term for Status, maybe in place of another; nil: it has ended.
func (w *Writer) setTerm(t *term) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if (t == nil) != (w.term == nil) {
		w.since = time.Now()
	}
	w.term = t
	clear(w.problems)
	clear(w.unread)
	w.lastFailure = failure{}
}

// observeLease stores who holds the Lease, or why it can't be read or written, and logs
// when it becomes usable or unusable.
func (w *Writer) observeLease(holder string, err error) {
	w.mu.Lock()
	before := w.leaseErr
	w.holder, w.leaseErr = holder, ""
	if err != nil {
		w.leaseErr = err.Error()
	}
	now := w.leaseErr
	w.mu.Unlock()
	switch { // reasons may differ from attempt to attempt
	case (now == "") == (before == ""):
	case now != "":
		w.log.Error("the Lease for writing EndpointSlices can't be used; still trying", zap.String("error", now))
	default:
		w.log.Info("the Lease for writing EndpointSlices can be used again")
	}
}

func (w *Writer) leads() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.term != nil
}

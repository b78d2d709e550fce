package externalworkload

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"

	"isthmus/clusterstore/crd"
	"isthmus/clusterstore/typed"
	"isthmus/federation"
	"isthmus/local/election"
	"isthmus/local/writes"
)

// leaseName is the name that Linkerd's controller uses.
const leaseName = "linkerd-destination-endpoint-write"

// Options are a Writer's.
type Options struct {
	Client    *typed.Clients // of the own cluster
	Namespace string         // of the control plane: the Lease is there
	Identity  string         // by which the Lease is held; no other replica may have the same
	// QueueMetrics exports the metrics of the work queue.
	QueueMetrics bool
	Registerer   prometheus.Registerer // nil: no metrics
	Log          *zap.Logger           // nil: no logs
}

// Cluster is what a Writer reads of the own cluster, which follows the objects. It is a
// [cluster.Own], whose methods have the details.
//
// [cluster.Own]: isthmus/clusterstore/cluster
type Cluster interface {
	Synced() <-chan struct{}
	Reads(resource string) (listed bool, err error)
	Selecting(federation.ServiceID) *corev1.Service
	SelectingIn(namespace string) []*corev1.Service
	Workloads(namespace string) []*crd.ExternalWorkload // "": of all
	HasWorkloads(namespace string) bool
	Marked(federation.ServiceID) int
	AllMarked() map[federation.ServiceID]int
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
	cluster Cluster // set by Follow

	standing *election.Standing[term]

	mu          sync.Mutex // the rest is of the present term
	lastFailure failure
	problems    map[federation.ServiceID][]string // what is left out, by Service
	unread      bool                              // it is logged that ExternalWorkloads can't be read
}

// New checks the options. It does no network IO and starts nothing.
func New(o Options) (*Writer, error) {
	if err := o.validate(); err != nil {
		return nil, fmt.Errorf("EndpointSlice writer: %w", err)
	}
	w := &Writer{
		o: o, log: o.Log, problems: make(map[federation.ServiceID][]string),
		standing: election.NewStanding[term]("EndpointSlices for ExternalWorkloads", o.Identity, o.Log),
	}
	m, err := newMetrics(o.Registerer, o.QueueMetrics, w.leading)
	if err != nil {
		return nil, fmt.Errorf("EndpointSlice writer: %w", err)
	}
	w.metrics = m
	return w, nil
}

// Follow sets the cluster. It is called once, before Run, and before Changed and WorkloadChanged.
func (w *Writer) Follow(c Cluster) { w.cluster = c }

// Changed is to be called after each change of a Service or of its marked slices, once the cluster has
// synced. It does not block.
func (w *Writer) Changed(svc federation.ServiceID) {
	if t := w.leading(); t != nil {
		t.serviceChanged(svc)
	}
}

// WorkloadChanged is to be called after each change of an ExternalWorkload; before is nil for a new one,
// after for one that is gone. It does not block.
func (w *Writer) WorkloadChanged(before, after *crd.ExternalWorkload) {
	if t := w.leading(); t != nil {
		t.workloadChanged(before, after)
	}
}

// Run takes part in elections, and writes while it holds the Lease, until ctx ends.
// Then it finishes the write under way, releases the Lease if it holds it, and
// returns nil, within some seconds. Run is called once.
func (w *Writer) Run(ctx context.Context) error {
	return election.Run(ctx, election.Config{
		Leases: w.o.Client.Leases, Namespace: w.o.Namespace, Name: leaseName, Identity: w.o.Identity, Observe: w.standing.Observe,
	}, func(work context.Context, lease *election.Term) { w.lead(work, lease) })
}

// lead writes until work ends. The writes under way are then finished, unless the Lease is lost.
func (w *Writer) lead(work context.Context, lease writes.Lease) {
	t := newTerm(w, lease)
	w.standing.Lead(work, t, t.run)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.unread, w.lastFailure = false, failure{}
	clear(w.problems)
}

// leading returns the present term; nil: this replica does not lead.
func (w *Writer) leading() *term { return w.standing.Term() }

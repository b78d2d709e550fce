package externalworkload

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"isthmus/clusterstore/decode"
	"isthmus/clusterstore/kube"
	"isthmus/federation"
	"isthmus/internal/adminapi"
	"isthmus/local/lease"
)

// leaseName is the name of a Lease that Linkerd's controller uses too.
const leaseName = "linkerd-destination-endpoint-write"

// Options configure a Writer. All fields are required.
type Options struct {
	Client       *kube.Clients // of the local cluster
	Namespace    string        // namespace of the control plane, and so of the Lease
	Identity     string        // the Lease's holder; unique among replicas
	QueueMetrics bool
	Registerer   prometheus.Registerer
	Log          *zap.Logger
}

// Cluster provides the cached objects of the local cluster to a Writer. [cluster.Local] implements
// Cluster and documents the methods.
//
// [cluster.Local]: isthmus/clusterstore/cluster
type Cluster interface {
	Synced() <-chan struct{}
	Reads(resource string) (listed bool, err error)
	Selecting(federation.ServiceID) *corev1.Service
	SelectingIn(namespace string) []*corev1.Service
	Workloads(namespace string) []*decode.ExternalWorkload // of all namespaces if namespace is ""
	HasWorkloads(namespace string) bool
	ManagedSlices(federation.ServiceID) int
	AllManagedSlices() map[federation.ServiceID]int
}

// Writer writes EndpointSlices while it holds the Lease.
type Writer struct {
	// fixed after construction
	o       Options
	log     *zap.Logger
	metrics *metrics
	cluster Cluster // set by SetCluster

	candidate *lease.Candidate[leadership]
	problems  *Problems // what the current leadership left out of slices

	mu          sync.Mutex // guards the rest, which belongs to the current leadership
	lastFailure failure
	unread      bool // a log entry says that ExternalWorkloads are unreadable
}

// New returns a Writer and registers its metrics. New sends no requests and starts no goroutines.
func New(o Options) (*Writer, error) {
	w := &Writer{
		o:        o,
		log:      o.Log,
		problems: NewProblems(o.Log, "EndpointSlices omit some of the Service's ExternalWorkloads"),
		candidate: lease.NewCandidate[leadership]("EndpointSlices for ExternalWorkloads", lease.Config{
			Leases: o.Client.Leases, Namespace: o.Namespace, Name: leaseName, Identity: o.Identity,
		}, o.Log),
	}
	m, err := newMetrics(o.Registerer, o.QueueMetrics, w.candidate)
	if err != nil {
		return nil, fmt.Errorf("EndpointSlice writer: %w", err)
	}
	w.metrics = m
	return w, nil
}

// SetCluster must be called once, before Run, Changed and WorkloadChanged.
func (w *Writer) SetCluster(c Cluster) { w.cluster = c }

// Once the cluster has synced, Changed must be called after each change to a Service or to the
// marked slices of a Service. It does not block.
func (w *Writer) Changed(svc federation.ServiceID) {
	if t := w.leading(); t != nil {
		t.serviceChanged(svc)
	}
}

// WorkloadChanged must be called after each change to an ExternalWorkload. The first argument is
// nil for a new workload, and the second argument is nil for a deleted workload. WorkloadChanged
// does not block.
func (w *Writer) WorkloadChanged(before, after *decode.ExternalWorkload) {
	if t := w.leading(); t != nil {
		t.workloadChanged(before, after)
	}
}

// Run takes part in elections, and writes EndpointSlices while this replica holds the Lease. When
// ctx is done, Run finishes pending writes, releases the Lease, and returns nil within seconds.
// Call Run once.
func (w *Writer) Run(ctx context.Context) error {
	return w.candidate.Run(ctx, func(lease *lease.Leadership) *leadership { return newLeadership(w, lease) }, w.lead)
}

// lead writes EndpointSlices until its context is done. After the context is done, pending writes
// still finish unless the Lease is lost.
func (w *Writer) lead(work context.Context, t *leadership) {
	t.run(work)
	w.problems.Clear()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.unread = false
	w.lastFailure = failure{}
}

func (w *Writer) leading() *leadership { return w.candidate.Leadership() }

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
	seen := w.candidate.Status()
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

func (w *Writer) setFailure(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lastFailure = failure{err.Error(), time.Now()}
}

// ready reports whether ExternalWorkloads can be read, and logs each transition. While
// ExternalWorkloads cannot be read, slices do not change.
func (w *Writer) ready() bool {
	listed, err := w.cluster.Reads(workloadsName)
	failed := err != nil && !apierrors.IsNotFound(err) // Linkerd's CRDs are optional
	w.mu.Lock()
	before := w.unread
	w.unread = failed
	w.mu.Unlock()
	switch { // log only transitions, since errors may differ between attempts
	case failed == before:
	case failed:
		w.log.Error("ExternalWorkloads cannot be read, so EndpointSlices stay unchanged; still trying", zap.Error(err))
	default:
		w.log.Info("ExternalWorkloads can be read again")
	}
	return listed && err == nil
}

type failure struct {
	text string
	at   time.Time
}

const workloadsName = "externalworkloads"

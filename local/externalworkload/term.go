package externalworkload

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	endpointutil "k8s.io/endpointslice/util"
)

const (
	// settle is how long a Service waits for more changes before it is synced.
	settle = 50 * time.Millisecond
	// pace is how long a Service is left alone after its slices were written.
	pace = time.Second
	// maxRetries is how often in a row a Service may fail before it is left to
	// its next change, or to the next resync.
	maxRetries = 15
)

// term is one time of leading: what is read, and the queue of Services to be
// synced. Nothing of it outlives it.
type term struct {
	// fixed
	*Writer
	services, workloads, slices cache.SharedIndexInformer
	queue                       workqueue.TypedRateLimitingInterface[types.NamespacedName]
	tracker                     *endpointutil.EndpointSliceTracker
	synced                      chan struct{} // closed once all is listed

	written map[types.NamespacedName]time.Time // of the worker: when slices were last written
}

func newTerm(w *Writer) *term {
	limit := workqueue.NewTypedMaxOfRateLimiter(
		workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](5*time.Millisecond, 1000*time.Second),
		&workqueue.TypedBucketRateLimiter[types.NamespacedName]{Limiter: rate.NewLimiter(10, 100)},
	)
	t := &term{
		Writer: w,
		queue: workqueue.NewTypedRateLimitingQueueWithConfig(limit, workqueue.TypedRateLimitingQueueConfig[types.NamespacedName]{
			Name: queueName, MetricsProvider: w.metrics.queue,
		}),
		tracker: endpointutil.NewEndpointSliceTracker(),
		synced:  make(chan struct{}),
		written: make(map[types.NamespacedName]time.Time),
	}
	t.follow()
	return t
}

// run follows the cluster and syncs its Services until work ends, and returns
// once nothing is under way. Writes end with lease.
func (t *term) run(work, lease context.Context) {
	var all sync.WaitGroup
	for _, i := range []cache.SharedIndexInformer{t.services, t.workloads, t.slices} {
		all.Go(func() { i.RunWithContext(work) })
	}
	if cache.WaitForCacheSync(work.Done(), t.services.HasSynced, t.workloads.HasSynced, t.slices.HasSynced) {
		close(t.synced)
		t.log.Info("Services and ExternalWorkloads are listed", zap.Int("services", len(t.services.GetIndexer().ListKeys())),
			zap.Int("externalWorkloads", len(t.workloads.GetIndexer().ListKeys())))
		defer context.AfterFunc(work, t.queue.ShutDown)()
		for t.next(work, lease) {
		}
	}
	all.Wait()
	t.queue.ShutDown()
	t.metrics.queue.reset()
}

func (t *term) isSynced() bool {
	select {
	case <-t.synced:
		return true
	default:
		return false
	}
}

// mark says that a Service is to be synced.
func (t *term) mark(svc types.NamespacedName) { t.queue.AddAfter(svc, settle) }

// next takes one Service from the queue and syncs it. It returns false once the
// queue is shut down.
func (t *term) next(work, lease context.Context) bool {
	svc, shutdown := t.queue.Get()
	if shutdown {
		return false
	}
	defer t.queue.Done(svc)
	if work.Err() != nil {
		return true
	}
	if rest := time.Until(t.written[svc].Add(pace)); rest > 0 {
		t.queue.AddAfter(svc, rest)
		return true
	}
	err := t.sync(work, lease, svc)
	switch {
	case work.Err() != nil:
	case err == nil:
		t.queue.Forget(svc)
	case t.queue.NumRequeues(svc) < maxRetries:
		if !errors.Is(err, errStale) { // which is nobody's fault
			t.failed(err)
		}
		t.log.Debug("EndpointSlices are not as they should be yet", zap.Stringer("service", svc), zap.Error(err))
		t.metrics.queue.retries.Inc()
		t.queue.AddRateLimited(svc)
	default:
		t.failed(err)
		t.log.Error("EndpointSlices can't be written; given up until something changes", zap.Stringer("service", svc), zap.Error(err))
		t.metrics.queue.drops.Inc()
		t.queue.Forget(svc)
		t.tracker.DeleteService(svc.Namespace, svc.Name) // so that the next try does not depend on what failed
	}
	return true
}

package externalworkload

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.uber.org/zap"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
	// its next change, or to the next resync. Retries of one Service never wait
	// for those of another.
	maxRetries             = 15
	minBackoff, maxBackoff = time.Second, 30 * time.Second
	// soon is when it is looked again whether what was written has been read
	// back, and maxStale for how long that is waited for.
	soon, maxStale = 250 * time.Millisecond, 2 * time.Minute
)

// term is one time of leading: what is read, and the queue of Services to be
// synced. Nothing of it outlives it.
type term struct {
	// fixed
	*Writer
	held                        func() bool // the Lease, by the clock
	services, workloads, slices cache.SharedIndexInformer
	queue                       workqueue.TypedDelayingInterface[types.NamespacedName]
	backoff                     workqueue.TypedRateLimiter[types.NamespacedName]
	tracker                     *endpointutil.EndpointSliceTracker
	synced                      chan struct{} // closed once all is listed

	// of the worker
	written map[types.NamespacedName]time.Time // when slices were last written
	stale   map[types.NamespacedName]time.Time // since when they have not been read back
}

func newTerm(w *Writer, held func() bool) *term {
	t := &term{
		Writer: w,
		held:   held,
		queue: workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[types.NamespacedName]{
			Name: queueName, MetricsProvider: w.metrics.queue,
		}),
		backoff: workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](minBackoff, maxBackoff),
		tracker: endpointutil.NewEndpointSliceTracker(),
		synced:  make(chan struct{}),
		written: make(map[types.NamespacedName]time.Time),
		stale:   make(map[types.NamespacedName]time.Time),
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
	if err := t.sync(work, lease, svc); work.Err() == nil {
		t.conclude(svc, err)
	}
	return true
}

// conclude says what follows from how syncing a Service went.
func (t *term) conclude(svc types.NamespacedName, err error) {
	if errors.Is(err, errStale) {
		t.await(svc)
		return
	}
	delete(t.stale, svc)
	if err == nil {
		t.backoff.Forget(svc)
		return
	}
	t.failed(err)
	if t.backoff.NumRequeues(svc) < maxRetries {
		t.log.Debug("EndpointSlices are not as they should be yet", zap.Stringer("service", svc), zap.Error(err))
		wait := t.backoff.When(svc)
		if apierrors.IsConflict(err) { // somebody was faster; what is new is read soon
			wait = pace
		}
		t.metrics.queue.retries.Inc()
		t.queue.AddAfter(svc, wait)
		return
	}
	t.log.Error("EndpointSlices can't be written; given up until something changes", zap.Stringer("service", svc), zap.Error(err))
	t.metrics.queue.drops.Inc()
	t.backoff.Forget(svc)
	t.tracker.DeleteService(svc.Namespace, svc.Name) // so that the next try does not depend on what failed
}

// await has a Service synced once what was written of it has been read back,
// which nobody else does, or has not been for too long.
func (t *term) await(svc types.NamespacedName) {
	began, ok := t.stale[svc]
	switch {
	case !ok:
		t.stale[svc] = time.Now()
	case time.Since(began) > maxStale:
		delete(t.stale, svc)
		t.tracker.DeleteService(svc.Namespace, svc.Name)
	}
	t.queue.AddAfter(svc, soon)
}

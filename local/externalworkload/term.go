package externalworkload

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	endpointutil "k8s.io/endpointslice/util"
)

const (
	// batchDelay is how long a Service waits for more changes before it is synced.
	// With writeInterval, a single change is written after 50 ms, and of a thousand
	// within a second two or three writes remain.
	batchDelay = 50 * time.Millisecond
	// writeInterval is how long a Service is not written again after a write.
	writeInterval = time.Second
	// maxRetries is how often in a row a Service may fail, over some minutes,
	// before it waits for its next change or the next resync. Retries of one
	// Service never wait for those of another.
	maxRetries             = 15
	minBackoff, maxBackoff = time.Second, 30 * time.Second
	// staleCheck is the time between checks whether a write has been read back.
	// After maxStale it counts as gone.
	staleCheck, maxStale = 250 * time.Millisecond, 2 * time.Minute
)

// lease lets a write begin only while this replica holds the Lease. The context of write ends
// when that is lost. It is an [election.Term].
type lease interface {
	Write(write func(context.Context) error) error
}

// term is one term of leadership: all objects that are read, and the queue of Services
// to sync. It is dropped with the Lease, so that a replica that waits holds nothing. When
// nothing needs Services, another one takes its place, which has not read them.
type term struct {
	// fixed
	*Writer
	lease                       lease
	services, workloads, slices cache.SharedIndexInformer
	queue                       workqueue.TypedDelayingInterface[types.NamespacedName]
	order                       *order // of the queue
	backoff                     workqueue.TypedRateLimiter[types.NamespacedName]
	tracker                     *endpointutil.EndpointSliceTracker
	arrived                     chan struct{} // has a value after a workload or slice has been added
	synced                      atomic.Bool   // all that is needed now is listed

	changes changes // of workloads, for the queue's keys workloadsOf
	written times   // when slices were last written
	stale   times   // since when they have not been read back
}

func newTerm(w *Writer, lease lease) *term {
	order := newOrder()
	t := &term{
		Writer: w,
		lease:  lease,
		queue: workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[types.NamespacedName]{
			Name: queueName, MetricsProvider: w.metrics.queue,
			Queue: workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[types.NamespacedName]{
				Name: queueName, MetricsProvider: w.metrics.queue, Queue: order,
			}),
		}),
		order:   order,
		backoff: workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](minBackoff, maxBackoff),
		tracker: endpointutil.NewEndpointSliceTracker(),
		arrived: make(chan struct{}, 1),
	}
	t.newInformers()
	return t
}

// run follows workloads and slices and, while there are any, Services too, which it
// syncs. It returns when work ends or there have been none for a while, and the last
// writes have ended.
func (t *term) run(work context.Context) {
	work, stop := context.WithCancel(work)
	var all sync.WaitGroup
	all.Go(func() { t.workloads.RunWithContext(work) })
	all.Go(func() { t.slices.RunWithContext(work) })
	if cache.WaitForCacheSync(work.Done(), t.workloads.HasSynced, t.slices.HasSynced) && t.awaitObjects(work) {
		all.Go(func() { t.services.RunWithContext(work) })
		if cache.WaitForCacheSync(work.Done(), t.services.HasSynced) {
			t.synced.Store(true)
			t.log.Info("Services and ExternalWorkloads are listed", zap.Int("services", len(t.services.GetIndexer().ListKeys())),
				zap.Int("externalWorkloads", len(t.workloads.GetIndexer().ListKeys())))
			for range workers {
				all.Go(func() {
					for t.next(work) {
					}
				})
			}
			t.awaitIdle(work)
		}
	}
	stop()
	t.queue.ShutDown() // so that the workers end
	all.Wait()
	t.metrics.queue.reset()
}

// mark adds a Service to the queue.
func (t *term) mark(svc types.NamespacedName) { t.queue.AddAfter(svc, batchDelay) }

// next takes one Service from the queue and syncs it. It returns false once the
// queue is shut down.
func (t *term) next(work context.Context) bool {
	svc, shutdown := t.queue.Get()
	if shutdown {
		return false
	}
	defer func() {
		t.order.done(svc)
		t.queue.Done(svc)
	}()
	if work.Err() != nil {
		return true
	}
	if svc == workloadsOf(svc.Namespace) {
		t.queueConcerned(work, svc.Namespace)
		return true
	}
	written, _ := t.written.get(svc)
	if wait := time.Until(written.Add(writeInterval)); wait > 0 {
		t.queue.AddAfter(svc, wait)
		return true
	}
	if err := t.sync(work, svc); work.Err() == nil {
		t.finish(svc, err)
	}
	return true
}

// finish adds a Service to the queue again if syncing it has failed.
func (t *term) finish(svc types.NamespacedName, err error) {
	if errors.Is(err, errStale) {
		t.checkAgain(svc)
		return
	}
	t.stale.forget(svc)
	if err == nil {
		t.backoff.Forget(svc)
		return
	}
	t.setFailure(err)
	if t.backoff.NumRequeues(svc) < maxRetries {
		t.log.Debug("EndpointSlices are not as they should be yet", zap.Stringer("service", svc), zap.Error(err))
		wait := t.backoff.When(svc)
		if apierrors.IsConflict(err) { // another writer was faster, and its version is read soon
			wait = writeInterval
		}
		t.metrics.queue.retries.Inc()
		t.queue.AddAfter(svc, wait)
		return
	}
	t.log.Error("EndpointSlices can't be written; given up until the Service or its workloads change", zap.Stringer("service", svc), zap.Error(err))
	t.metrics.queue.drops.Inc()
	t.backoff.Forget(svc)
	t.tracker.DeleteService(svc.Namespace, svc.Name) // so that the next attempt does not wait for what has failed
}

// checkAgain adds a Service whose last writes have not been read back to the queue:
// no event does that once they are. After maxStale it gives up waiting for them.
func (t *term) checkAgain(svc types.NamespacedName) {
	began, ok := t.stale.get(svc)
	switch {
	case !ok:
		t.stale.now(svc)
	case time.Since(began) > maxStale:
		t.stale.forget(svc)
		t.tracker.DeleteService(svc.Namespace, svc.Name)
	}
	t.queue.AddAfter(svc, staleCheck)
}

package externalworkload

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/workqueue"

	"isthmus/federation"
)

const (
	// batchDelay is how long a Service waits for more changes before it is synced.
	// With writeInterval, a single change is written after 50 ms, and of a thousand
	// within a second two or three writes remain.
	batchDelay = 50 * time.Millisecond
	// writeInterval is how long a Service is not written again after a write.
	writeInterval = time.Second
	// A Service that fails is tried again after minBackoff, and after twice as long each
	// time, up to maxBackoff. Retries of one Service never wait for those of another.
	minBackoff, maxBackoff = time.Second, 5 * time.Minute
	// manyFailures in a row, which take four minutes, are logged as an error.
	manyFailures = 8
	// readyCheck is the time between checks whether ExternalWorkloads can be read.
	readyCheck = time.Second
)

// lease lets a write begin only while this replica holds the Lease. The context of write ends
// when that is lost. It is an [election.Term].
type lease interface {
	Write(write func(context.Context) error) error
}

// term is one term of leadership: the queue of Services to sync, and what has been written.
// It is dropped with the Lease.
type term struct {
	// fixed
	*Writer
	lease   lease
	queue   workqueue.TypedDelayingInterface[federation.ServiceID]
	order   *order // of the queue
	backoff workqueue.TypedRateLimiter[federation.ServiceID]

	changes changes // of workloads, for the queue's keys workloadsOf
	writes  writes
}

func newTerm(w *Writer, lease lease) *term {
	order := newOrder()
	return &term{
		Writer: w,
		lease:  lease,
		queue: workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[federation.ServiceID]{
			Name: queueName, MetricsProvider: w.metrics.queue,
			Queue: workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[federation.ServiceID]{
				Name: queueName, MetricsProvider: w.metrics.queue, Queue: order,
			}),
		}),
		order:   order,
		backoff: workqueue.NewTypedItemExponentialFailureRateLimiter[federation.ServiceID](minBackoff, maxBackoff),
	}
}

// run syncs all Services that have workloads or slices, and those that change, until work
// ends. It returns when the last writes have ended.
func (t *term) run(work context.Context) {
	var all sync.WaitGroup
	select {
	case <-work.Done():
	case <-t.cluster.Synced():
		for _, w := range t.cluster.Workloads("") {
			t.workloadChanged(nil, w)
		}
		for svc := range t.cluster.AllMarked() {
			t.mark(svc)
		}
		for range workers {
			all.Go(func() {
				for t.next(work) {
				}
			})
		}
		<-work.Done()
	}
	t.queue.ShutDown() // so that the workers end
	all.Wait()
	t.metrics.queue.reset()
}

// writes has when this term last wrote slices, by Service. Its zero value has nothing, and it is safe
// for concurrent use.
type writes struct{ all sync.Map }

func (w *writes) last(svc federation.ServiceID) (at time.Time, ok bool) {
	x, ok := w.all.Load(svc)
	at, _ = x.(time.Time)
	return at, ok
}

func (w *writes) set(svc federation.ServiceID)    { w.all.Store(svc, time.Now()) }
func (w *writes) forget(svc federation.ServiceID) { w.all.Delete(svc) }

// mark adds a Service to the queue.
func (t *term) mark(svc federation.ServiceID) { t.queue.AddAfter(svc, batchDelay) }

// serviceChanged marks a Service if it may have to do with ExternalWorkloads. Most have not, and whoever
// follows the cluster waits for this: it takes no longer where there are many objects.
func (t *term) serviceChanged(svc federation.ServiceID) {
	if t.cluster.HasWorkloads(svc.Namespace) || t.mayHaveSlices(svc) || t.hasProblems(svc) {
		t.mark(svc)
	}
}

// mayHaveSlices reports whether a Service may have slices that are marked as ours. The cluster may not have
// seen yet what this term has written.
func (t *term) mayHaveSlices(svc federation.ServiceID) bool {
	_, written := t.writes.last(svc)
	return written || t.cluster.Marked(svc) > 0
}

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
	if !t.ready() {
		t.queue.AddAfter(svc, readyCheck)
		return true
	}
	if svc == workloadsOf(svc.Namespace) {
		t.queueConcerned(work, svc.Namespace)
		return true
	}
	written, _ := t.writes.last(svc)
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
func (t *term) finish(svc federation.ServiceID, err error) {
	if err == nil {
		t.backoff.Forget(svc)
		return
	}
	t.setFailure(err)
	wait := t.backoff.When(svc)
	if apierrors.IsConflict(err) { // another writer was faster
		wait = writeInterval
	}
	if t.backoff.NumRequeues(svc) == manyFailures {
		t.log.Error("EndpointSlices can't be written; still trying", zap.Stringer("service", svc), zap.Error(err))
	} else {
		t.log.Debug("EndpointSlices are not as they should be yet", zap.Stringer("service", svc), zap.Error(err))
	}
	t.metrics.queue.retries.Inc()
	t.queue.AddAfter(svc, wait)
}

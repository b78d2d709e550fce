package externalworkload

import (
	"sync"

	"isthmus/clusterstore/fair"
	"isthmus/federation"
)

const (
	// workers is how many Services are synced at the same time. A write that hangs
	// keeps one for requestTimeout.
	workers = 32
	// workersForOne is how many of them work for the same namespace, so that all the
	// writes of a few namespaces may hang and leave workers to the others.
	workersForOne = 4
)

// order is the order of the Services that are to be synced: in turn by namespace. It
// implements workqueue.Queue, whose methods are not called at the same time; done may
// be.
type order struct {
	mu    sync.Mutex
	queue *fair.Queue[federation.ServiceID]
}

func newOrder() *order {
	return &order{queue: fair.NewQueue[federation.ServiceID](workersForOne)}
}

// Touch implements workqueue.Queue. A Service that is marked again keeps its place.
func (o *order) Touch(federation.ServiceID) {}

// Push implements workqueue.Queue.
func (o *order) Push(svc federation.ServiceID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.queue.Push(svc.Namespace, svc)
}

// Len implements workqueue.Queue: it is 0 if no Service may be begun. It counts namespaces with
// Services that wait, without those that have all their workers. The queue does not notice when it
// grows by done: the worker that calls that takes the next Service itself.
func (o *order) Len() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.queue.Len()
}

// Pop implements workqueue.Queue.
func (o *order) Pop() federation.ServiceID {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, svc, _ := o.queue.Pop()
	return svc
}

// done is called before the queue's Done.
func (o *order) done(svc federation.ServiceID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.queue.Done(svc.Namespace)
}

package externalworkload

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"isthmus/clusterstore/fair"
)

const (
	// workers is how many Services are synced at the same time. A write that hangs
	// keeps one for writeTimeout.
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
	queue *fair.Queue[types.NamespacedName]
}

func newOrder() *order {
	return &order{queue: fair.NewQueue[types.NamespacedName](workersForOne)}
}

// Touch implements workqueue.Queue. A Service that is marked again keeps its place.
func (o *order) Touch(types.NamespacedName) {}

// Push implements workqueue.Queue.
func (o *order) Push(svc types.NamespacedName) {
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
func (o *order) Pop() types.NamespacedName {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, svc, _ := o.queue.Pop()
	return svc
}

// done is called before the queue's Done.
func (o *order) done(svc types.NamespacedName) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.queue.Done(svc.Namespace)
}

// times is when something happened, by Service. Its zero value has none, and it is safe
// for concurrent use.
type times struct {
	at sync.Map // of types.NamespacedName to time.Time
}

func (t *times) get(svc types.NamespacedName) (at time.Time, ok bool) {
	v, ok := t.at.Load(svc)
	at, _ = v.(time.Time)
	return at, ok
}

func (t *times) now(svc types.NamespacedName)    { t.at.Store(svc, time.Now()) }
func (t *times) forget(svc types.NamespacedName) { t.at.Delete(svc) }

package follow

import (
	"context"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// Kind describes how one kind of object is followed, and where it goes: of an object
// that the API has as an O, a T is kept. Its functions are called by one goroutine,
// one at a time, unless noted otherwise.
type Kind[O runtime.Object, T any] struct {
	Name   string // of the resource, as in URLs
	Needed bool   // without it the Group is not synced
	Aside  bool   // what is served does not depend on it: the Group stays healthy if it is over budget
	Calls  Calls
	Fields string // a field selector; empty: all objects

	// Compact returns what to keep of an object. Not ok: it is not kept, as if it
	// did not exist. It is a pure function.
	Compact func(O) (value T, ok bool)
	Into    Store[T]
	// Together, if set, orders objects: those of a list that are equal by it are put into
	// the Store, which must be a [Joint], in one step. So what has moved from one to
	// another is never in neither.
	Together func(a, b T) int
	// Changed, if set, is called after an object has been put into the Store and
	// was not Same, or, not ok, has been dropped from it.
	Changed func(key string, value T, ok bool)
	// Applied, if set, is called after a whole list, or an event, has been put
	// into the Store.
	Applied func()
	// Report, if set, gets every failure, and nil each time that the objects
	// can be read. It may be called by several goroutines.
	Report func(error)
	// Lag, if set, observes the age of updates when they come, in seconds.
	Lag prometheus.Observer
}

// Joint is a Store into which several objects can be put in one step.
type Joint[T any] interface {
	// PutTogether calls f, which may call put for any number of objects.
	PutTogether(f func(put func(key string, value T) Effect))
}

// Store keeps the objects of a Kind. Its methods are called by one goroutine, one at
// a time; keys are those of [JoinKey].
type Store[T any] interface {
	Put(key string, value T) Effect
	Drop(key string) (existed bool)
	// PrepareDrop is called for each object that is in the Store and not in a new
	// list, before any object of that list is put. It is dropped after that.
	PrepareDrop(key string)
	// Keys iterates over the keys of all objects in the Store.
	Keys(yield func(key string) bool)
}

// Effect is what putting an object into a Store has changed.
type Effect uint8

// The effects of Put.
const (
	Same     Effect = iota // nothing: the Store had an equal one
	Replaced               // the Store had another one with that key
	Added
)

// Calls are the requests for one resource.
type Calls struct {
	List  func(context.Context, metav1.ListOptions) (runtime.Object, error)
	Watch func(context.Context, metav1.ListOptions) (watch.Interface, error)
	// Serves, if set, asks API discovery whether the API has the resource. An error
	// means that it is not known. It is for kinds that are not needed. Its context has a
	// Request of clusterstore/budget.
	Serves func(context.Context) (bool, error)
}

// Lister is a client of one resource.
type Lister[L runtime.Object] interface {
	List(context.Context, metav1.ListOptions) (L, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
}

// CallsOf returns the calls of a client.
func CallsOf[L runtime.Object](client Lister[L]) Calls {
	return Calls{
		List: func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
			return client.List(ctx, opts)
		},
		Watch: client.Watch,
	}
}

// JoinKey names an object within its kind: namespace/name, or the name alone. It is a copy.
func JoinKey(namespace, name string) string {
	if namespace == "" {
		return strings.Clone(name)
	}
	return namespace + "/" + name
}

// SplitKey undoes JoinKey: names have no slash.
func SplitKey(key string) (namespace, name string) {
	namespace, name, ok := strings.Cut(key, "/")
	if !ok {
		return "", key
	}
	return namespace, name
}

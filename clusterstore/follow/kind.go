package follow

import (
	"context"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// Kind says how one kind of object is followed, and where it goes: of an object
// that the API has as an O, a T is kept. Its functions are called by one
// goroutine, one at a time, unless something else is said.
type Kind[O runtime.Object, T any] struct {
	Name   string // of the resource, as in URLs
	Needed bool   // without it the Group is not synced
	Calls  Calls
	Fields string // a field selector; empty: all objects

	// Compact is a pure function. Not ok: the object is none of our concern,
	// which is as good as its absence.
	Compact func(O) (value T, ok bool)
	Into    Store[T]
	// Changed, if set, is called after an object has got into the Store or out of
	// it; not ok: out of it.
	Changed func(key string, value T, ok bool)
	// Taken, if set, is called after a whole list, or an event, has been taken
	// over.
	Taken func()
	// Report, if set, gets every failure, and nil each time that the objects
	// can be read. It may be called by several goroutines.
	Report func(error)
	// Lag, if set, observes how many seconds updates are old when they come.
	Lag prometheus.Observer
}

// Store keeps what is followed. Its methods are called by one goroutine, one at a
// time; keys are as [JoinKey] makes them.
type Store[T any] interface {
	Put(key string, value T) Effect
	Drop(key string) (existed bool)
	// Leave is called, before anything of a new list is put, for each object that
	// is there and not in the list: it is to be dropped once the others are put.
	Leave(key string)
	// Keys iterates over all objects of this kind that are there.
	Keys(yield func(key string) bool)
}

// Effect is what came of putting an object into a Store.
type Effect uint8

// What may come of it.
const (
	Same Effect = iota
	Replaced
	Added
)

// Calls are what is asked of the API about one resource.
type Calls struct {
	List  func(context.Context, metav1.ListOptions) (runtime.Object, error)
	Watch func(context.Context, metav1.ListOptions) (watch.Interface, error)
}

// Lister is a client of one resource.
type Lister[L runtime.Object] interface {
	List(context.Context, metav1.ListOptions) (L, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
}

// CallsOf are the calls of a client.
func CallsOf[L runtime.Object](client Lister[L]) Calls {
	return Calls{
		List: func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
			return client.List(ctx, opts)
		},
		Watch: client.Watch,
	}
}

// JoinKey names an object within its kind: namespace/name, or the name alone.
func JoinKey(namespace, name string) string {
	if namespace == "" {
		return name
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

package exports

import (
	"context"
	"strconv"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"isthmus/local/exports/plan"
)

// pointer is to an object O of the API.
type pointer[O any] interface {
	*O
	metav1.Object
	DeepCopy() *O
}

// kind has the objects of one kind, as an API server keeps them: it sets UIDs and versions, and writes an object only
// in the version that it has.
type kind[T pointer[O], O any] struct {
	asked  func(verb string, id plan.ID) error // is called before each request, which is refused with the error
	stored func(verb string, o T)              // is called with what a client stores, or deletes, which it may change
	status func(to, from T)                    // copies the status, which is then written by itself; nil: there is none

	mu       sync.Mutex
	all      map[plan.ID]T
	versions int
}

// list returns the objects there are.
func (k *kind[T, O]) list() (list []T) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, o := range k.all {
		list = append(list, o.DeepCopy())
	}
	return list
}

// find returns an object of namespace shop; nil: there is none.
func (k *kind[T, O]) find(name string) T {
	k.mu.Lock()
	defer k.mu.Unlock()
	if o := k.all[shop(name)]; o != nil {
		return o.DeepCopy()
	}
	return nil
}

// put stores an object as others do, whatever there is.
func (k *kind[T, O]) put(o T) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.store(o.DeepCopy())
}

// store stores an object in a version of its own. k.mu is held.
func (k *kind[T, O]) store(o T) T {
	k.versions++
	o.SetResourceVersion(strconv.Itoa(k.versions))
	k.all[plan.ID{Namespace: o.GetNamespace(), Name: o.GetName()}] = o
	return o.DeepCopy()
}

// in is a client of a namespace.
type in[T pointer[O], O any] struct {
	*kind[T, O]
	namespace string
}

// begin locks the kind, and returns what a request is about, or why it is refused.
func (k in[T, O]) begin(verb, name string) (have T, err error) {
	id := plan.ID{Namespace: k.namespace, Name: name}
	err = k.asked(verb, id)
	k.mu.Lock()
	have = k.all[id]
	switch {
	case err != nil:
	case have == nil && verb != "create":
		err = apierrors.NewNotFound(resource, name)
	case have != nil && verb == "create":
		err = apierrors.NewAlreadyExists(resource, name)
	}
	return have, err
}

var resource = schema.GroupResource{Resource: "objects"}

// Get and the other methods are as client-go's, and return an empty object with an error, as these do.
func (k in[T, O]) Get(_ context.Context, name string, _ metav1.GetOptions) (T, error) {
	have, err := k.begin("get", name)
	defer k.mu.Unlock()
	if err != nil {
		return new(O), err
	}
	return have.DeepCopy(), nil
}

func (k in[T, O]) Create(_ context.Context, o T, _ metav1.CreateOptions) (T, error) {
	_, err := k.begin("create", o.GetName())
	defer k.mu.Unlock()
	if err != nil {
		return new(O), err
	}
	o = o.DeepCopy()
	o.SetUID(types.UID("uid-" + strconv.Itoa(k.versions+1)))
	o.SetCreationTimestamp(metav1.Now())
	if k.status != nil {
		k.status(o, new(O))
	}
	k.stored("create", o)
	return k.store(o), nil
}

func (k in[T, O]) Update(_ context.Context, o T, _ metav1.UpdateOptions) (T, error) {
	return k.update("update", o)
}

func (k in[T, O]) UpdateStatus(_ context.Context, o T, _ metav1.UpdateOptions) (T, error) {
	return k.update("status", o)
}

func (k in[T, O]) update(verb string, o T) (T, error) {
	have, err := k.begin(verb, o.GetName())
	defer k.mu.Unlock()
	if err == nil && (have.GetUID() != o.GetUID() || have.GetResourceVersion() != o.GetResourceVersion()) {
		err = apierrors.NewConflict(resource, o.GetName(), nil)
	}
	if err != nil {
		return new(O), err
	}
	next, status := T(o.DeepCopy()), T(have)
	if verb == "status" {
		next, status = have.DeepCopy(), o.DeepCopy()
	}
	if k.status != nil {
		k.status(next, status)
	}
	k.stored(verb, next)
	return k.store(next), nil
}

func (k in[T, O]) Delete(_ context.Context, name string, options metav1.DeleteOptions) error {
	have, err := k.begin("delete", name)
	defer k.mu.Unlock()
	if err != nil {
		return err
	}
	if p := options.Preconditions; p != nil &&
		(p.UID != nil && *p.UID != have.GetUID() ||
			p.ResourceVersion != nil && *p.ResourceVersion != have.GetResourceVersion()) {
		return apierrors.NewConflict(resource, name, nil)
	}
	delete(k.all, plan.ID{Namespace: k.namespace, Name: name})
	k.stored("delete", have)
	return nil
}

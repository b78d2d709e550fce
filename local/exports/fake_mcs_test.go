package exports

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	mcs "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"isthmus/clusterstore/typed"
	"isthmus/local/exports/plan"
)

// kind are the objects of a custom resource, as an API server keeps them.
type kind[O interface {
	*T
	metav1.Object
	DeepCopy() O
}, T any] struct {
	w        *world
	name     string
	all      map[plan.ID]O
	gets     int
	unserved bool // in the version that is asked for
	// keep puts into what is written what the write may not change: of the status, or of the rest.
	keep   func(to, from O, status bool)
	prune  func(O)       // what an older kind does not have; may be nil
	refuse func(O) error // may be nil
}

// in is a client of a namespace.
type in[O interface {
	*T
	metav1.Object
	DeepCopy() O
}, T any] struct {
	*kind[O, T]
	namespace string
}

var mcsResource = schema.GroupResource{Group: mcs.GroupName, Resource: "things"}

func (w *world) mcs() map[string]typed.MCS {
	return map[string]typed.MCS{"v1beta1": {
		ServiceImports: func(namespace string) typed.WithStatus[*mcs.ServiceImport] {
			return in[*mcs.ServiceImport, mcs.ServiceImport]{w.imports, namespace}
		},
		ServiceExports: func(namespace string) typed.WithStatus[*mcs.ServiceExport] {
			return in[*mcs.ServiceExport, mcs.ServiceExport]{w.exports, namespace}
		},
	}}
}

func (k in[O, T]) Get(_ context.Context, name string, _ metav1.GetOptions) (O, error) {
	k.w.mu.Lock()
	defer k.w.mu.Unlock()
	k.gets++
	if o := k.all[plan.ID{Namespace: k.namespace, Name: name}]; o != nil && !k.unserved {
		return o.DeepCopy(), nil
	}
	return nil, apierrors.NewNotFound(mcsResource, name)
}

// put stores an object. Like client-go it returns an empty one with an error.
func (k in[O, T]) put(verb string, o O) (O, error) {
	k.w.mu.Lock()
	defer k.w.mu.Unlock()
	id, o := plan.ID{Namespace: k.namespace, Name: o.GetName()}, o.DeepCopy()
	have := k.all[id]
	switch {
	case k.w.version == "":
		k.w.t.Errorf("%s %s %v though there is no such kind", verb, k.name, id)
	case (have == nil) != (verb == "create"):
		return new(T), apierrors.NewConflict(mcsResource, id.Name, nil)
	case have != nil && (have.GetUID() != o.GetUID() || have.GetResourceVersion() != o.GetResourceVersion()):
		return new(T), apierrors.NewConflict(mcsResource, id.Name, nil)
	}
	k.w.uids++
	if have == nil {
		o.SetUID(types.UID(fmt.Sprint("uid-", k.w.uids)))
		k.keep(o, new(T), false)
		o.SetCreationTimestamp(metav1.Now())
	} else {
		k.keep(o, have, verb == "status")
	}
	if k.refuse != nil {
		if err := k.refuse(o); err != nil {
			return new(T), err
		}
	}
	if k.prune != nil {
		k.prune(o)
	}
	o.SetResourceVersion(fmt.Sprint(k.w.uids))
	k.all[id] = o
	k.w.writes = append(k.w.writes, verb+" "+k.name+" "+id.String())
	k.w.touch()
	return o.DeepCopy(), nil
}

func (k in[O, T]) Create(_ context.Context, o O, _ metav1.CreateOptions) (O, error) {
	return k.put("create", o)
}

func (k in[O, T]) Update(_ context.Context, o O, _ metav1.UpdateOptions) (O, error) {
	return k.put("update", o)
}

func (k in[O, T]) UpdateStatus(_ context.Context, o O, _ metav1.UpdateOptions) (O, error) {
	return k.put("status", o)
}

func (k in[O, T]) Delete(_ context.Context, name string, options metav1.DeleteOptions) error {
	k.w.mu.Lock()
	defer k.w.mu.Unlock()
	id := plan.ID{Namespace: k.namespace, Name: name}
	if o := k.all[id]; o == nil || o.GetUID() != *options.Preconditions.UID || o.GetResourceVersion() != *options.Preconditions.ResourceVersion {
		return apierrors.NewConflict(mcsResource, name, nil)
	}
	delete(k.all, id)
	k.w.writes = append(k.w.writes, "delete "+k.name+" "+id.String())
	k.w.touch()
	return nil
}

package follow

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/watch"
)

// Feed brings objects of the API as a list or a watch does. It is for tests of a kind without an API server: one
// goroutine at a time uses it, and no Group runs. An error is for an object of another kind, or a list that is over budget.
type Feed interface {
	Update(o any) error // added or changed
	Delete(o any) error
	Replace(list []any, version string) error // all there are
}

func (f *feed[O, T]) Update(o any) error { return f.bring(watch.Modified, o) }

func (f *feed[O, T]) Delete(o any) error { return f.bring(watch.Deleted, o) }

func (f *feed[O, T]) bring(kind watch.EventType, o any) error {
	one, err := f.typed(o)
	if err != nil {
		return err
	}
	if err := f.apply(event{kind: kind, object: f.compact(one, nil)}); err != nil {
		f.resource.failed(context.Background(), err)
	}
	return nil
}

func (f *feed[O, T]) Replace(list []any, _ string) error {
	f.beginList()
	for _, o := range list {
		one, err := f.typed(o)
		if err != nil {
			return err
		}
		if err := f.stageObject(f.compact(one, nil)); err != nil {
			return err
		}
	}
	f.commit(false)
	return nil
}

func (f *feed[O, T]) typed(o any) (O, error) {
	one, ok := o.(O)
	if !ok {
		return one, fmt.Errorf("%T is not of the kind", o)
	}
	return one, nil
}

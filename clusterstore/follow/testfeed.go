package follow

import "k8s.io/apimachinery/pkg/watch"

// Feed brings objects of the API as a list or a watch does. It is for tests of a kind without an API server: one
// goroutine at a time uses it, and no Group runs. It panics on an object of another kind, and on what the budget refuses.
type Feed interface {
	Update(o any) // added or changed
	Delete(o any)
	Replace(list ...any) // all there are
}

func (f *feed[O, T]) Update(o any) { f.bring(watch.Modified, o) }

func (f *feed[O, T]) Delete(o any) { f.bring(watch.Deleted, o) }

func (f *feed[O, T]) bring(kind watch.EventType, o any) {
	if err := f.apply(event{kind: kind, object: f.compact(o.(O), nil)}); err != nil {
		panic(err)
	}
}

func (f *feed[O, T]) Replace(list ...any) {
	f.beginList()
	for _, o := range list {
		if err := f.stageObject(f.compact(o.(O), nil)); err != nil {
			panic(err)
		}
	}
	f.commit()
}

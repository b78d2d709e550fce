package follow

import (
	"context"
	"errors"
	"hash/maphash"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"isthmus/clusterstore/decode"
)

// print stands for the key of an object, which takes several times as much memory. Two objects do not have the
// same one, since an API server does not know how prints are made.
type print uint64

// prints makes prints.
type prints struct{ seed maphash.Seed }

func newPrints() prints { return prints{maphash.MakeSeed()} }

func (p prints) of(key string) print { return print(maphash.String(p.seed, key)) }

// stage has the objects of a list until its end. Of those that are in the Store just as they are only
// prints are kept.
type stage[T any] struct {
	prints  prints
	begun   bool                     // something of the list has come
	objects map[string]*compacted[T] // by key
	same    map[print]struct{}
	refused map[string]string // why, by key. An earlier version may be in list, in same, or in the Store
}

func newStage[T any](p prints) *stage[T] {
	return &stage[T]{prints: p, objects: make(map[string]*compacted[T]), same: make(map[print]struct{}), refused: make(map[string]string)}
}

// has reports whether there is an object with that key, or one was refused.
func (s *stage[T]) has(key string) bool {
	_, listed := s.objects[key]
	_, refused := s.refused[key]
	_, same := s.same[s.prints.of(key)]
	return listed || refused || same
}

// beginList forgets what has been staged.
func (f *feed[O, T]) beginList() {
	f.abandonList()
	f.stage = newStage[T](f.prints)
}

// abandonList forgets what has been staged. Of a list that has begun the next one is paced.
func (f *feed[O, T]) abandonList() {
	if f.stage != nil {
		f.resource.relists = f.resource.relists || f.stage.begun
	}
	f.stage = nil
	f.kept.unstageAll()
}

// stagePage reads one page.
func (f *feed[O, T]) stagePage(ctx context.Context, opts metav1.ListOptions) (metav1.ListMeta, int, error) {
	n, least := 0, int64(0)
	list, err := f.kind.Source.List(ctx, opts, func(o O, refused *decode.Refused) error {
		c := f.compact(o, refused)
		if n++; n == 1 || c.size < least {
			least = c.size
		}
		if err := f.paceList(ctx); err != nil {
			return err
		}
		return f.stageObject(c)
	})
	if left := list.RemainingItemCount; err == nil && opts.Continue == "" && left != nil {
		err = f.kept.announced(least, *left)
	}
	return list, n, err
}

// skipPage reads one page and ignores its objects.
func (f *feed[O, T]) skipPage(ctx context.Context, opts metav1.ListOptions) (metav1.ListMeta, int, error) {
	list, err := f.kind.Source.List(ctx, opts, func(O, *decode.Refused) error { return nil })
	return list, 0, err
}

// paceList waits until one more object of a list may be handled. Only those of the first list are handled as they come:
// what a server answers may have it listed again and again.
func (f *feed[O, T]) paceList(ctx context.Context) error {
	f.stage.begun = true
	if !f.resource.relists {
		return nil
	}
	return f.resource.pace(ctx)
}

var errNoName = errors.New("the API server sent an object without a name: check that the server is an API server")

// stageObject stages an object in place of what there is with its key. One that is refused leaves that as
// it is. Each time counts for the budget, until the end of the list: so a list that has the same objects again and again
// ends.
func (f *feed[O, T]) stageObject(c *compacted[T]) error {
	if c.key == "" {
		return errNoName
	}
	s := f.stage
	delete(s.refused, c.key)
	if c.refused != "" {
		s.refused[c.key] = c.refused
		return f.kept.stage(c.size, nil)
	}
	f.unstage(c.key)
	if !c.ok {
		return f.kept.stageNone()
	}
	f.resource.lag.seen(c.updated)
	if f.same(f.stored(c.key), c) {
		if err := f.kept.stageSame(c.key, f.handles(c.value)); err != nil {
			return err
		}
		s.same[s.prints.of(c.key)] = struct{}{}
		return nil
	}
	if err := f.kept.stage(c.size, f.handles(c.value)); err != nil {
		return err
	}
	s.objects[c.key] = c
	return nil
}

// unstage forgets an object.
func (f *feed[O, T]) unstage(key string) {
	s := f.stage
	if c, ok := s.objects[key]; ok {
		f.kept.unstage(f.handles(c.value))
		delete(s.objects, key)
	}
	if _, same := s.same[s.prints.of(key)]; same {
		f.kept.unstage(f.handlesOf(f.stored(key)))
		delete(s.same, s.prints.of(key))
	}
}

package follow

import (
	"context"
	"errors"
	"io"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"isthmus/clusterstore/budget"
	"isthmus/clusterstore/decode"
	"isthmus/internal/sleep"
)

// item is a Secret of a list, or one that is refused.
type item struct {
	object  *corev1.Secret
	refused *decode.Refused
}

func labelled(name, x string) item {
	s := secret(name)
	s.Labels = map[string]string{"x": x}
	return item{object: s}
}

func tooLarge(name string) item {
	return item{refused: &decode.Refused{Namespace: "ns", Name: name, ResourceVersion: "2", Err: errors.New("it is larger than 4 MiB")}}
}

// scripted is a Source whose lists and events a test makes.
type scripted struct {
	mu      sync.Mutex
	err     error // of all requests
	fields  string
	items   []item
	version string
	pause   time.Duration                  // before the items of a list
	stream  []decode.Event[*corev1.Secret] // that a streamed list begins with; nil: the items
	lists   int
	watches []*scriptedEvents
}

func (s *scripted) List(ctx context.Context, o metav1.ListOptions, each func(*corev1.Secret, *decode.Refused) error) (metav1.ListMeta, error) {
	s.mu.Lock()
	items, meta, pause, err := s.items, metav1.ListMeta{ResourceVersion: s.version}, s.pause, s.err
	s.lists++
	s.fields = o.FieldSelector
	s.mu.Unlock()
	if err != nil {
		return meta, err
	}
	if !sleep.For(ctx, pause) {
		return meta, ctx.Err()
	}
	for _, i := range items {
		if err := each(i.object, i.refused); err != nil {
			return meta, err
		}
	}
	return meta, nil
}

func (s *scripted) Watch(ctx context.Context, o metav1.ListOptions) (decode.Events[*corev1.Secret], error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return nil, s.err
	}
	e := newEvents(ctx)
	s.watches = append(s.watches, e)
	if streamsList(o) {
		first := s.stream
		for _, i := range s.items {
			if s.stream == nil {
				first = append(first, decode.Event[*corev1.Secret]{Type: watch.Added, Object: i.object, Refused: i.refused})
			}
		}
		go func() {
			for _, one := range first {
				e.send(one)
			}
			e.bookmark(s.version, true)
		}()
	}
	return e, nil
}

// become changes what is listed.
func (s *scripted) become(version string, items ...item) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version, s.items = version, items
}

// newest returns the newest watch, once nothing is under way.
func (s *scripted) newest() *scriptedEvents {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.watches[len(s.watches)-1]
}

// scriptedEvents are those of one watch, and may be sent to after its end.
type scriptedEvents struct {
	ctx  context.Context
	next chan decode.Event[*corev1.Secret]
	done chan struct{}
	once sync.Once
}

func newEvents(ctx context.Context) *scriptedEvents {
	return &scriptedEvents{ctx: ctx, next: make(chan decode.Event[*corev1.Secret]), done: make(chan struct{})}
}

func (e *scriptedEvents) Next(each func(decode.Event[*corev1.Secret]) error) error {
	select {
	case event := <-e.next:
		return each(event)
	case <-e.done:
		return io.ErrClosedPipe
	case <-e.ctx.Done():
		return e.ctx.Err()
	}
}

func (e *scriptedEvents) Close() error {
	e.once.Do(func() { close(e.done) })
	return nil
}

func (e *scriptedEvents) send(event decode.Event[*corev1.Secret]) (sent bool) {
	select {
	case e.next <- event:
		return true
	case <-e.done:
		return false
	}
}

// event sends an event of an item with that version.
func (e *scriptedEvents) event(what watch.EventType, version string, i item) (sent bool) {
	if i.object != nil {
		i.object = i.object.DeepCopy()
		i.object.ResourceVersion = version
	}
	return e.send(decode.Event[*corev1.Secret]{Type: what, Object: i.object, Refused: i.refused})
}

func (e *scriptedEvents) bookmark(version string, initial bool) {
	o := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{ResourceVersion: version}}
	if initial {
		o.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
	}
	e.send(decode.Event[*corev1.Secret]{Type: watch.Bookmark, Object: o})
}

// run follows the Source in a bubble for as long as f takes.
func (s *scripted) run(t *testing.T, o Options, f func(t *testing.T, g *Group, known texts)) {
	synctest.Test(t, func(t *testing.T) {
		known := texts{}
		g := NewGroup(o, New(secrets(s, known)))
		defer start(t, g, nil)()
		synctest.Wait()
		f(t, g, known)
	})
}

// texts is a Store of labels.
type texts map[string]string

// textsMu is for tests that read a Store while it is filled.
var textsMu sync.Mutex

func (n texts) Put(key, value string) {
	textsMu.Lock()
	defer textsMu.Unlock()
	n[key] = value
}

func (n texts) Get(key string) (string, bool) { text, had := n[key]; return text, had }

func (n texts) Drop(key string) {
	textsMu.Lock()
	defer textsMu.Unlock()
	delete(n, key)
}

func (n texts) PrepareDrop(string) {}

func (n texts) Keys(yield func(string) bool) { maps.Keys(n)(yield) }

// has reports whether a Secret is kept, once nothing is under way.
func (n texts) has(name string) bool {
	synctest.Wait()
	textsMu.Lock()
	defer textsMu.Unlock()
	_, has := n["ns/"+name]
	return has
}

// secrets is a needed Kind of which the label x is kept, unless that is none.
func secrets(from decode.Source[*corev1.Secret], known texts) Kind[*corev1.Secret, string] {
	return Kind[*corev1.Secret, string]{
		Name: "secrets", Needed: true, Source: from, Into: known,
		Compact: func(o *corev1.Secret) (string, bool) { return o.Labels["x"], o.Labels["x"] != "none" }, Same: sameAs[string],
	}
}

// start runs a Group, and returns what ends it.
func start(t *testing.T, g *Group, synced func()) (end func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); g.Run(ctx, synced) }()
	return func() { cancel(); <-done }
}

func newBudget(limit int64) *budget.Budget {
	return budget.NewPool(budget.Limits{Cluster: limit, All: 4 * limit}).Add()
}

func secretsFeed(r *Resource) *feed[*corev1.Secret, string] {
	return r.feed.(*feed[*corev1.Secret, string])
}

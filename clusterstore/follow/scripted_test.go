package follow

import (
	"cmp"
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"isthmus/clusterstore/decode"
	"isthmus/internal/pace"
)

// item is a Secret in a list, or a refused object.
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
	return item{
		refused: &decode.Refused{
			Namespace:       "ns",
			Name:            name,
			ResourceVersion: "2",
			Err:             errors.New("it is larger than 4 MiB"),
		},
	}
}

// scripted is a Source whose lists and events the test controls. A nil func does not change the
// default response.
type scripted struct {
	onList   func(metav1.ListOptions) (metav1.ListMeta, []item, error)
	onWatch  func(metav1.ListOptions) error                       // returns the error of a watch
	onEvents func(o metav1.ListOptions, w *scriptedEvents, n int) // sends the first events of watch n, from 0

	mu       sync.Mutex
	err      error // of all requests
	fields   string
	items    []item
	version  string
	pause    time.Duration // pause before the items of a list
	requests int
	times    []time.Time // times of the requests since the last call of fail
	lists    int
	watches  []*scriptedEvents
}

// tooMany is the maximum number of requests. A loop without pauses takes no time in a bubble and
// would never end.
const tooMany = 1000

// request returns the error for a request.
func (s *scripted) request(ctx context.Context) error {
	s.mu.Lock()
	s.requests++
	s.times = append(s.times, time.Now())
	enough, err := s.requests > tooMany, s.err
	s.mu.Unlock()
	if enough {
		<-ctx.Done()
	}
	return cmp.Or(ctx.Err(), err)
}

// fail makes all further requests fail with err unless err is nil. It returns the times of the
// requests since its last call.
func (s *scripted) fail(err error) []time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	times := s.times
	s.err, s.times = err, nil
	return times
}

// all returns the items as a list.
func (s *scripted) all() (metav1.ListMeta, []item, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return metav1.ListMeta{ResourceVersion: s.version}, s.items, nil
}

func (s *scripted) List(
	ctx context.Context, o metav1.ListOptions, each func(*corev1.Secret, *decode.Refused) error,
) (meta metav1.ListMeta, err error) {
	if err := s.request(ctx); err != nil {
		return meta, err
	}
	s.mu.Lock()
	list, pause := s.onList, s.pause
	s.lists++
	s.fields = o.FieldSelector
	s.mu.Unlock()
	if list == nil {
		list = func(metav1.ListOptions) (metav1.ListMeta, []item, error) { return s.all() }
	}
	meta, items, err := list(o)
	if err != nil {
		return meta, err
	}
	if !pace.Sleep(ctx, pause) {
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
	if err := s.request(ctx); err != nil {
		return nil, err
	}
	if s.onWatch != nil {
		if err := s.onWatch(o); err != nil {
			return nil, err
		}
	}
	e := newEvents(ctx, o)
	s.mu.Lock()
	defer s.mu.Unlock()
	n, events := len(s.watches), s.onEvents
	s.watches = append(s.watches, e)
	if events != nil {
		go events(o, e, n)
	}
	return e, nil
}

// become changes the listed items.
func (s *scripted) become(version string, items ...item) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version, s.items = version, items
}

func (s *scripted) newestVersion() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version
}

// hang makes lists begin but never end.
func (s *scripted) hang() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pause = time.Hour
}

// opened returns the accepted watches once all goroutines are idle.
func (s *scripted) opened() []*scriptedEvents {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.watches)
}

// newest returns the newest watch once all goroutines are idle.
func (s *scripted) newest() *scriptedEvents {
	all := s.opened()
	return all[len(all)-1]
}

// scriptedEvents has the events of one watch. Events may also be sent after its end.
type scriptedEvents struct {
	metav1.ListOptions
	ctx  context.Context
	next chan scriptedEvent
	done chan struct{}
	once sync.Once
}

type scriptedEvent struct {
	decode.Event[*corev1.Secret]
	err error // an error in place of an event
}

func newEvents(ctx context.Context, o metav1.ListOptions) *scriptedEvents {
	return &scriptedEvents{ListOptions: o, ctx: ctx, next: make(chan scriptedEvent), done: make(chan struct{})}
}

func (e *scriptedEvents) Next(each func(decode.Event[*corev1.Secret]) error) error {
	select {
	case event := <-e.next:
		if event.err != nil {
			return event.err
		}
		return each(event.Event)
	case <-e.done:
		return io.EOF
	case <-e.ctx.Done():
		return e.ctx.Err()
	}
}

func (e *scriptedEvents) Close() error {
	e.once.Do(func() { close(e.done) })
	return nil
}

// stop ends the watch from the server's side.
func (e *scriptedEvents) stop() { _ = e.Close() }

func (e *scriptedEvents) isClosed() bool {
	select {
	case <-e.done:
		return true
	default:
		return false
	}
}

func (e *scriptedEvents) send(event decode.Event[*corev1.Secret]) (sent bool) {
	return e.sendOr(scriptedEvent{Event: event})
}

func (e *scriptedEvents) fail(err error) { e.sendOr(scriptedEvent{err: err}) }

func (e *scriptedEvents) sendOr(event scriptedEvent) (sent bool) {
	select {
	case e.next <- event:
		return true
	case <-e.done:
		return false
	}
}

// event sends an event of an item with the given version.
func (e *scriptedEvents) event(what watch.EventType, version string, i item) (sent bool) {
	if i.object != nil {
		i.object = i.object.DeepCopy()
		i.object.ResourceVersion = version
	}
	return e.send(decode.Event[*corev1.Secret]{Type: what, Object: i.object, Refused: i.refused})
}

func (e *scriptedEvents) bookmark(version string) {
	o := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{ResourceVersion: version}}
	e.send(decode.Event[*corev1.Secret]{Type: watch.Bookmark, Object: o})
}

// run caches the objects of the Source in a bubble while f runs.
func (s *scripted) run(t *testing.T, o Options, f func(t *testing.T, g *Group, known texts)) {
	synctest.Test(t, func(t *testing.T) {
		known := texts{}
		g := NewGroup(o, New(secrets(s, known)))
		defer start(t, g, nil)()
		synctest.Wait()
		f(t, g, known)
	})
}

// runNoting is like run, but passes f a function that returns the troubles found so far. The Source
// lists a Secret unless the test sets other items.
func (s *scripted) runNoting(t *testing.T, o Options, f func(g *Group, known texts, troubles func() []string)) {
	var seen notes
	o.Trouble = func(resource, text string) { seen.add(resource + ": " + text) }
	if s.version == "" {
		s.version, s.items = "1", []item{labelled("a", "")}
	}
	s.run(t, o, func(_ *testing.T, g *Group, known texts) { f(g, known, seen.take) })
}

// notes collects texts until the test takes them.
type notes struct {
	mu   sync.Mutex
	seen []string
}

func (n *notes) add(text string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.seen = append(n.seen, text)
}

// take returns the texts once all goroutines are idle, and drops them.
func (n *notes) take() (list []string) {
	synctest.Wait()
	n.mu.Lock()
	defer n.mu.Unlock()
	list, n.seen = n.seen, nil
	return list
}

// texts is a Store that caches a label.
type texts map[string]string

// textsMu guards all texts, for tests that read a Store while it changes.
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

// has reports whether a Secret is cached once all goroutines are idle.
func (n texts) has(name string) bool {
	synctest.Wait()
	textsMu.Lock()
	defer textsMu.Unlock()
	_, has := n["ns/"+name]
	return has
}

// secrets returns a needed Kind that caches the label x. It does not cache Secrets whose label is
// none.
func secrets(from decode.Source[*corev1.Secret], known texts) Kind[*corev1.Secret, string] {
	return Kind[*corev1.Secret, string]{
		Name: "secrets", Needed: true, Source: from, Into: known,
		Compact: func(o *corev1.Secret) (string, bool) { return o.Labels["x"], o.Labels["x"] != "none" },
		Same:    sameAs[string],
		Size:    textSize,
	}
}

// textSize returns the size of a value of secrets.
func textSize(text, _ string) int64 { return 240 + int64(len(text)) }

// start runs a Group until end is called.
func start(t *testing.T, g *Group, synced func()) (end func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); g.Run(ctx, synced) }()
	return func() { cancel(); <-done }
}

func secretsFeed(r *Resource) *feed[*corev1.Secret, string] {
	return r.feed.(*feed[*corev1.Secret, string])
}

func sameAs[T comparable](a, b T) bool { return a == b }

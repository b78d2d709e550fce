package follow

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"isthmus/clusterstore/budget"
)

// greedy is an API whose lists never end while it is bad: in pages, or streamed.
type greedy struct {
	*api
	bad      bool   // under mu, as the rest
	attempts int    // lists while it is bad
	streamed int    // of these, that were to be streamed
	events   events // of the newest watch
}

// events is what a watch decodes, and may be sent to after its end.
type events struct {
	next chan watch.Event
	done chan struct{}
}

func (e events) Decode() (watch.EventType, runtime.Object, error) {
	select {
	case event := <-e.next:
		return event.Type, event.Object, nil
	case <-e.done:
		return "", nil, io.EOF
	}
}

func (e events) Close() { close(e.done) }

func (e events) send(what watch.EventType, o runtime.Object) (sent bool) {
	select {
	case e.next <- watch.Event{Type: what, Object: o}:
		return true
	case <-e.done:
		return false
	}
}

// large returns an object with a long label.
func large(name string) *corev1.Secret {
	s := secret(name)
	s.Labels = map[string]string{"x": strings.Repeat("x", 1<<10)}
	return s
}

func (g *greedy) calls() Calls {
	calls := g.api.calls()
	list := calls.List
	calls.List = func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		g.mu.Lock()
		bad := g.bad
		if o.Continue == "" && bad {
			g.attempts++
		}
		g.mu.Unlock()
		if !bad {
			return list(ctx, o)
		}
		page := &corev1.SecretList{ListMeta: metav1.ListMeta{ResourceVersion: "1", Continue: o.Continue + "x"}}
		for i := range richPage {
			page.Items = append(page.Items, *large(fmt.Sprint("n", o.Continue, i)))
		}
		return page, ctx.Err()
	}
	calls.Watch = func(_ context.Context, o metav1.ListOptions) (watch.Interface, error) {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.events = events{make(chan watch.Event), make(chan struct{})}
		if o.SendInitialEvents != nil {
			go g.stream(g.events, g.bad)
			if g.bad {
				g.attempts++
				g.streamed++
			}
		}
		return watch.NewStreamWatcher(g.events, nil), nil
	}
	return calls
}

// stream sends all objects there are, or objects without end.
func (g *greedy) stream(to events, bad bool) {
	for i := 0; bad; i++ {
		if !to.send(watch.Added, large(fmt.Sprint("n", i))) {
			return
		}
	}
	for _, name := range g.names {
		to.send(watch.Added, secret(name))
	}
	to.send(watch.Bookmark, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		ResourceVersion: "9", Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"},
	}})
}

// texts is a Store of what large objects have.
type texts map[string]string

func (n texts) Put(key, value string) Effect {
	_, had := n[key]
	n[key] = value
	if had {
		return Replaced
	}
	return Added
}
func (n texts) Drop(key string) bool         { _, had := n[key]; delete(n, key); return had }
func (n texts) PrepareDrop(string)           {}
func (n texts) Keys(yield func(string) bool) { maps.Keys(n)(yield) }

func objects(g *Group) int { return g.Health().Resources[0].Objects }

// TestOverBudget: a list without end, in pages or streamed, is cut off by the budget, and
// so are events; what was kept stays. It is tried again after a pause, not in a loop, and
// once the API is well it is followed as ever.
func TestOverBudget(t *testing.T) {
	for _, streams := range []bool{false, true} {
		for _, needed := range []bool{false, true} {
			t.Run(fmt.Sprintf("streams=%v needed=%v", streams, needed), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { testOverBudget(t, streams, needed) })
			})
		}
	}
}

func testOverBudget(t *testing.T, streams, needed bool) {
	g := &greedy{api: &api{names: []string{"a", "b"}}}
	known := texts{}
	pool := budget.NewPool(budget.Limits{Cluster: 64 << 10, All: 128 << 10})
	b := pool.Add()
	r := New(Kind[*corev1.Secret, string]{
		Name: "secrets", Needed: needed, Calls: g.calls(), Fields: "type=x", Into: known,
		Compact: func(o *corev1.Secret) (string, bool) { return o.Labels["x"], true },
	})
	group := NewGroup(Options{NoWatchList: !streams, Budget: b}, r)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); group.Run(ctx, nil) }()
	defer func() { cancel(); <-done }()
	time.Sleep(time.Minute)
	synctest.Wait()
	few := b.Usage().Used
	if h := group.Health(); h.Err != nil || objects(group) != 2 || few < 2*objectSize || few > 8*objectSize {
		t.Fatalf("at first: %+v, %d objects, %d bytes", h, objects(group), few)
	}
	expectOver := func(what string) {
		t.Helper()
		h := group.Health()
		if h.Err == nil || h.Lost.IsZero() || !strings.Contains(h.Err.Error(), "over budget: what is kept of secrets would take") {
			t.Fatalf("%s: %+v", what, h)
		}
		if used := b.Usage().Used; used > 64<<10 {
			t.Errorf("%s: %d bytes are charged", what, used)
		}
	}

	// Events that add objects.
	g.mu.Lock()
	g.bad = true
	w := g.events
	g.mu.Unlock()
	for i := 0; w.send(watch.Added, large(fmt.Sprint("e", i))); i++ {
	}
	synctest.Wait()
	expectOver("events")
	before := objects(group)
	if before < 5 || before > 30 {
		t.Errorf("%d objects are kept", before)
	}

	// Lists, as long as it goes on.
	time.Sleep(10 * time.Minute)
	synctest.Wait()
	expectOver("lists")
	g.mu.Lock()
	if g.attempts < 20 || g.attempts > 31 {
		t.Errorf("%d attempts in ten minutes", g.attempts)
	}
	if g.streamed > 0 {
		t.Errorf("%d lists are streamed, which do not show how many objects are to come", g.streamed)
	}
	g.bad = false
	g.mu.Unlock()
	if objects(group) != before {
		t.Errorf("%d objects of %d have stayed", objects(group), before)
	}
	time.Sleep(overPause + 10*time.Second)
	synctest.Wait()
	if h := group.Health(); h.Err != nil || !h.Lost.IsZero() || objects(group) != 2 || b.Usage().Used != few {
		t.Errorf("afterwards: %+v, %d objects, %+v", h, objects(group), b.Usage())
	}
}

// TestRefusedEvent: an event that clusterstore/kube refuses makes the resource unreadable at
// once; it is listed anew after a pause, and healthy only once the watch has lasted.
func TestRefusedEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &api{names: []string{"a"}}
		calls := a.calls()
		watches := calls.Watch
		var request atomic.Pointer[budget.Request]
		calls.Watch = func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			request.Store(budget.From(ctx))
			return watches(ctx, o)
		}
		known := names{}
		group := NewGroup(Options{NoWatchList: true}, New(Kind[*corev1.Secret, bool]{
			Name: "secrets", Needed: true, Calls: calls, Fields: "type=x", Into: known,
			Compact: func(*corev1.Secret) (bool, bool) { return true, true },
		}))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); group.Run(ctx, nil) }()
		defer func() { cancel(); <-done }()
		time.Sleep(time.Minute)
		for range 3 {
			request.Load().Fail(budget.Errorf("an event of secrets is larger than 4 MiB"))
			if h := group.Health(); h.Err == nil || !strings.Contains(h.Err.Error(), "secrets: over budget: an event") || h.Lost.IsZero() {
				t.Fatalf("%+v", h)
			}
			a.mu.Lock()
			a.names = append(a.names, fmt.Sprint("later", len(a.names)))
			a.watch.Error(&metav1.Status{Status: metav1.StatusFailure, Code: 500, Reason: metav1.StatusReasonInternalError})
			a.mu.Unlock()
			time.Sleep(overPause - 2*time.Second)
			synctest.Wait()
			if h := group.Health(); objects(group) == len(a.names) || h.Err == nil {
				t.Fatalf("it is tried again at once: %+v", h)
			}
			for range 60 { // until it has been listed, after the pause and a backoff
				if objects(group) == len(a.names) {
					break
				}
				time.Sleep(100 * time.Millisecond)
				synctest.Wait()
			}
			if h := group.Health(); objects(group) != len(a.names) || h.Err == nil || !errors.Is(h.Err, budget.ErrOver) {
				t.Fatalf("%d objects, %+v", objects(group), h)
			}
		}
		time.Sleep(overProof + 10*time.Second)
		if h := group.Health(); h.Err != nil || !h.Lost.IsZero() {
			t.Errorf("afterwards: %+v", h)
		}
	})
}

// refused returns a resource of the server. Of each watch it refuses the event after the
// objects.
func (s *server) refused() *Resource {
	s.stream = func(o metav1.ListOptions, w *watch.FakeWatcher, _ int) {
		sendInitial(o, w)
		w.Error(&apierrors.NewInternalError(errors.New("unable to decode an event")).ErrStatus)
	}
	calls := s.calls()
	watches := calls.Watch
	calls.Watch = func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
		budget.From(ctx).Fail(budget.Errorf("an event of secrets is larger than 4 MiB"))
		return watches(ctx, o)
	}
	return New(Kind[*corev1.Secret, bool]{
		Name: "secrets", Calls: calls, Into: names{}, Compact: func(*corev1.Secret) (bool, bool) { return true, true },
	})
}

// TestRefusedIsNoTrouble: that the gateway ends watches is not shown as something that the
// API server does.
func TestRefusedIsNoTrouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{noWatchList: true}
		group := NewGroup(Options{NoWatchList: true}, s.refused())
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); group.Run(ctx, nil) }()
		defer func() { cancel(); <-done }()
		time.Sleep(5 * time.Minute)
		if h := group.Health().Resources[0]; h.Trouble != "" || h.Err == "" || len(s.opened()) < 2*troubleCount {
			t.Errorf("%d watches: %+v", len(s.opened()), h)
		}
	})
}

// TestRefusedAfterList: an event that is refused while the objects streamed before it are
// put into the Store ends that watch too: nothing is left of it when the Group is stopped.
func TestRefusedAfterList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		group := NewGroup(Options{}, s.refused())
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		done := make(chan struct{})
		go func() { defer close(done); group.Run(ctx, nil) }()
		select {
		case <-done:
		case <-time.After(10 * time.Minute):
			t.Fatal("it can't be stopped")
		}
		if open := s.opened(); len(open) != 1 || !open[0].IsStopped() {
			t.Errorf("%d watches", len(open))
		}
	})
}

// TestOverMeanwhile: a resource that is over budget at the same moment as its watch has
// begun, or has proven itself, is not healthy.
func TestOverMeanwhile(t *testing.T) {
	for i := range 30_000 {
		r := New(Kind[*corev1.Secret, bool]{Name: "secrets", Needed: true, Into: names{}})
		g := NewGroup(Options{}, r)
		before := budget.Errorf("before")
		if i%2 == 1 {
			r.exceed(before)
		}
		then := r.over.probation.Load()
		start := make(chan struct{})
		var all sync.WaitGroup
		all.Go(func() { <-start; r.exceed(budget.Errorf("now")) })
		all.Go(func() { <-start; r.proven(then) })
		close(start)
		all.Wait()
		if err := g.Health().Err; err == nil || !strings.HasSuffix(err.Error(), "now") {
			t.Fatalf("attempt %d: %v", i, err)
		}
	}
}

// TestOptionalLost: an optional resource that has been forbidden for long is lost from when
// it is over budget; a needed one since it failed.
func TestOptionalLost(t *testing.T) {
	for _, needed := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r := New(Kind[*corev1.Secret, bool]{Name: "secrets", Needed: needed, Into: names{}})
			g := NewGroup(Options{}, r)
			g.setSynced()
			failed := time.Now()
			g.setFailed(&r.state, errors.New("forbidden"))
			time.Sleep(time.Hour)
			want := failed
			if !needed {
				want = time.Now()
			}
			r.exceed(budget.Errorf("too much"))
			time.Sleep(time.Minute)
			r.exceed(budget.Errorf("too much"))
			if got := g.Health().Lost; !got.Equal(want) {
				t.Errorf("needed %v: lost at %v, want %v", needed, got, want)
			}
			g.setFailed(&r.state, errors.New("forbidden"))
			if got := g.Health().Lost; got.IsZero() == needed {
				t.Errorf("needed %v: lost at %v", needed, got)
			}
		})
	}
}

// TestAside: a resource that nothing that is served depends on makes no Group unhealthy.
func TestAside(t *testing.T) {
	for _, aside := range []bool{false, true} {
		r := New(Kind[*corev1.Secret, bool]{Name: "secrets", Aside: aside, Into: names{}})
		g := NewGroup(Options{}, r)
		g.setSynced()
		r.exceed(budget.Errorf("too much"))
		h := g.Health()
		if healthy := h.Err == nil && h.Lost.IsZero(); healthy != aside {
			t.Errorf("aside %v: %v, lost %v", aside, h.Err, h.Lost)
		}
		if h.Resources[0].Err == "" {
			t.Errorf("aside %v: the error is not shown", aside)
		}
	}
}

// TestSizeOf: what objects refer to counts, and cycles end.
func TestSizeOf(t *testing.T) {
	type node struct {
		text string
		next *node
		list []string
		any  any
		m    map[string]int64
		at   time.Time
	}
	empty := sizeOf("", node{})
	more := func(n node) int64 { return (sizeOf("", n) - empty) / indexFactor }
	if got := sizeOf("ns/a", node{}) - empty; got != 4 {
		t.Errorf("a key of 4 bytes takes %d", got)
	}
	for what, tt := range map[string]struct {
		node node
		want int64
	}{
		"text":  {node{text: "four"}, 4},
		"list":  {node{list: []string{"a", "bc"}}, 2*16 + 3},
		"any":   {node{any: "abc"}, 16 + 3},
		"map":   {node{m: map[string]int64{"ab": 1}}, 2*24 + 2},
		"bytes": {node{any: []byte("abc")}, 24 + 3},
		"time":  {node{at: time.Now()}, 0},
	} {
		if got := more(tt.node); got != tt.want {
			t.Errorf("%s: %d bytes, want %d", what, got, tt.want)
		}
	}
	cycle := node{text: "x"}
	cycle.next = &cycle
	if more(cycle) <= 0 {
		t.Error("a cycle takes nothing")
	}
	if sizeOf("", nil) != objectSize {
		t.Error("nothing takes more than an object")
	}
}

package follow

import (
	"context"
	"fmt"
	"io"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// greedy is an API whose lists never end while it is bad: in pages, or streamed.
type greedy struct {
	*api
	bad      bool       // under mu, as the rest
	attempts int        // lists while it is bad
	streamed int        // of these, that were to be streamed
	events   fakeEvents // of the newest watch
}

// fakeEvents is what a watch decodes, and may be sent to after its end.
type fakeEvents struct {
	next chan watch.Event
	done chan struct{}
}

func (e fakeEvents) Decode() (watch.EventType, runtime.Object, error) {
	select {
	case event := <-e.next:
		return event.Type, event.Object, nil
	case <-e.done:
		return "", nil, io.EOF
	}
}

func (e fakeEvents) Close() { close(e.done) }

func (e fakeEvents) send(what watch.EventType, o runtime.Object) (sent bool) {
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

func (g *greedy) calls() calls {
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
		g.events = fakeEvents{make(chan watch.Event), make(chan struct{})}
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
func (g *greedy) stream(to fakeEvents, bad bool) {
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
func (n texts) Get(key string) (string, bool) { text, had := n[key]; return text, had }
func (n texts) Drop(key string) bool          { _, had := n[key]; delete(n, key); return had }
func (n texts) PrepareDrop(string)            {}
func (n texts) Keys(yield func(string) bool)  { maps.Keys(n)(yield) }

func objects(g *Group) int { return g.Health().Resources[0].Objects }

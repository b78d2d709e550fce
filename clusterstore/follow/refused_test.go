package follow

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"

	"isthmus/clusterstore/decode"
)

// TestRefused: of an object that is refused, in a list or an event, what was read before stays, and the
// health has it; until it can be read, or is deleted. That is no failure.
func TestRefused(t *testing.T) {
	s := &scripted{version: "5", items: []item{labelled("a", "1"), tooLarge("b")}}
	s.run(t, Options{NoWatchList: true, Budget: NewMemoryCap(1 << 20)}, func(t *testing.T, g *Group, known texts) {
		expect := func(what string, refused int, want texts) {
			t.Helper()
			synctest.Wait()
			all := g.Health()
			h := all.Resources[0]
			if h.Refused != refused || h.Err != "" || !maps.Equal(known, want) || h.Objects != len(want) {
				t.Errorf("%s: %+v, %v", what, h, known)
			}
			for _, o := range all.Refused {
				if o.Why != "it is larger than 4 MiB" {
					t.Errorf("%s: %+v", what, o)
				}
			}
		}
		expect("in a list", 1, texts{"ns/a": "1"})
		w := s.newest()
		w.event(watch.Modified, "6", tooLarge("a"))
		expect("an event", 2, texts{"ns/a": "1"})
		w.event(watch.Added, "7", labelled("b", "2"))
		expect("it is smaller", 1, texts{"ns/a": "1", "ns/b": "2"})
		w.event(watch.Deleted, "8", labelled("a", ""))
		expect("it is deleted", 0, texts{"ns/b": "2"})

		before := g.options.Budget.Usage().Used
		for i := range 100 {
			w.event(watch.Modified, fmt.Sprint(9+i), tooLarge("b"))
		}
		expect("again and again", 1, texts{"ns/b": "2"})
		if after := g.options.Budget.Usage().Used; after <= before || after > before+refusedSize("ns/b", "it is larger than 4 MiB") {
			t.Errorf("%d bytes are charged, and %d before", after, before)
		}
		s.become("200", tooLarge("b"), labelled("c", "3"))
		_ = w.Close() // the watch is over; the next one gives way to a list
		s.newest().send(decode.Event[*corev1.Secret]{Type: "ODD", Object: secret("x")})
		expect("still followed", 1, texts{"ns/b": "2"})
	})
}

// TestRefusedInStream: of an object that a streamed list has and then refuses, what came first is kept; one that has
// come again and is not to be kept, or is deleted, is not.
func TestRefusedInStream(t *testing.T) {
	event := func(what watch.EventType, i item) decode.Event[*corev1.Secret] {
		return decode.Event[*corev1.Secret]{Type: what, Object: i.object, Refused: i.refused}
	}
	s := &scripted{version: "5", stream: []decode.Event[*corev1.Secret]{
		event(watch.Added, labelled("a", "1")), event(watch.Modified, tooLarge("a")),
		event(watch.Added, tooLarge("b")), event(watch.Modified, labelled("b", "2")),
		event(watch.Added, labelled("c", "3")), event(watch.Modified, labelled("c", "none")),
		event(watch.Added, labelled("d", "4")), event(watch.Deleted, labelled("d", "")),
		event(watch.Added, labelled("e", "5")), event(watch.Modified, labelled("e", "6")),
		event(watch.Added, tooLarge("f")), event(watch.Deleted, labelled("f", "")),
	}}
	b := NewMemoryCap(1 << 20)
	s.run(t, Options{Budget: b}, func(t *testing.T, g *Group, known texts) {
		h := g.Health().Resources[0]
		if want := (texts{"ns/a": "1", "ns/b": "2", "ns/e": "6"}); !maps.Equal(known, want) || h.Refused != 1 || !h.Synced {
			t.Errorf("%v, %+v", known, h)
		}
		k := secretsFeed(g.resources[0]).kept
		want := 3*(objectSize+int64(len("ns/a"))+textSize("1", "")) + refusedSize("ns/f", "it is larger than 4 MiB")
		if k.staged != 0 || k.sums.cached != want || b.Usage().Used != want {
			t.Errorf("%d staged, %d stored, %d used; want %d", k.staged, k.sums.cached, b.Usage().Used, want)
		}
	})
}

// TestRefusedText: a reason is cut, and is never empty.
func TestRefusedText(t *testing.T) {
	r := &Resource{group: &Group{options: Options{Printable: func(err error) error { return err }}}}
	if got := r.refusedText(fmt.Errorf("%s", strings.Repeat("ä", maxRefusedText))); len(got) > maxRefusedText+3 || !strings.HasSuffix(got, "ä…") {
		t.Errorf("%q", got)
	}
	if got := r.refusedText(fmt.Errorf("")); got == "" {
		t.Error("there is no reason")
	}
}

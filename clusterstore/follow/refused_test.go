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
	s.run(t, Options{Memory: NewMemoryCap(1 << 20)}, func(t *testing.T, g *Group, known texts) {
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

		before := g.options.Memory.Usage().Used
		for i := range 100 {
			w.event(watch.Modified, fmt.Sprint(9+i), tooLarge("b"))
		}
		expect("again and again", 1, texts{"ns/b": "2"})
		if after := g.options.Memory.Usage().Used; after <= before ||
			after > before+refusedSize("ns/b", "it is larger than 4 MiB") {
			t.Errorf("%d bytes are charged, and %d before", after, before)
		}
		s.become("200", tooLarge("b"), labelled("c", "3"))
		_ = w.Close() // the watch is over; the next one gives way to a list
		s.newest().send(decode.Event[*corev1.Secret]{Type: "ODD", Object: secret("x")})
		expect("still followed", 1, texts{"ns/b": "2"})
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

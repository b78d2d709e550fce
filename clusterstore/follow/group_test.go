package follow

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

func secret(name string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, ResourceVersion: "2"}}
}

// TestApplied: Applied is called once for a list and once for each event, and failures
// are reported until the objects can be read again. In the health they have passed
// through Printable, in Report they have not.
func TestApplied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, known := &scripted{version: "1", items: []item{labelled("a", ""), labelled("b", "")}, err: errors.New("refused by s3cret")}, texts{}
		var seen notes
		failing := false
		k := secrets(s, known)
		k.Fields = "type=x"
		k.Applied = func() { seen.add(fmt.Sprint(slices.Sorted(maps.Keys(known)))) }
		k.Report = func(err error) {
			if now := err != nil; now != failing {
				failing = now
				seen.add(fmt.Sprint("failing ", now))
			}
		}
		g := NewGroup(Options{Printable: func(error) error { return errors.New("refused") }}, New(k))
		defer start(t, g, func() { seen.add("synced") })()
		expect := func(what string, want ...string) {
			t.Helper()
			if got := seen.take(); !slices.Equal(got, want) {
				t.Errorf("%s: %q, want %q", what, got, want)
			}
		}
		expect("at first", "failing true")
		if h := g.Health(); h.Err == nil || h.Err.Error() != "secrets: refused" || h.Resources[0].Err != "refused" || h.Resources[0].Synced {
			t.Errorf("health: %+v", h)
		}
		s.mu.Lock()
		s.err = nil
		s.mu.Unlock()
		time.Sleep(10 * time.Second)
		expect("listed", "failing false", "[ns/a ns/b]", "synced")
		if h := g.Health(); h.Err != nil || h.Resources[0].Objects != 2 || !h.Resources[0].Synced || s.fields != "type=x" {
			t.Errorf("health: %+v", h)
		}
		s.newest().event(watch.Added, "2", labelled("c", ""))
		expect("one more", "[ns/a ns/b ns/c]")
		s.newest().event(watch.Deleted, "3", labelled("a", ""))
		expect("one less", "[ns/b ns/c]")
		if n := g.Health().Resources[0].Objects; n != 2 {
			t.Errorf("%d objects", n)
		}
	})
}

package main

import (
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"weak"
)

// TestShared: those who ask while a value is made, or soon after, get the same one.
func TestShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		made := 0 // by one after the other
		cost := 100 * time.Millisecond
		s := newShared(50*time.Millisecond, 9, func(int) bool { return true }, func() int { made++; time.Sleep(cost); return made })
		var all sync.WaitGroup
		for range 16 {
			all.Go(func() {
				if got := s.get().value; got != 1 {
					t.Errorf("value %d", got)
				}
			})
		}
		all.Wait()
		first := s.get()
		time.Sleep(9*cost - time.Nanosecond)
		if s.get() != first {
			t.Error("made anew too early")
		}
		cost = time.Millisecond
		time.Sleep(time.Nanosecond)
		second := s.get()
		if second.value != 2 || second.number <= first.number {
			t.Errorf("then %+v, before %+v", *second, *first)
		}
		time.Sleep(50*time.Millisecond - time.Nanosecond)
		if s.get() != second {
			t.Error("made anew before the least time")
		}
		cost = time.Hour
		time.Sleep(time.Nanosecond)
		third := s.get()
		time.Sleep(shareMost)
		cost = 0
		fourth := s.get()
		if another := newShared(0, 0, nil, func() int { return 0 }); another.get().number < fourth.number { // as of a gateway that starts anew
			t.Error("the number of another process is lower")
		}
		if third.value != 3 || fourth.value != 4 {
			t.Errorf("%d, and %d after %v", third.value, fourth.value, shareMost)
		}
	})
}

// TestSharedIsDropped: a value goes as soon as it is no longer good, and a large one as soon as nobody uses it.
func TestSharedIsDropped(t *testing.T) {
	for name, c := range map[string]struct {
		size int
		kept bool
	}{"small": {1 << 20, true}, "large": {maxKept + 1, false}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var text weak.Pointer[byte]
				s := newShared(time.Second, 9, encodedPage.small, func() encodedPage {
					p := encodedPage{text: make([]byte, c.size)}
					text = weak.Make(&p.text[0])
					return p
				})
				m := s.get()
				runtime.GC()
				if s.get() != m {
					t.Error("it is not shared while somebody uses it")
				}
				runtime.KeepAlive(m)
				runtime.GC()
				if got := text.Value() != nil; got != c.kept {
					t.Errorf("it is there while it is good and nobody uses it: %t", got)
				}
				time.Sleep(time.Second)
				synctest.Wait()
				runtime.GC()
				if text.Value() != nil {
					t.Error("it is there once it is no longer good")
				}
			})
		})
	}
}

// TestPages: a page is indented JSON that is made when it is asked for.
func TestPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := httptest.NewRecorder()
		sharedPage(func() any { return []string{"<a>"} }).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		if w.Body.String() != "[\n  \"\\u003ca\\u003e\"\n]\n" || w.Header().Get("Content-Type") != "application/json" || w.Header().Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%v %s", w.Header(), w.Body)
		}
	})
	w := httptest.NewRecorder()
	encodePage(func() {}).serve(w)
	if w.Code != http.StatusInternalServerError || !strings.Contains(w.Body.String(), "the page can't be written") {
		t.Errorf("a page that can't be encoded: %d %s", w.Code, w.Body)
	}
}

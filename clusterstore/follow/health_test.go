package follow

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"isthmus/clusterstore/decode"
)

// TestRefused checks that a refused version of an object does not change the cached version. The
// health lists the object until it can be decoded or is deleted. A refused object is not a failure.
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
		expect("a smaller version", 1, texts{"ns/a": "1", "ns/b": "2"})
		w.event(watch.Deleted, "8", labelled("a", ""))
		expect("a deleted object", 0, texts{"ns/b": "2"})

		before := g.options.Memory.Usage().Used
		for i := range 100 {
			w.event(watch.Modified, fmt.Sprint(9+i), tooLarge("b"))
		}
		expect("many refused events", 1, texts{"ns/b": "2"})
		if after := g.options.Memory.Usage().Used; after <= before ||
			after > before+refusedSize("ns/b", "it is larger than 4 MiB") {
			t.Errorf("%d bytes count after the events, and %d before", after, before)
		}
		s.become("200", tooLarge("b"), labelled("c", "3"))
		_ = w.Close() // the watch has ended; after the next watch, the objects are listed
		s.newest().send(decode.Event[*corev1.Secret]{Type: "ODD", Object: secret("x")})
		expect("after the end of the watch", 1, texts{"ns/b": "2"})
	})
}

// TestRefusedText checks that a reason is cut to a maximum length and is never empty.
func TestRefusedText(t *testing.T) {
	r := &Resource{group: &Group{options: Options{Printable: func(err error) error { return err }}}}
	if got := r.refusedText(fmt.Errorf(
		"%s", strings.Repeat("ä", maxRefusedText),
	)); len(got) > maxRefusedText+3 || !strings.HasSuffix(got, "ä…") {
		t.Errorf("%q", got)
	}
	if got := r.refusedText(fmt.Errorf("")); got == "" {
		t.Error("the reason is empty")
	}
}

// TestTroubleAgain checks that a trouble is logged again only after an absence of troublePause.
// Other troubles do not matter.
func TestTroubleAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var x trouble
		logged := func(c cause) bool { return x.add(c, string(c)) }
		if !logged(longList) || logged(longList) {
			t.Error("a new trouble was not logged once")
		}
		if !logged(silentWatch) || logged(silentWatch) {
			t.Error("another trouble was not logged once")
		}
		for range 3 {
			time.Sleep(troublePause - time.Second)
			if logged(longList) {
				t.Error("a lasting trouble was logged again")
			}
		}
		if !logged(silentWatch) || logged(silentWatch) || x.now() != string(silentWatch) {
			t.Error("a recurring trouble was not logged once")
		}
		time.Sleep(troublePause + time.Second)
		if x.now() != "" || !logged(longList) {
			t.Error("a trouble was not logged after all troubles had ended")
		}
	})
}

func gone() *apierrors.StatusError { return apierrors.NewResourceExpired("too old resource version") }

// TestRequestRate checks that a resource sends at most one request per second after an initial
// burst, for any kind of response. The reason for frequent requests is shown, and is reported
// once.
func TestRequestRate(t *testing.T) {
	const span = 2 * time.Minute
	pages := func(items int) func(metav1.ListOptions) (metav1.ListMeta, []item, error) {
		return func(metav1.ListOptions) (metav1.ListMeta, []item, error) {
			return metav1.ListMeta{
				ResourceVersion: "1",
				Continue:        "more",
			}, slices.Repeat([]item{labelled("a", "")}, items), nil
		}
	}
	for name, c := range map[string]struct {
		server *scripted
		shown  string // cause, or failure
		synced bool
	}{
		"everything refused by 410": {&scripted{
			onWatch: func(metav1.ListOptions) error { return gone() },
			onList: func(metav1.ListOptions) (metav1.ListMeta, []item, error) {
				return metav1.ListMeta{}, nil, gone()
			},
		}, "too old resource version", false},
		"watches refused by 410": {
			&scripted{onWatch: func(metav1.ListOptions) error { return gone() }}, "too old resource version",
			true,
		},
		"a version that is not known yet": {&scripted{onWatch: func(metav1.ListOptions) error {
			return &apierrors.StatusError{
				ErrStatus: metav1.Status{Status: metav1.StatusFailure,
					Code:   http.StatusGatewayTimeout,
					Reason: metav1.StatusReasonTimeout,
					Details: &metav1.StatusDetails{
						Causes: []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge}},
					}},
			}
		}}, string(expiredAtOnce), true},
		"events of 410": {
			&scripted{onEvents: func(_ metav1.ListOptions, w *scriptedEvents, _ int) { w.fail(gone()) }},
			string(expiredAtOnce), true,
		},
		"events of errors": {&scripted{onEvents: func(_ metav1.ListOptions, w *scriptedEvents, _ int) {
			w.fail(apierrors.NewInternalError(errors.New("no etcd")))
			w.stop()
		}}, string(failsSoon) + ": Internal error occurred: no etcd", true},
		"events of 429": {&scripted{onEvents: func(_ metav1.ListOptions, w *scriptedEvents, _ int) {
			w.fail(apierrors.NewTooManyRequestsError("later"))
		}}, string(failsSoon) + ": Too many requests: later", true},
		"one bookmark and the end": {&scripted{onEvents: func(_ metav1.ListOptions, w *scriptedEvents, _ int) {
			w.bookmark("2")
			w.stop()
		}}, string(endedSoon), true},
		"one event and the end": {&scripted{onEvents: func(_ metav1.ListOptions, w *scriptedEvents, _ int) {
			w.event(watch.Modified, "2", labelled("a", ""))
			w.stop()
		}}, string(endedSoon), true},
		"the end at once": {
			&scripted{onEvents: func(_ metav1.ListOptions, w *scriptedEvents, _ int) { w.stop() }},
			string(endedSoon), true,
		},
		"pages without objects": {&scripted{onList: pages(0)}, errPoorPages.Error(), false},
		"pages of one object":   {&scripted{onList: pages(1)}, errPoorPages.Error(), false},
		"pages that have expired": {&scripted{onList: func(o metav1.ListOptions) (metav1.ListMeta, []item, error) {
			if o.Continue != "" {
				return metav1.ListMeta{}, nil, gone()
			}
			return pages(1)(o)
		}}, "too old resource version", false}, // it starts over each time
		"failures": {&scripted{
			onWatch: func(metav1.ListOptions) error { return apierrors.NewInternalError(errors.New("no etcd")) },
			onList: func(metav1.ListOptions) (metav1.ListMeta, []item, error) {
				return metav1.ListMeta{}, nil, apierrors.NewInternalError(errors.New("no etcd"))
			},
		}, "Internal error occurred: no etcd", false},
		"forbidden": {&scripted{
			onWatch: func(metav1.ListOptions) error {
				return apierrors.NewForbidden(corev1.Resource("secrets"), "", errors.New("no rights"))
			},
			onList: func(metav1.ListOptions) (metav1.ListMeta, []item, error) {
				return metav1.ListMeta{}, nil, apierrors.NewForbidden(
					corev1.Resource("secrets"), "", errors.New("no rights"),
				)
			},
		}, "secrets is forbidden: no rights", false},
	} {
		t.Run(name, func(t *testing.T) {
			s := c.server
			s.runNoting(t, Options{}, func(g *Group, known texts, troubles func() []string) {
				time.Sleep(span)
				reported := troubles()
				h := g.Health().Resources[0]
				if n := s.requests; n > int(span.Seconds())+requestBurst || n < requestBurst {
					t.Errorf("%d requests within %v", n, span)
				}
				if !strings.HasPrefix(h.Trouble, c.shown) && h.Err != c.shown {
					t.Errorf("shown: %+v, not %q", h, c.shown)
				}
				if h.Synced != c.synced || known.has("a") != c.synced {
					t.Errorf("%+v", h)
				}
				if set := slices.Compact(slices.Sorted(slices.Values(reported))); len(set) != len(reported) {
					t.Errorf("reported: %q", reported)
				}
				t.Logf("%d requests; %+v; %q", s.requests, h, reported)
			})
		})
	}
}

// TestUnwatched checks that a resource that may be listed but not watched is listed every 30 s at
// the slowest. The health names the missing permission. Once it is granted, the resource is
// watched.
func TestUnwatched(t *testing.T) {
	var lists []time.Time
	var granted atomic.Bool
	s := &scripted{version: "1", items: []item{labelled("a", "x")}}
	s.onList = func(metav1.ListOptions) (metav1.ListMeta, []item, error) {
		lists = append(lists, time.Now())
		return s.all()
	}
	s.onWatch = func(metav1.ListOptions) error {
		if granted.Load() {
			return nil
		}
		return apierrors.NewForbidden(corev1.Resource("secrets"), "", errors.New("no rights"))
	}
	s.run(t, Options{}, func(t *testing.T, g *Group, known texts) {
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		var pauses []time.Duration
		for i := range lists[1:] {
			pauses = append(pauses, lists[i+1].Sub(lists[i]))
		}
		if pauses[1] > 4*time.Second || slices.Min(pauses[6:]) < maxUnwatchedPause ||
			slices.Max(pauses) > maxUnwatchedPause+4*time.Second {
			t.Errorf("pauses: %v", pauses)
		}
		err := g.Health().Err
		if err == nil || !strings.Contains(err.Error(), "grant the verb watch on secrets") {
			t.Errorf("health: %v", err)
		}
		s.become("2", labelled("b", "x"))
		time.Sleep(maxUnwatchedPause + 4*time.Second)
		if !known.has("b") || known.has("a") {
			t.Errorf("the changed list is not cached: %v", known)
		}
		granted.Store(true)
		time.Sleep(maxUnwatchedPause + 4*time.Second)
		synctest.Wait()
		if h := g.Health(); h.Err != nil {
			t.Errorf("after the permission was granted: %v", h.Err)
		}
	})
}

package follow

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// server is an API server with one Secret whose answers a test changes. A func that
// returns nothing leaves the answer as it is.
type server struct {
	noWatchList bool

	list   func(metav1.ListOptions) (*corev1.SecretList, error)
	watch  func(metav1.ListOptions) error
	stream func(o metav1.ListOptions, w *watch.RaceFreeFakeWatcher, n int) // sends the first events of the n-th watch; from 0

	mu       sync.Mutex
	requests int
	watches  []openWatch
}

// openWatch is a watch that has been answered.
type openWatch struct {
	metav1.ListOptions
	*watch.RaceFreeFakeWatcher
}

// opened returns the watches that have been answered, once nothing is under way.
func (s *server) opened() []openWatch {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.watches)
}

// tooMany is how many requests are answered at most: a loop without pauses takes no
// time in a bubble, and would not end.
const tooMany = 1000

func (s *server) request(ctx context.Context) error {
	s.mu.Lock()
	s.requests++
	enough := s.requests > tooMany
	s.mu.Unlock()
	if enough {
		<-ctx.Done()
	}
	return ctx.Err()
}

func (s *server) calls() calls {
	return calls{
		List: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			if err := s.request(ctx); err != nil {
				return nil, err
			}
			if s.list != nil {
				if list, err := s.list(o); list != nil || err != nil {
					return list, err
				}
			}
			return &corev1.SecretList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}, Items: []corev1.Secret{*secret("a")}}, nil
		},
		Watch: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			if err := s.request(ctx); err != nil {
				return nil, err
			}
			if s.watch != nil {
				if err := s.watch(o); err != nil {
					return nil, err
				}
			}
			w := watch.NewRaceFreeFake()
			s.mu.Lock()
			n := len(s.watches)
			s.watches = append(s.watches, openWatch{o, w})
			s.mu.Unlock()
			if s.stream != nil {
				s.stream(o, w, n)
			} else {
				sendInitial(o, w)
			}
			return w, nil
		},
	}
}

// sendInitial sends the events that a watch begins with.
func sendInitial(o metav1.ListOptions, w *watch.RaceFreeFakeWatcher) {
	if streamsList(o) {
		w.Add(secret("a"))
		w.Action(watch.Bookmark, bookmark(map[string]string{metav1.InitialEventsAnnotationKey: "true"}))
	}
}

func bookmark(annotations map[string]string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "2", Annotations: annotations}}
}

func gone() *apierrors.StatusError { return apierrors.NewResourceExpired("too old resource version") }

// run follows a server in a bubble for as long as f takes.
func (s *server) run(t *testing.T, f func(g *Group, known texts, troubles func() []string)) {
	synctest.Test(t, func(t *testing.T) {
		known := texts{}
		var mu sync.Mutex
		var seen []string
		g := NewGroup(Options{NoWatchList: s.noWatchList, Trouble: func(resource, text string) {
			mu.Lock()
			defer mu.Unlock()
			seen = append(seen, resource+": "+text)
		}}, New(secrets(s.calls().source(), known)))
		defer start(t, g, nil)()
		f(g, known, func() []string {
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(seen)
		})
	})
}

// TestRequestRate: no answer of a server makes a resource send more than one request a
// second, after the first few. Why it sends that many is shown, and reported once.
func TestRequestRate(t *testing.T) {
	const span = 2 * time.Minute
	noWatchList := func(o metav1.ListOptions) error {
		if streamsList(o) {
			return apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Secret").GroupKind(), "", nil)
		}
		return nil
	}
	pages := func(items int) func(metav1.ListOptions) (*corev1.SecretList, error) {
		return func(metav1.ListOptions) (*corev1.SecretList, error) {
			list := &corev1.SecretList{ListMeta: metav1.ListMeta{ResourceVersion: "1", Continue: "more"}}
			for range items {
				list.Items = append(list.Items, *secret("a"))
			}
			return list, nil
		}
	}
	for name, c := range map[string]struct {
		server *server
		shown  string // cause, or failure
		synced bool
	}{
		"streamed lists refused by 410": {&server{watch: func(o metav1.ListOptions) error {
			if streamsList(o) {
				return gone()
			}
			return nil
		}}, string(expiredAtOnce), true},
		"everything refused by 410": {&server{
			watch: func(metav1.ListOptions) error { return gone() },
			list:  func(metav1.ListOptions) (*corev1.SecretList, error) { return nil, gone() },
		}, "too old resource version", false},
		"watches refused by 410": {&server{watch: func(metav1.ListOptions) error { return gone() }}, "too old resource version", true},
		"a version that is not known yet": {&server{watch: func(metav1.ListOptions) error {
			return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: http.StatusGatewayTimeout, Reason: metav1.StatusReasonTimeout,
				Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge}}}}}
		}}, string(expiredAtOnce), true},
		"events of 410": {&server{stream: func(_ metav1.ListOptions, w *watch.RaceFreeFakeWatcher, _ int) { w.Error(&gone().ErrStatus) }}, string(expiredAtOnce), true},
		"events of 410 after the objects": {&server{stream: func(o metav1.ListOptions, w *watch.RaceFreeFakeWatcher, _ int) {
			sendInitial(o, w)
			w.Error(&gone().ErrStatus)
		}}, string(expiredAtOnce), true},
		"events of errors": {&server{stream: func(o metav1.ListOptions, w *watch.RaceFreeFakeWatcher, _ int) {
			sendInitial(o, w)
			w.Error(&apierrors.NewInternalError(errors.New("no etcd")).ErrStatus)
			w.Stop()
		}}, string(failsSoon) + ": Internal error occurred: no etcd", true},
		"events of 429": {&server{stream: func(o metav1.ListOptions, w *watch.RaceFreeFakeWatcher, _ int) {
			sendInitial(o, w)
			w.Error(&apierrors.NewTooManyRequestsError("later").ErrStatus)
		}}, string(failsSoon) + ": Too many requests: later", true},
		"one bookmark and the end": {&server{stream: func(_ metav1.ListOptions, w *watch.RaceFreeFakeWatcher, _ int) {
			w.Action(watch.Bookmark, bookmark(nil))
			w.Stop()
		}}, string(endedSoon), true},
		"the objects and the end": {&server{stream: func(o metav1.ListOptions, w *watch.RaceFreeFakeWatcher, _ int) { sendInitial(o, w); w.Stop() }}, string(endedSoon), true},
		"one event and the end": {&server{watch: noWatchList, stream: func(_ metav1.ListOptions, w *watch.RaceFreeFakeWatcher, _ int) {
			w.Modify(secret("a"))
			w.Stop()
		}}, string(endedSoon), true},
		"the end at once":       {&server{stream: func(_ metav1.ListOptions, w *watch.RaceFreeFakeWatcher, _ int) { w.Stop() }}, string(endedSoon), true},
		"pages without objects": {&server{watch: noWatchList, list: pages(0)}, errPoorPages.Error(), false},
		"pages of one object":   {&server{watch: noWatchList, list: pages(1)}, errPoorPages.Error(), false},
		"pages that have expired": {&server{watch: noWatchList, list: func(o metav1.ListOptions) (*corev1.SecretList, error) {
			if o.Continue != "" {
				return nil, gone()
			}
			if o.Limit == 0 {
				return nil, nil // without pages
			}
			return pages(1)(o)
		}}, "too old resource version", false}, // it starts over each time
		"failures": {&server{
			watch: func(metav1.ListOptions) error { return apierrors.NewInternalError(errors.New("no etcd")) },
			list: func(metav1.ListOptions) (*corev1.SecretList, error) {
				return nil, apierrors.NewInternalError(errors.New("no etcd"))
			},
		}, "Internal error occurred: no etcd", false},
		"forbidden": {&server{
			watch: func(metav1.ListOptions) error {
				return apierrors.NewForbidden(corev1.Resource("secrets"), "", errors.New("no rights"))
			},
			list: func(metav1.ListOptions) (*corev1.SecretList, error) {
				return nil, apierrors.NewForbidden(corev1.Resource("secrets"), "", errors.New("no rights"))
			},
		}, "secrets is forbidden: no rights", false},
	} {
		t.Run(name, func(t *testing.T) {
			s := c.server
			s.run(t, func(g *Group, known texts, troubles func() []string) {
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

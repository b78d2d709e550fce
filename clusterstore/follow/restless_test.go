package follow

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

func gone() *apierrors.StatusError { return apierrors.NewResourceExpired("too old resource version") }

// TestRequestRate: no answer of a server makes a resource send more than one request a
// second, after the first few. Why it sends that many is shown, and reported once.
func TestRequestRate(t *testing.T) {
	const span = 2 * time.Minute
	pages := func(items int) func(metav1.ListOptions) (metav1.ListMeta, []item, error) {
		return func(metav1.ListOptions) (metav1.ListMeta, []item, error) {
			return metav1.ListMeta{ResourceVersion: "1", Continue: "more"}, slices.Repeat([]item{labelled("a", "")}, items), nil
		}
	}
	for name, c := range map[string]struct {
		server *scripted
		shown  string // cause, or failure
		synced bool
	}{
		"everything refused by 410": {&scripted{
			onWatch: func(metav1.ListOptions) error { return gone() },
			onList:  func(metav1.ListOptions) (metav1.ListMeta, []item, error) { return metav1.ListMeta{}, nil, gone() },
		}, "too old resource version", false},
		"watches refused by 410": {&scripted{onWatch: func(metav1.ListOptions) error { return gone() }}, "too old resource version", true},
		"a version that is not known yet": {&scripted{onWatch: func(metav1.ListOptions) error {
			return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: http.StatusGatewayTimeout, Reason: metav1.StatusReasonTimeout,
				Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge}}}}}
		}}, string(expiredAtOnce), true},
		"events of 410": {&scripted{onEvents: func(_ metav1.ListOptions, w *scriptedEvents, _ int) { w.fail(gone()) }}, string(expiredAtOnce), true},
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
		"the end at once":       {&scripted{onEvents: func(_ metav1.ListOptions, w *scriptedEvents, _ int) { w.stop() }}, string(endedSoon), true},
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
				return metav1.ListMeta{}, nil, apierrors.NewForbidden(corev1.Resource("secrets"), "", errors.New("no rights"))
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

package follow

import (
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// busyFor is an answer with a Retry-After.
func busyFor(code int, seconds int) error {
	return apierrors.NewGenericServerResponse(
		code, http.MethodGet, corev1.Resource("secrets"), "", "busy", seconds, true)
}

// TestThrottle: a server that asks for a pause by Retry-After gets no request before it is over, and one soon after.
func TestThrottle(t *testing.T) {
	for name, c := range map[string]struct {
		code, seconds int
		least, most   time.Duration
	}{
		"429, a while": {code: http.StatusTooManyRequests, seconds: 20,
			least: 20 * time.Second, most: 25 * time.Second},
		"429, an hour": {code: http.StatusTooManyRequests, seconds: 3600, least: 48 * time.Second, most: time.Minute},
		"503, a moment": {code: http.StatusServiceUnavailable, seconds: 5,
			least: 5 * time.Second, most: 7 * time.Second},
		"503, an hour": {code: http.StatusServiceUnavailable, seconds: 3600,
			least: 8 * time.Second, most: 10 * time.Second},
		"500, an hour": {code: http.StatusInternalServerError, seconds: 3600,
			least: 8 * time.Second, most: 10 * time.Second},
		"500, none": {code: http.StatusInternalServerError, most: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			s := &scripted{version: "1"}
			s.run(t, Options{}, func(t *testing.T, g *Group, _ texts) {
				time.Sleep(steadyWatch)
				s.fail(busyFor(c.code, c.seconds))
				s.newest().stop()
				synctest.Wait()
				shown := g.Health().Resources[0].ThrottledUntil
				answered := time.Now()
				if until := shown.Sub(answered); c.seconds > 0 && (until < c.least || until > c.most) ||
					c.seconds == 0 && !shown.IsZero() {
					t.Errorf("throttled until %v, which is %v later", shown, until)
				}
				s.fail(nil)
				time.Sleep(c.most + time.Second)
				synctest.Wait()
				times := s.fail(nil)
				if len(times) == 0 || times[0].Sub(answered) < c.least || times[0].Sub(answered) > c.most {
					t.Errorf("requests at %v, after %v", times, answered)
				}
				if h := g.Health(); h.Err != nil || !h.Resources[0].ThrottledUntil.IsZero() {
					t.Errorf("afterwards: %+v", h)
				}
			})
		})
	}
}

// TestThrottledWatch: a watch that ends by 429 is requested again when the server wants that.
func TestThrottledWatch(t *testing.T) {
	s := &scripted{version: "1"}
	s.run(t, Options{}, func(t *testing.T, g *Group, _ texts) {
		time.Sleep(steadyWatch)
		ended := time.Now()
		s.fail(nil)
		s.newest().fail(busyFor(http.StatusTooManyRequests, 20))
		time.Sleep(time.Minute)
		synctest.Wait()
		if times := s.fail(nil); len(times) != 1 || times[0].Sub(ended) < 20*time.Second {
			t.Errorf("requests at %v, after %v", times, ended)
		}
	})
}

// TestThrottledDiscovery: API discovery waits too.
func TestThrottledDiscovery(t *testing.T) {
	a := newOptional(nil)
	a.run(t, func(g *Group, known texts) {
		a.set(func() { a.err, a.unknown = errNotFound, busyFor(http.StatusTooManyRequests, 20) })
		time.Sleep(6 * time.Second)
		synctest.Wait()
		a.set(func() { a.discover = 0 })
		time.Sleep(10 * time.Second)
		a.set(func() {
			if a.discover > 0 {
				t.Errorf("API discovery was asked %d times", a.discover)
			}
		})
		a.set(func() { a.err, a.unknown = nil, nil })
		time.Sleep(2 * optionalPause)
		if !known.has("a") || g.Health().Resources[0].Err != "" {
			t.Errorf("afterwards: %+v", g.Health())
		}
	})
}

// TestThrottleNever: errors without a Retry-After throttle nothing.
func TestThrottleNever(t *testing.T) {
	r := New(secrets(nil, texts{}))
	NewGroup(Options{}, r)
	for _, err := range []error{
		errors.New("refused"),
		apierrors.NewTooManyRequestsError("later"),
		busyFor(http.StatusInternalServerError, -5),
	} {
		if r.throttle(err); !r.throttled.IsZero() {
			t.Errorf("%v throttles", err)
		}
	}
}

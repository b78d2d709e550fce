package follow

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"isthmus/clusterstore/decode"
	"isthmus/internal/apisim"
)

// outage is an API server that is unreachable at times.
type outage struct {
	*apisim.Server
	transport *http.Transport // of the client
	t         *testing.T
	known     texts
	want      map[string]string // the objects of the server
	lists     atomic.Int32      // number of full lists
	accept    chan net.Conn
	closed    chan struct{}
	once      sync.Once

	mu    sync.Mutex
	down  bool
	conns []net.Conn // the server's ends of the connections
}

var errRefused = errors.New("connection refused")

func (o *outage) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	o.mu.Lock()
	down := o.down
	o.conns = append(o.conns, server)
	o.mu.Unlock()
	if down {
		return nil, errRefused
	}
	select {
	case o.accept <- server:
		return client, nil
	case <-o.closed:
		return nil, errRefused
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (o *outage) Accept() (net.Conn, error) {
	select {
	case conn := <-o.accept:
		return conn, nil
	case <-o.closed:
		return nil, net.ErrClosed
	}
}

func (o *outage) Close() error {
	o.once.Do(func() { close(o.closed) })
	return nil
}

func (o *outage) Addr() net.Addr { return &net.TCPAddr{} }

// RoundTrip sends a request. It counts successful full lists.
func (o *outage) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := o.transport.RoundTrip(r)
	if err == nil && r.URL.Query().Get("limit") == fmt.Sprint(pageSize) {
		o.lists.Add(1)
	}
	return response, err
}

// cut breaks all connections and refuses new ones.
func (o *outage) cut() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.down = true
	for _, c := range o.conns {
		c.Close()
	}
	o.conns = nil
}

func (o *outage) heal() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.down = false
}

// away makes the server unreachable for d.
func (o *outage) away(d time.Duration) {
	o.cut()
	time.Sleep(d)
	o.heal()
}

func (o *outage) put(name, x string) {
	o.t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns",
		Name:      name,
		Labels:    map[string]string{"x": x},
	}}
	if err := o.Put(secret); err != nil {
		o.t.Fatal(err)
	}
	o.want["ns/"+name] = x
}

// write updates one object n times.
func (o *outage) write(n int) {
	o.t.Helper()
	for i := range n {
		o.put("busy", fmt.Sprint(i))
	}
}

// runOutage caches the Secrets of an API server while f runs. It then compares the cached objects
// with the server's.
func runOutage(t *testing.T, f func(o *outage)) (lists int) {
	synctest.Test(t, func(t *testing.T) {
		o := &outage{
			t:      t,
			known:  texts{},
			want:   map[string]string{},
			accept: make(chan net.Conn),
			closed: make(chan struct{}),
		}
		o.Server = apisim.StartAt(o, "east", nil)
		defer o.Server.Close()
		o.transport = &http.Transport{DialContext: o.dial}
		defer o.transport.CloseIdleConnections()
		base := &url.URL{Scheme: "http", Host: "east.example"}
		sources := decode.NewSources(&http.Client{Transport: o}, base)
		o.put("a", "x")
		g := NewGroup(Options{}, New(secrets(sources.Secrets("ns"), o.known)))
		defer start(t, g, nil)()
		<-g.Synced()
		time.Sleep(time.Minute)
		o.lists.Store(0)
		f(o)
		time.Sleep(10 * time.Second)
		o.put("last", "x")
		synctest.Wait()
		if !maps.Equal(o.known, o.want) {
			t.Errorf("the cache has %v, and the server has %v", o.known, o.want)
		}
		if h := g.Health(); h.Err != nil || !h.StaleSince.IsZero() {
			t.Errorf("health: %+v", h)
		}
		lists = int(o.lists.Load())
	})
	return lists
}

// TestOutage checks that a watch resumes after an outage of less than a minute. After a longer
// outage, the objects are listed. They are also listed if the server was restored from a backup or
// has dropped old events.
func TestOutage(t *testing.T) {
	for name, c := range map[string]struct {
		do          func(*outage)
		least, most int // number of full lists
	}{
		"two seconds": {do: func(o *outage) { o.away(2 * time.Second) }},
		"with changes": {do: func(o *outage) {
			o.cut()
			o.write(100)
			o.away(50 * time.Second)
		}},
		"one after the other": {do: func(o *outage) {
			for range 10 {
				o.away(20 * time.Second)
				time.Sleep(10 * time.Second)
			}
		}},
		"flapping": {do: func(o *outage) {
			for range 60 {
				o.away(300 * time.Millisecond)
				time.Sleep(700 * time.Millisecond)
			}
		}, most: 2},
		"long": {do: func(o *outage) { o.away(2 * time.Minute) }, least: 1, most: 1},
		"history forgotten": {do: func(o *outage) {
			o.cut()
			o.write(100)
			o.Compact()
			o.away(10 * time.Second)
		}, least: 1, most: 1},
		"restored": {do: func(o *outage) { o.restore(10*time.Second, 100, 50) }, least: 1, most: 1},
		"restored, and written past the last version": {
			do: func(o *outage) { o.restore(61*time.Second, 100, 200) }, least: 1, most: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if n := runOutage(t, c.do); n < c.least || n > c.most {
				t.Errorf("%d lists, want %d to %d", n, c.least, c.most)
			}
		})
	}
}

// restore restores the server from a backup during an outage. It writes before updates after the
// backup was made, and after updates after it was restored.
func (o *outage) restore(d time.Duration, before, after int) {
	restore, was := o.Backup(), maps.Clone(o.want)
	o.put("lost", "x")
	o.write(before)
	synctest.Wait()
	o.cut()
	restore()
	o.want = was
	o.write(after)
	o.away(d)
}

// noticed is the time within which a silent watch is replaced.
const noticed = 2 * time.Minute

// TestSilentWatch checks that a list and a new watch replace a silent watch. The silent watch may
// have sent bookmarks before. The list brings the missed changes, and the silence is not a failure.
func TestSilentWatch(t *testing.T) {
	for name, bookmarks := range map[string]int{"from its beginning": 0, "later": 2} {
		t.Run(name, func(t *testing.T) {
			const missed = "missed"
			s := &scripted{}
			s.runNoting(t, Options{}, func(g *Group, known texts, troubles func() []string) {
				for range bookmarks {
					s.newest().bookmark("2")
					time.Sleep(time.Minute)
				}
				if n := len(s.opened()); n != 1 || known.has(missed) {
					t.Fatalf("%d watches while bookmarks arrive", n)
				}
				s.become("2", labelled("a", ""), labelled(missed, ""))
				time.Sleep(noticed)
				reported, opened := troubles(), s.opened()
				if len(opened) != 2 || !known.has(missed) || !known.has("a") || !opened[0].isClosed() {
					t.Errorf("%d watches", len(opened))
				}
				h := g.Health()
				if h.Err != nil || !h.StaleSince.IsZero() || len(reported) > 0 || h.Resources[0].Trouble != "" {
					t.Errorf("health: %+v; %q", h, reported)
				}
				opened[1].event(watch.Added, "3", labelled("later", ""))
				if !known.has("later") {
					t.Error("the event of the new watch was not applied")
				}
				time.Sleep(20 * time.Minute) // many watches fall silent
				trouble := strings.TrimPrefix(strings.Join(troubles(), "; "), "secrets: ")
				if want := []string{"", string(silentWatch)}[min(bookmarks, 1)]; trouble != want ||
					g.Health().Resources[0].Trouble != want {
					t.Errorf("reported: %q; health: %q", trouble, g.Health().Resources[0].Trouble)
				}
			})
		})
	}
}

// TestSilentServer checks that the list after a silent watch times out if the server no longer
// responds.
func TestSilentServer(t *testing.T) {
	s := &scripted{}
	s.runNoting(t, Options{}, func(g *Group, known texts, _ func() []string) {
		<-g.Synced()
		s.hang()
		time.Sleep(watchSilence + pageTimeout - time.Second)
		synctest.Wait()
		if h := g.Health(); !h.StaleSince.IsZero() || h.Err != nil {
			t.Errorf("before the time limit: %+v", h)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if h := g.Health(); h.StaleSince.IsZero() || !errors.Is(h.Err, errSlowPage) || !known.has("a") {
			t.Errorf("health: %+v", h)
		}
	})
}

// TestSilentList checks that a list whose response does not end fails within the time limit.
func TestSilentList(t *testing.T) {
	s := &scripted{version: "1", pause: time.Hour}
	s.run(t, Options{}, func(t *testing.T, g *Group, _ texts) {
		time.Sleep(pageTimeout)
		synctest.Wait()
		if h := g.Health(); !errors.Is(h.Err, errSlowPage) {
			t.Errorf("health: %+v", h)
		}
	})
}

// TestEndlessWatch checks that a watch that outlasts its requested timeout is ended and resumed
// from its last version.
func TestEndlessWatch(t *testing.T) {
	s := &scripted{}
	s.runNoting(t, Options{}, func(g *Group, _ texts, troubles func() []string) {
		end := time.Now().Add(time.Duration(*s.opened()[0].TimeoutSeconds)*time.Second + watchOverrun)
		for time.Until(end) > 0 {
			all := s.opened()
			if len(all) != 1 {
				t.Fatalf("%d watches, %v before the timeout", len(all), time.Until(end))
			}
			all[0].bookmark("2")
			time.Sleep(min(time.Minute, time.Until(end)))
		}
		opened, reported := s.opened(), troubles()
		if len(opened) != 2 || opened[1].ResourceVersion != "2" {
			t.Errorf("watches: %+v", opened)
		}
		if h := g.Health(); h.Err != nil || len(reported) != 1 ||
			!strings.HasSuffix(reported[0], string(overdueWatch)) {
			t.Errorf("%+v; %q", h, reported)
		}
	})
}

// always is a reader that always has another event.
type always struct{}

func (always) next() (event, error) { return event{kind: watch.Modified}, nil }

func (always) Close() error { return nil }

// TestOverdueThoughBusy checks that a watch that never pauses is still ended at its timeout.
func TestOverdueThoughBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(secrets(nil, texts{}))
		NewGroup(Options{}, r)
		w := &watcher{from: always{}, resource: r, began: time.Now(), end: time.Now().Add(time.Minute)}
		w.ctx, w.stop = context.WithCancelCause(t.Context())
		w.timer = time.AfterFunc(time.Hour, w.expire)
		defer w.close()
		if _, err := w.next(); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute)
		if _, err := w.next(); err != errOverdue {
			t.Errorf("after the timeout: %v", err)
		}
	})
}

// busyFor returns a response with a Retry-After.
func busyFor(code int, seconds int) error {
	return apierrors.NewGenericServerResponse(
		code, http.MethodGet, corev1.Resource("secrets"), "", "busy", seconds, true)
}

// TestThrottle checks that no request is sent before a Retry-After has passed, and that one is sent
// soon afterwards.
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

// TestThrottledWatch checks that a watch that ends with status 429 is requested again after its
// Retry-After.
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

// TestThrottledDiscovery checks that API discovery respects a Retry-After too.
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
				t.Errorf("%d discovery requests were sent", a.discover)
			}
		})
		a.set(func() { a.err, a.unknown = nil, nil })
		time.Sleep(2 * optionalPause)
		if !known.has("a") || g.Health().Resources[0].Err != "" {
			t.Errorf("afterwards: %+v", g.Health())
		}
	})
}

// TestThrottleNever checks that errors without a Retry-After delay no request.
func TestThrottleNever(t *testing.T) {
	r := New(secrets(nil, texts{}))
	NewGroup(Options{}, r)
	for _, err := range []error{
		errors.New("refused"),
		apierrors.NewTooManyRequestsError("later"),
		busyFor(http.StatusInternalServerError, -5),
	} {
		if r.throttle(err); !r.throttled.IsZero() {
			t.Errorf("%v delays requests", err)
		}
	}
}

// repeating returns a Source whose lists repeat the same objects on every page for ten minutes.
func repeating() *scripted {
	same := make([]item, 100)
	for i := range same {
		same[i] = labelled(fmt.Sprint("n", i), "x")
	}
	return &scripted{
		pause: time.Second,
		onList: func(o metav1.ListOptions) (meta metav1.ListMeta, _ []item, err error) {
			if len(o.Continue) > 600 {
				return meta, nil, errors.New("the list does not end")
			}
			return metav1.ListMeta{ResourceVersion: "5", Continue: o.Continue + "x"}, same, nil
		},
	}
}

// TestRepeating checks that a list that repeats the same objects soon exceeds the memory cap.
// Without a cap, the list fails after some minutes. The health shows the slow list before that.
func TestRepeating(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := sharingFeed(1 << 20)
		f.kind.Source = repeating()
		if err := f.resource.list(t.Context()); !isOver(err) {
			t.Errorf("with a memory cap: %v", err)
		}
		f.account, f.resource.group.events = nil, nil
		began := time.Now()
		go func() {
			time.Sleep(slowList + 2*time.Second)
			if h := f.resource.group.Health().Resources[0]; h.Trouble != string(longList) {
				t.Errorf("the health during the list is %+v", h)
			}
		}()
		next := f.resource.listAndWatch(t.Context(), toList)
		if took := time.Since(began); next != toList || took < maxListTime || took > maxListTime+pageTimeout {
			t.Errorf("after %v: %v", took, next)
		}
		if h := f.resource.group.Health().Resources[0]; h.Err != errLongList.Error() {
			t.Errorf("%+v", h)
		}
	})
}

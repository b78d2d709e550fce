package follow

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"isthmus/clusterstore/decode"
	"isthmus/internal/apisim"
)

// outage is an API server that can't be reached at times.
type outage struct {
	*apisim.Server
	transport *http.Transport // of the client
	t         *testing.T
	known     texts
	want      map[string]string // what the server has
	lists     atomic.Int32      // of all objects
	accept    chan net.Conn
	closed    chan struct{}
	once      sync.Once

	mu    sync.Mutex
	down  bool
	conns []net.Conn // the server's ends
}

var errRefused = errors.New("connection refused")

// dial connects to the server.
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

// Accept implements net.Listener.
func (o *outage) Accept() (net.Conn, error) {
	select {
	case conn := <-o.accept:
		return conn, nil
	case <-o.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (o *outage) Close() error {
	o.once.Do(func() { close(o.closed) })
	return nil
}

// Addr implements net.Listener.
func (o *outage) Addr() net.Addr { return &net.TCPAddr{} }

// RoundTrip sends a request. It counts lists of all objects that are answered.
func (o *outage) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := o.transport.RoundTrip(r)
	if err == nil && r.URL.Query().Get("limit") == fmt.Sprint(pageSize) {
		o.lists.Add(1)
	}
	return response, err
}

// cut refuses connections, and breaks those that there are.
func (o *outage) cut() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.down = true
	for _, c := range o.conns {
		c.Close()
	}
	o.conns = nil
}

// heal undoes cut.
func (o *outage) heal() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.down = false
}

// away cuts the server off for a while.
func (o *outage) away(d time.Duration) {
	o.cut()
	time.Sleep(d)
	o.heal()
}

// put writes an object.
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

// write writes one object n times.
func (o *outage) write(n int) {
	o.t.Helper()
	for i := range n {
		o.put("busy", fmt.Sprint(i))
	}
}

// runOutage follows the Secrets of an API server while f runs. Then the objects that are known must be the server's.
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
			t.Errorf("known is %v, and the server has %v", o.known, o.want)
		}
		if h := g.Health(); h.Err != nil || !h.StaleSince.IsZero() {
			t.Errorf("health: %+v", h)
		}
		lists = int(o.lists.Load())
	})
	return lists
}

// TestOutage: after an outage of less than a minute a watch goes on from where it was, unless the
// server was restored from a backup or has forgotten what happened. After a longer one the objects
// are listed.
func TestOutage(t *testing.T) {
	for name, c := range map[string]struct {
		do          func(*outage)
		least, most int // lists
	}{
		"of two seconds": {do: func(o *outage) { o.away(2 * time.Second) }},
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
		"that is long": {do: func(o *outage) { o.away(2 * time.Minute) }, least: 1, most: 1},
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

// restore takes the server back to a backup during an outage. It writes before times after the
// backup was made, and after times after it was restored.
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

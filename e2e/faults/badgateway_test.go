package faults

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"isthmus/e2e/intercept"
)

// badGateway is a load balancer in front of an API server. While it is broken, it answers every watch by 502 and a body
// that never ends: that of EndpointSlices falls silent, the others come as fast as they are read.
type badGateway struct {
	server   *httptest.Server
	broken   atomic.Bool
	watching atomic.Int32 // watches that the API server answers
	most     atomic.Int64 // bytes of an error that were sent
}

// Limits of an endless body, so that nothing lasts if the gateway does not end it.
const (
	endlessBytes = 512 << 20
	endlessTime  = 2 * time.Minute
)

// newBadGateway starts one that is well, in front of a site.
func newBadGateway(t *testing.T, at *site) *badGateway {
	t.Helper()
	config := rest.AnonymousClientConfig(at.cluster().REST())
	transport, err := rest.TransportFor(config)
	must(t, err)
	target, err := url.Parse(config.Host)
	must(t, err)
	b := &badGateway{}
	b.server = intercept.Start(t, target, transport, func(w http.ResponseWriter, r *http.Request, forward http.HandlerFunc) {
		isWatch := r.URL.Query().Get("watch") == "true"
		if isWatch && b.broken.Load() {
			b.answerWithoutEnd(w, r)
			return
		}
		if isWatch {
			b.watching.Add(1)
			defer b.watching.Add(-1)
		}
		forward(w, r)
	})
	return b
}

func (b *badGateway) answerWithoutEnd(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/plain")
	w.WriteHeader(http.StatusBadGateway)
	part := []byte(strings.Repeat("no end. ", 4<<10))
	end, sent := time.Now().Add(endlessTime), int64(0)
	for err := error(nil); err == nil && sent < endlessBytes && time.Now().Before(end); {
		var n int
		n, err = w.Write(part)
		sent += int64(n)
		w.(http.Flusher).Flush()
		if strings.HasSuffix(r.URL.Path, "/endpointslices") {
			select {
			case <-r.Context().Done():
				return
			case <-time.After(endlessTime):
			}
		}
	}
	for most := b.most.Load(); sent > most && !b.most.CompareAndSwap(most, sent); most = b.most.Load() {
	}
}

// endlessErrors is the fault that the load balancer in front of the API server breaks. What it sends is read in part
// only, and once it is well the cluster is followed as ever.
func endlessErrors() fault {
	var b *badGateway
	return fault{
		name: "watches-answered-by-endless-errors", state: "stale", reason: "an error on the server",
		inject: func(ctx context.Context, s *stage) error {
			b = newBadGateway(s.t, s.far.site)
			s.server = b.server.URL
			if err := s.relink(ctx); err != nil {
				return err
			}
			if err := within(ctx, recovery, func() error {
				if n := b.watching.Load(); n < 3 || s.explains(ctx, "new credentials") == nil {
					return fmt.Errorf("%d watches go through the load balancer, and perhaps not those in use", n)
				}
				return nil
			}); err != nil {
				return err
			}
			s.awaitState(s.t, s.name, "ready", recovery)
			b.broken.Store(true)
			b.server.CloseClientConnections()
			return nil
		},
		heal: func(context.Context, *stage) error {
			if b != nil {
				b.broken.Store(false)
			}
			return nil
		},
		verify: func(context.Context, *stage) error {
			if most := b.most.Load(); most == 0 || most > 64<<20 { // sockets' buffers included
				return fmt.Errorf("%d bytes of an error could be sent", most)
			}
			return nil
		},
	}
}

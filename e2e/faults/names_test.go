package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"isthmus/e2e/proxy"
)

// randomNames: the gateway keeps nothing about names that were asked for once, whatever a client makes up.
func randomNames(t *testing.T, s *stage) {
	s.large(t)
	conn, err := proxy.Dial(s.gateway.Addr())
	must(t, err)
	defer conn.Close()
	ask := func(count int) {
		for _, kind := range madeUp {
			for _, method := range []string{pb.Destination_Get_FullMethodName, pb.Destination_GetProfile_FullMethodName} {
				askMany(t, conn, method, count, kind)
			}
		}
	}
	over := func() error { return s.streams(t.Context(), s.open()) }
	ask(either(200, 2000)) // whatever the gateway keeps from the first requests on
	await(t, recovery, over)
	before, series, open := s.heap(t), s.series(t), s.views(t, ".*", "open")
	ask(either(3*mostWarm/2, 10_000))
	gets, profiles := s.views(t, "Get", "warm"), s.views(t, "GetProfile", "warm") // soon, since they are not kept for long
	await(t, recovery, over)
	if now := s.views(t, ".*", "open"); now != open {
		t.Errorf("%v views were open, and now %v are", open, now)
	}
	if gets == 0 || gets > mostWarm || profiles > mostWarm {
		t.Errorf("%v views of Get and %v of GetProfile are kept for the next stream, of %d at most", gets, profiles, mostWarm)
	}
	after, more := s.heap(t), s.series(t)
	t.Logf("heap: %.1f MB before, %.1f MB after; %d series before, %d after; %v and %v warm views", before/1e6, after/1e6, series, more, gets, profiles)
	if grown := after - before; grown > 16e6 {
		t.Errorf("%.1f MB more are in use", grown/1e6)
	}
	if more > series {
		t.Errorf("%d series became %d", series, more)
	}
}

// mostWarm is how many views of a method a gateway keeps at most that no stream uses.
const mostWarm = 1024

// madeUp are requests by number. Services, instances and nodes do not exist; the ports are of a Service that does.
var madeUp = []func(n int) (authority, token string){
	func(n int) (string, string) { return fmt.Sprintf("made-up-%d.overload.svc.cluster.local:80", n), "" },
	func(n int) (string, string) {
		return fmt.Sprintf("made-up-%d.large.overload.svc.cluster.local:80", n), ""
	},
	func(n int) (string, string) { return fmt.Sprintf("large.overload.svc.cluster.local:%d", 1000+n), "" },
	func(n int) (string, string) { return fmt.Sprintf("10.99.%d.%d:80", n/256%256, n%256), "" },
	func(n int) (string, string) {
		return "large.overload.svc.cluster.local:80", fmt.Sprintf(`{"ns":"made-up-%d","nodeName":"made-up-%d","pod":"made-up-%d"}`, n, n, n)
	},
	func(int) (string, string) {
		text := make([]byte, 100+rand.IntN(100))
		for i := range text {
			text[i] = byte(' ' + rand.IntN('~'-' '))
		}
		return string(text[:len(text)/2]), string(text[len(text)/2:])
	},
}

// askMany subscribes to one name after the other, and waits for an answer to each.
func askMany(t *testing.T, conn *grpc.ClientConn, method string, count int, kind func(int) (authority, token string)) {
	t.Helper()
	const atOnce = 8
	numbers := make(chan int)
	var asking sync.WaitGroup
	for range atOnce {
		asking.Go(func() {
			for n := range numbers {
				ctx, stop := context.WithTimeout(t.Context(), patience)
				authority, token := kind(n)
				stream, err := open(ctx, conn, method, request(authority, token))
				var message []byte
				if err == nil {
					err = stream.RecvMsg(&message)
				}
				if code := grpcstatus.Code(err); code != codes.OK && code != codes.NotFound && code != codes.InvalidArgument {
					t.Errorf("%s %q: %v", method, authority, err)
				}
				stop()
			}
		})
	}
	for n := range count {
		numbers <- n
	}
	close(numbers)
	asking.Wait()
}

// heap returns how many bytes are in use after a garbage collection.
func (w *world) heap(t *testing.T) float64 {
	t.Helper()
	_, err := w.page(t.Context(), "/debug/pprof/heap?gc=1")
	must(t, err)
	bytes, err := w.metric(t.Context(), "go_memstats_heap_alloc_bytes")
	must(t, err)
	return bytes
}

// views returns how many views of a method are in a state.
func (w *world) views(t *testing.T, method, state string) float64 {
	t.Helper()
	n, err := w.metric(t.Context(), `isthmus_views\{grpc_method="`+method+`",state="`+state+`"\}`)
	must(t, err)
	return n
}

// series returns how many series there are.
func (w *world) series(t *testing.T) int {
	t.Helper()
	text, err := w.page(t.Context(), "/metrics")
	must(t, err)
	return strings.Count(text, "\n") - strings.Count(text, "\n#")
}

package faults

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"isthmus/e2e/bench/load"
	"isthmus/e2e/harness"
	"isthmus/e2e/proxy"
)

// flood opens calls like a hostile client, on its own connections and as fast as possible.
type flood struct {
	name    string
	conns   int
	calls   int                             // number of calls per connection
	method  func(call int) string           // method of the call
	headers func(call int) [][2]string      // additional headers of the call
	request func(call int) (message []byte) // nil if the request is never sent
	brief   bool                            // whether each call ends at once, so that no call is rejected
}

// largest is the maximum size of a call's headers, including 32 bytes of overhead each.
const largest = 2 << 10

// filled returns headers with the maximum total size, in fields of the given size. The headers
// differ for each call, so that the server cannot share memory between calls.
func filled(field int) func(call int) [][2]string {
	return func(call int) (list [][2]string) {
		const needed = 400 // bytes for the required headers
		for left := largest - needed; left >= 32+8; left -= field + 32 {
			value := fmt.Sprintf("%06x", call) + strings.Repeat("v", min(field, left-32)-8)
			list = append(list, [2]string{fmt.Sprintf("x%x", 16+len(list)), value})
		}
		return list
	}
}

func always(path string) func(int) string { return func(int) string { return path } }

func (f flood) open(t *testing.T, addr string) {
	t.Helper()
	for n := range f.conns {
		must(t, f.connect(t, addr, n*f.calls))
	}
}

// connect opens the calls of one connection. Their numbers start at first.
func (f flood) connect(t *testing.T, addr string, first int) error {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(conn, 64<<10)
	frames := http2.NewFramer(out, nil)
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = io.Copy(io.Discard, conn) // reads everything until the connection ends
	}()
	t.Cleanup(func() {
		conn.Close()
		<-read
	})
	_, err = io.WriteString(out, http2.ClientPreface)
	err = errors.Join(err, frames.WriteSettings(), frames.WriteSettingsAck())
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for i := 0; i < f.calls && err == nil; i++ {
		block.Reset()
		headers := [][2]string{
			{":method", "POST"}, {":scheme", "http"}, {":path", f.method(first + i)}, {":authority", "x"},
			{"content-type", "application/grpc"}, {"te", "trailers"},
		}
		if f.headers != nil {
			headers = append(headers, f.headers(first+i)...)
		}
		for _, h := range headers {
			field := hpack.HeaderField{Name: h[0], Value: h[1], Sensitive: strings.HasPrefix(h[0], "x")}
			err = errors.Join(err, encoder.WriteField(field))
		}
		id := uint32(2*i + 1)
		err = errors.Join(err, frames.WriteHeaders(http2.HeadersFrameParam{
			StreamID: id, BlockFragment: block.Bytes(), EndHeaders: true,
		}))
		if f.request != nil {
			message := f.request(first + i)
			head := []byte{0, 0, 0, byte(len(message) >> 8), byte(len(message))}
			err = errors.Join(err, frames.WriteData(id, true, append(head, message...)))
		}
	}
	return errors.Join(err, out.Flush())
}

// TestFlood opens more calls than Isthmus admits, with headers of maximum size, or without ever
// sending a request. Additional calls must be rejected. Memory must stay below 600 MB with a limit
// of 512Mi, and clients from other addresses must be served.
func TestFlood(t *testing.T) {
	inTurn(t)
	late := [][2]string{{"grpc-timeout", "99999999H"}}
	web := func(int) []byte { return request("web.many.svc.cluster.local:80", "") }
	for _, f := range []flood{
		{name: "large headers", headers: filled(largest), request: web},
		{name: "many headers with a deadline", headers: func(call int) [][2]string {
			return slices.Concat(late, filled(9)(call))
		}},
		{name: "without a request", conns: 10},
		{name: "health checks without a request", conns: 10, method: always("/grpc.health.v1.Health/Check"),
			headers: func(int) [][2]string { return late }},
		{name: "a method that does not exist", method: always("/made.up/Method"), headers: filled(9), brief: true},
	} {
		t.Run(f.name, func(t *testing.T) {
			if f.method == nil {
				f.method = always(pb.Destination_Get_FullMethodName)
			}
			f.conns, f.calls = max(4, f.conns), 10_000
			m := newMultitudeWith(t, []string{"GOMEMLIMIT=460MiB"})
			f.open(t, m.gateway.Addr())
			worst := time.Duration(0)
			for i := range 5 {
				began := time.Now()
				other := dialFrom(t, m.gateway.Addr(), net.IPv4(127, 0, 0, 2))
				name := fmt.Sprintf("pod-%d.web.many.svc.cluster.local:80", i)
				if code := m.ask(t.Context(), t, other, name); code != codes.OK {
					t.Errorf("another client: %v", code)
				}
				worst = max(worst, time.Since(began))
			}
			if !f.brief {
				await(t, patience, func() error {
					if m.metric(t, "isthmus_streams_refused_total") == 0 {
						return errors.New("no call is rejected")
					}
					return nil
				})
			}
			open, refused := m.metric(t, "isthmus_calls"), m.metric(t, "isthmus_streams_refused_total")
			m.changes(t) // fails unless the existing proxy receives each change
			peak, err := harness.PeakMemory(m.gateway.Pid())
			must(t, err)
			t.Logf("%d calls: at most %d MB; another client waited %v; %v were open, %v rejected, at the end %v open",
				f.conns*f.calls, peak/1e6, worst.Round(time.Millisecond), open, refused, m.metric(t, "isthmus_calls"))
			if peak > 600e6 {
				t.Errorf("%d MB were in use", peak/1e6)
			}
		})
	}
}

// TestReconnectAtOnce repeatedly closes the connections of almost as many proxies as Isthmus
// admits, and lets them reconnect at once. No proxy may be rejected, even if the garbage collector
// rarely runs.
func TestReconnectAtOnce(t *testing.T) {
	inTurn(t)
	size := either(1500, 15_000)
	m := newMultitudeWith(t, []string{"GOGC=100"}, fmt.Sprintf("-max-streams=%d", size*16_457/15_000))
	targets := make([]load.Target, size)
	for i := range targets {
		targets[i].Authority = "web.many.svc.cluster.local:80"
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute) // long enough for a busy machine
	defer cancel()
	for turn := range 4 {
		began := time.Now()
		streams, err := load.Open(ctx, load.Config{Addr: m.gateway.Addr(), Conns: size, Targets: targets, Newest: true})
		if err != nil {
			t.Fatalf("turn %d: %v", turn, err)
		}
		t.Logf("turn %d: %d proxies are served after %v", turn, size, time.Since(began).Round(time.Millisecond))
		must(t, streams.Close())
	}
	if refused := m.metric(t, "isthmus_streams_refused_total"); refused != 0 {
		t.Errorf("%v calls were rejected", refused)
	}
}

func dialFrom(t *testing.T, addr string, local net.IP) *grpc.ClientConn {
	t.Helper()
	from := net.Dialer{LocalAddr: &net.TCPAddr{IP: local}}
	conn, err := proxy.Dial(addr, grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
		return from.DialContext(ctx, "tcp", addr)
	}))
	must(t, err)
	t.Cleanup(func() { conn.Close() })
	return conn
}

package grpcapi

import (
	"bytes"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/proto"

	"isthmus/grpcapi/internal/wiretest"
)

// bareClient is a client that takes no data: its windows for answers are closed. It
// reads everything else.
type bareClient struct {
	frames  *http2.Framer
	headers bytes.Buffer
	encoder *hpack.Encoder
	more    [][2]string   // headers of each call, besides those that it needs
	next    uint32        // stream
	ends    chan string   // how streams end: a gRPC code, or RST_STREAM
	over    chan struct{} // closed when the connection is
}

func newBareClient(t *testing.T, addr string) *bareClient {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	c := &bareClient{frames: http2.NewFramer(conn, conn), next: 1, ends: make(chan string, 100_000), over: make(chan struct{})}
	c.encoder = hpack.NewEncoder(&c.headers)
	t.Cleanup(func() {
		conn.Close()
		<-c.over
	})
	_, err = io.WriteString(conn, http2.ClientPreface)
	if err == nil {
		err = c.frames.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
	}
	go c.read()
	if err == nil {
		err = c.frames.WriteSettingsAck()
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *bareClient) read() {
	defer close(c.over)
	decoder := hpack.NewDecoder(4096, nil)
	for {
		f, err := c.frames.ReadFrame()
		if err != nil {
			return
		}
		switch f := f.(type) {
		case *http2.HeadersFrame:
			fields, _ := decoder.DecodeFull(f.HeaderBlockFragment())
			for _, field := range fields {
				if field.Name == "grpc-status" {
					c.ends <- field.Value
				}
			}
		case *http2.RSTStreamFrame:
			if f.ErrCode != http2.ErrCodeNo { // that follows a status which was sent before the request's end had been read
				c.ends <- f.ErrCode.String()
			}
		}
	}
}

// call sends a whole call with one request, which may be nil. It returns an error when
// the connection is closed.
func (c *bareClient) call(method string, request proto.Message) error {
	message, err := proto.Marshal(request)
	if err != nil {
		return err
	}
	c.headers.Reset()
	for _, h := range append([][2]string{
		{":method", "POST"}, {":scheme", "http"}, {":path", method}, {":authority", "x"}, {"content-type", "application/grpc"}, {"te", "trailers"},
	}, c.more...) {
		if err := c.encoder.WriteField(hpack.HeaderField{Name: h[0], Value: h[1]}); err != nil {
			return err
		}
	}
	if err := c.frames.WriteHeaders(http2.HeadersFrameParam{StreamID: c.next, BlockFragment: c.headers.Bytes(), EndHeaders: true}); err != nil {
		return err
	}
	c.next += 2
	return c.frames.WriteData(c.next-2, true, append([]byte{0, 0, 0, byte(len(message) >> 8), byte(len(message))}, message...))
}

// ended waits for that many ends of calls, and counts them by kind.
func (c *bareClient) ended(t *testing.T, n int) map[string]int {
	t.Helper()
	kinds := make(map[string]int)
	for range n {
		select {
		case kind := <-c.ends:
			kinds[kind]++
		case <-c.over:
			t.Fatal("the connection is closed")
		case <-time.After(30 * time.Second):
			t.Fatalf("no more ends of calls than %v", kinds)
		}
	}
	return kinds
}

// TestUntakenAnswers: a call whose answer is not taken keeps its place among those that
// a connection may have, also when it is over for the server.
func TestUntakenAnswers(t *testing.T) {
	const most, calls = 100, 1000
	w := newWorld(t, Options{ConcurrentStreams: most})
	c := newBareClient(t, listening(t, w.server.GRPC()))
	for range calls {
		if err := c.call(healthpb.Health_Check_FullMethodName, &healthpb.HealthCheckRequest{}); err != nil {
			t.Fatal(err)
		}
	}
	if got := c.ended(t, calls-most); got["REFUSED_STREAM"] != calls-most {
		t.Errorf("calls end with %v", got)
	}
	wiretest.Until(t, "none is open", func() bool { return w.server.calls.inUse() == 0 })
	if err := c.frames.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1000}); err != nil { // now it takes them
		t.Fatal(err)
	}
	if got := c.ended(t, most); got["0"] != most {
		t.Errorf("answers that are taken late end with %v", got)
	}
	if err := c.call(healthpb.Health_Check_FullMethodName, &healthpb.HealthCheckRequest{}); err != nil {
		t.Fatal(err)
	}
	if got := c.ended(t, 1); got["0"] != 1 {
		t.Errorf("a later call ends with %v", got)
	}
}

// TestStalledConnection: the connection of many streams that have stalled is closed,
// since what they have been sent waits there. Others stay.
func TestStalledConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{Pace: -1, Stall: time.Minute})
		w.offer("", pods("10.0.0.1:80")...)
		w.profiles.put(webKey, wiretest.WebProfile())
		server, client := net.Pipe()
		defer client.Close()
		info := &clientConnection{conn: server}
		on := func(c *caller) { c.ctx = peer.NewContext(c.ctx, &peer.Peer{AuthInfo: info}) }
		closed := func() bool {
			_ = client.SetReadDeadline(time.Now().Add(time.Second))
			_, err := client.Read(make([]byte, 1))
			return errors.Is(err, io.EOF)
		}
		takes := w.get(webAddr, "", on)
		takes.sees(t, "add 10.0.0.1:80")
		defer takes.hangUp()
		for i := range maxStalled {
			if closed() {
				t.Fatalf("closed after %d streams", i)
			}
			var c *caller
			if i%2 == 0 {
				c = w.get(webAddr, "", on, gated)
			} else {
				c = w.getProfile(webAddr, "", on, gated)
			}
			time.Sleep(time.Minute)
			c.fails(t, codes.Unavailable, "has taken no update")
		}
		if !closed() || value(w.server.metrics.closed.WithLabelValues(closedStalled)) != 1 {
			t.Error("the connection is open, or not counted")
		}
	})
}

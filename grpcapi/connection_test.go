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

	"isthmus/federation"
	"isthmus/grpcapi/internal/wiretest"
)

// connected returns an option that makes callers share a new connection.
func connected() func(*caller) {
	info := &clientConnection{began: time.Now()}
	return func(c *caller) { c.ctx = peer.NewContext(c.ctx, &peer.Peer{AuthInfo: info}) }
}

const tooOld = "maximum age"

// TestConnectionAge checks that the streams of a connection end one by one around its maximum age,
// even while they receive updates. Streams of younger connections stay open.
func TestConnectionAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{Pace: -1, ConnectionAge: 1000 * time.Second})
		w.offer("", pods("10.0.0.1:80")...)
		w.profiles.put(webKey, wiretest.WebProfile())
		var old []*caller
		conn := connected()
		for range 100 {
			old = append(old, w.get(webAddr, "", conn), w.getProfile(webAddr, "", conn))
		}
		time.Sleep(899 * time.Second)
		young := w.get(webAddr, "", connected())
		none := w.get(webAddr, "")
		synctest.Wait()
		if n := count(old); n != 0 {
			t.Errorf("%d streams ended too early", n)
		}
		for i := range 101 { // one second after the other
			w.offer("", pods([]string{"10.0.0.1:80", "10.0.0.2:80"}[i%2])...)
			time.Sleep(time.Second)
		}
		synctest.Wait()
		if n := count(old); n < 50 || n > 150 {
			t.Errorf("%d of 200 streams ended in half of the time", n)
		}
		time.Sleep(101 * time.Second)
		for _, c := range old {
			c.fails(t, codes.Unavailable, tooOld)
		}
		if young.over() || none.over() {
			t.Error("a stream of a younger connection ended")
		}
		young.hangUp()
		none.hangUp()
	})
}

// TestConnectionAgeRefusesNobody checks that a stream without a first message stays open. The test
// also checks that a new stream on an old connection stays open for a second.
func TestConnectionAgeRefusesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{Pace: -1, ConnectionAge: 100 * time.Second, FirstFrame: time.Hour})
		w.offer("", pods("10.0.0.1:80")...)
		w.link("east", federation.Pending)
		conn := connected()
		c := w.get(webAddr, "", conn)
		time.Sleep(200 * time.Second)
		c.sees(t, "")
		w.link("east", federation.Unreachable)
		c.sees(t, "add 10.0.0.1:80")
		late := w.get(webAddr, "", conn)
		late.sees(t, "add 10.0.0.1:80")
		time.Sleep(999 * time.Millisecond)
		w.offer("", pods("10.0.0.1:80", "10.0.0.2:80")...)
		c.sees(t, "add 10.0.0.2:80")
		late.sees(t, "add 10.0.0.2:80")
		time.Sleep(time.Millisecond)
		c.fails(t, codes.Unavailable, tooOld)
		late.fails(t, codes.Unavailable, tooOld)
	})
}

// TestConnectionAgeDuringASend checks that the end waits for the current send. A stall of that send
// is still detected.
func TestConnectionAgeDuringASend(t *testing.T) {
	for name, takes := range map[string]bool{tooOld: true, "took too long to read an update": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, Options{Pace: -1, ConnectionAge: 100 * time.Second, Stall: time.Minute})
				w.offer("", pods("10.0.0.1:80")...)
				c := w.get(webAddr, "", connected(), gated)
				c.gate <- struct{}{}
				time.Sleep(80 * time.Second)
				w.offer("", pods("10.0.0.1:80", "10.0.0.2:80")...)
				time.Sleep(59 * time.Second)
				c.sees(t, "add 10.0.0.1:80")
				if c.over() {
					t.Fatal("the stream ended during a send")
				}
				if takes {
					c.gate <- struct{}{}
					c.sees(t, "add 10.0.0.2:80")
				}
				time.Sleep(time.Second)
				c.fails(t, codes.Unavailable, name)
			})
		})
	}
}

// TestConnectionAgeNone checks that streams stay open if there is no maximum age.
func TestConnectionAgeNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{ConnectionAge: -1})
		w.offer("", pods("10.0.0.1:80")...)
		c := w.get(webAddr, "", connected())
		defer c.hangUp()
		time.Sleep(1000 * time.Hour)
		c.sees(t, "add 10.0.0.1:80")
		if c.over() {
			t.Error("the stream ended")
		}
	})
}

// bareClient is a client whose flow control windows for responses are closed. It reads all other
// frames.
type bareClient struct {
	frames  *http2.Framer
	headers bytes.Buffer
	encoder *hpack.Encoder
	more    [][2]string   // additional headers of each call
	next    uint32        // ID of the next stream
	ends    chan string   // a gRPC code or RST_STREAM for each ended stream
	over    chan struct{} // closed when the connection is closed
}

func newBareClient(t *testing.T, addr string) *bareClient {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	c := &bareClient{
		frames: http2.NewFramer(conn, conn),
		next:   1,
		ends:   make(chan string, 100_000),
		over:   make(chan struct{}),
	}
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
			// This frame follows a status that was sent before the end of the request was read.
			if f.ErrCode != http2.ErrCodeNo {
				c.ends <- f.ErrCode.String()
			}
		}
	}
}

// call sends a call with one request, which may be nil. If the connection is closed, call returns
// an error.
func (c *bareClient) call(method string, request proto.Message) error {
	message, err := proto.Marshal(request)
	if err != nil {
		return err
	}
	c.headers.Reset()
	for _, h := range append([][2]string{
		{":method", "POST"},
		{":scheme", "http"},
		{":path", method},
		{":authority", "x"},
		{"content-type", "application/grpc"},
		{"te", "trailers"},
	}, c.more...) {
		if err := c.encoder.WriteField(hpack.HeaderField{Name: h[0], Value: h[1]}); err != nil {
			return err
		}
	}
	if err := c.frames.WriteHeaders(http2.HeadersFrameParam{
		StreamID:      c.next,
		BlockFragment: c.headers.Bytes(),
		EndHeaders:    true,
	}); err != nil {
		return err
	}
	c.next += 2
	return c.frames.WriteData(
		c.next-2,
		true,
		append([]byte{0, 0, 0, byte(len(message) >> 8), byte(len(message))}, message...),
	)
}

// ended waits for n calls to end, and counts the ends by kind.
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
			t.Fatalf("only these calls ended: %v", kinds)
		}
	}
	return kinds
}

// TestUntakenAnswers checks that a call counts toward the limit of its connection until the client
// reads the response. The handler may have returned long before.
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
	wiretest.Until(t, "none is open", func() bool { return w.server.openCalls.inUse() == 0 })
	// Open the flow control windows, so that the client reads the responses.
	if err := c.frames.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1000}); err != nil {
		t.Fatal(err)
	}
	if got := c.ended(t, most); got["0"] != most {
		t.Errorf("calls whose responses are read late end with %v", got)
	}
	if err := c.call(healthpb.Health_Check_FullMethodName, &healthpb.HealthCheckRequest{}); err != nil {
		t.Fatal(err)
	}
	if got := c.ended(t, 1); got["0"] != 1 {
		t.Errorf("a later call ends with %v", got)
	}
}

// TestStalledConnection checks that a connection with many stalled streams is closed, and that
// other connections stay open.
func TestStalledConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{Pace: -1, Stall: time.Minute})
		w.offer("", pods("10.0.0.1:80")...)
		w.profiles.put(webKey, wiretest.WebProfile())
		server, client := net.Pipe()
		defer client.Close()
		info := &clientConnection{conn: server, parent: newConnections(w.server.metrics.closed, w.server.log)}
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
				t.Fatalf("the connection was closed after %d streams", i)
			}
			var c *caller
			if i%2 == 0 {
				c = w.get(webAddr, "", on, gated)
			} else {
				c = w.getProfile(webAddr, "", on, gated)
			}
			time.Sleep(time.Minute)
			c.fails(t, codes.Unavailable, "took too long to read an update")
		}
		if !closed() || value(w.server.metrics.closed.WithLabelValues(closedStalled)) != 1 {
			t.Error("the connection is still open or was not counted")
		}
	})
}

package load

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"time"

	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
)

const (
	service      = "/io.linkerd.proxy.destination.Destination/"
	streamWindow = 64<<10 - 1 // the default in HTTP/2
	connWindow   = 1 << 20
	mostBuffer   = 32 << 10 // maximum read and write buffers of a connection
	// ofStream is the buffer size per stream of a connection. With thousands of connections that
	// have few streams each, buffers are a large part of the memory.
	ofStream = 1 << 10
)

type conn struct {
	load *Load
	tcp  net.Conn

	write  sync.Mutex // guards writes through out and framer; frames are read without this lock
	out    *bufio.Writer
	framer *http2.Framer

	mu      sync.Mutex // guards the fields below
	streams []*stream  // in order of their ids 1, 3, 5, …

	unacked int // bytes read since the last window update; only used by the reading goroutine
}

// dial opens a connection and sends the client's settings and window.
func dial(ctx context.Context, cfg Config, l *Load) (*conn, error) {
	var d net.Dialer
	tcp, err := d.DialContext(ctx, "tcp", cfg.Addr)
	if err != nil {
		return nil, err
	}
	buffer := min(mostBuffer, (1+len(cfg.Targets)/cfg.Conns)*ofStream)
	c := &conn{load: l, tcp: tcp, out: bufio.NewWriterSize(tcp, buffer)}
	c.framer = http2.NewFramer(c.out, bufio.NewReaderSize(tcp, buffer))
	c.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	c.framer.SetReuseFrames()
	err = c.send(func(f *http2.Framer) error {
		_, err := io.WriteString(c.out, http2.ClientPreface)
		return errors.Join(
			err,
			f.WriteSettings(http2.Setting{ID: http2.SettingEnablePush, Val: 0}),
			f.WriteWindowUpdate(0, connWindow-streamWindow),
		)
	})
	if err != nil {
		return nil, errors.Join(err, tcp.Close())
	}
	return c, nil
}

func (c *conn) send(frames func(*http2.Framer) error) error {
	c.write.Lock()
	defer c.write.Unlock()
	return errors.Join(frames(c.framer), c.out.Flush())
}

func (c *conn) open(cfg Config, targets []Target) error {
	c.mu.Lock()
	for _, t := range targets {
		c.streams = append(c.streams, &stream{target: t, newest: cfg.Newest})
	}
	c.mu.Unlock()
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	return c.send(func(f *http2.Framer) error {
		for i, t := range targets {
			block.Reset()
			for _, h := range []hpack.HeaderField{
				{Name: ":method", Value: "POST"}, {Name: ":scheme", Value: "http"},
				{Name: ":path", Value: service + cmp.Or(t.Method, "Get")},
				{Name: ":authority", Value: cfg.Addr}, {Name: "content-type", Value: "application/grpc"},
				{Name: "te", Value: "trailers"},
			} {
				if err := encoder.WriteField(h); err != nil {
					return err
				}
			}
			request, err := proto.Marshal(&pb.GetDestination{Scheme: "k8s", Path: t.Authority, ContextToken: t.Token})
			if err != nil {
				return err
			}
			id := uint32(2*i + 1)
			err = errors.Join(
				f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block.Bytes(), EndHeaders: true}),
				f.WriteData(id, true, appendMessage(nil, request)))
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func (c *conn) read() {
	for {
		frame, err := c.framer.ReadFrame()
		if err == nil {
			err = c.take(frame)
		}
		if err != nil {
			c.load.fail(fmt.Errorf("connection: %w", err))
			return
		}
	}
}

func (c *conn) take(frame http2.Frame) error {
	switch f := frame.(type) {
	case *http2.DataFrame:
		return c.data(f)
	case *http2.MetaHeadersFrame:
		if f.StreamEnded() {
			return ended(f.Fields)
		}
	case *http2.RSTStreamFrame:
		return fmt.Errorf("a stream was reset: %v", f.ErrCode)
	case *http2.GoAwayFrame:
		return fmt.Errorf("the server sent GOAWAY: %v", f.ErrCode)
	case *http2.SettingsFrame:
		if !f.IsAck() {
			return c.send(func(out *http2.Framer) error { return out.WriteSettingsAck() })
		}
	case *http2.PingFrame:
		if !f.IsAck() {
			data := f.Data
			return c.send(func(out *http2.Framer) error { return out.WritePing(true, data) })
		}
	}
	return nil
}

// EndError reports the unexpected end of a stream.
type EndError struct {
	Code    codes.Code
	Message string
}

func (e *EndError) Error() string {
	return fmt.Sprintf("a stream ended: %v: %s", e.Code, e.Message)
}

// ended converts the trailers of a stream to an error.
func ended(fields []hpack.HeaderField) error {
	e := &EndError{Code: codes.Unknown}
	for _, f := range fields {
		switch f.Name {
		case "grpc-status":
			if n, err := strconv.ParseUint(f.Value, 10, 32); err == nil {
				e.Code = codes.Code(n)
			}
		case "grpc-message":
			e.Message = f.Value
		}
	}
	return e
}

// data counts the messages that a frame completes, and sends window updates when half of a window
// is used.
func (c *conn) data(f *http2.DataFrame) error {
	i, size := int(f.StreamID/2), len(f.Data())
	c.mu.Lock()
	if i >= len(c.streams) {
		c.mu.Unlock()
		return fmt.Errorf("data of unknown stream %d", f.StreamID)
	}
	s := c.streams[i]
	done := s.take(f.Data(), time.Now())
	s.unacked += size
	window := 0
	if s.unacked > streamWindow/2 {
		window, s.unacked = s.unacked, 0
	}
	c.mu.Unlock()
	c.load.bytes.Add(int64(size))
	c.load.total.Add(int64(done))
	if c.unacked += size; c.unacked <= connWindow/2 && window == 0 {
		return nil
	}
	id, all := f.StreamID, c.unacked
	c.unacked = 0
	return c.send(func(out *http2.Framer) error {
		err := out.WriteWindowUpdate(0, uint32(all))
		if window > 0 {
			err = errors.Join(err, out.WriteWindowUpdate(id, uint32(window)))
		}
		return err
	})
}

func (c *conn) each(do func(*stream)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.streams {
		do(s)
	}
}

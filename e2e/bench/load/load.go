// Package load holds many streams open to a Destination server, as many proxies would, and notes when each message
// comes.
//
// It is made to cost little, since it shares the machine with the server that is measured: one goroutine for a
// connection, none for a stream, HTTP/2 frames read as they come, messages counted by their length and never decoded.
// Towards the server it is a proxy: plain text, windows of 64 KiB a stream and 1 MiB a connection, no pings.
package load

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"isthmus/e2e/harness"
)

// Config is what to open.
type Config struct {
	Addr    string
	Conns   int
	Targets []Target // one stream each; the first go to the first connection, and so on in turn
	Newest  bool     // of the times when a stream's messages came, keep the newest only
}

// Target is what one stream subscribes to.
type Target struct {
	Authority, Token string
	Method           string // Get or GetProfile; empty: Get
	Keep             bool   // keep the bytes of all messages
}

// Load is a set of open streams.
type Load struct {
	conns []*conn
	total atomic.Int64 // messages that have come
	bytes atomic.Int64 // of HTTP/2 data

	mu      sync.Mutex
	err     error // why the first stream has ended
	running sync.WaitGroup
}

// Open makes connections and calls, and returns once each stream has had its first message. When it
// fails, nothing is left open.
func Open(ctx context.Context, cfg Config) (*Load, error) {
	l := &Load{}
	for range min(cfg.Conns, len(cfg.Targets)) {
		c, err := dial(ctx, cfg, l)
		if err != nil {
			return nil, errors.Join(err, l.Close())
		}
		l.conns = append(l.conns, c)
		l.running.Go(c.read)
	}
	for i, c := range l.conns {
		var own []Target
		for t := i; t < len(cfg.Targets); t += len(l.conns) {
			own = append(own, cfg.Targets[t])
		}
		if err := c.open(cfg, own); err != nil {
			return nil, errors.Join(fmt.Errorf("open streams: %w", err), l.Close())
		}
	}
	if err := l.Await(ctx, 1); err != nil {
		return nil, errors.Join(fmt.Errorf("first messages: %w", err), l.Close())
	}
	return l, nil
}

// Close ends all streams by ending their connections. To call it again does nothing.
func (l *Load) Close() error {
	l.fail(errors.New("closed"))
	var errs []error
	for _, c := range l.conns {
		if err := c.tcp.Close(); !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	l.running.Wait()
	return errors.Join(errs...)
}

// Await returns once each stream has had n messages or more since it was opened. It looks every millisecond.
func (l *Load) Await(ctx context.Context, n int) error {
	for {
		if err := l.failed(); err != nil {
			return err
		}
		total := l.total.Load()
		if total >= int64(n*l.Streams()) && l.missing(n) == 0 {
			return nil
		}
		if err := harness.Pause(ctx, time.Millisecond); err != nil {
			return fmt.Errorf("%d messages have come, %d are missing: %w", total, l.missing(n), err)
		}
	}
}

// missing returns how many messages have to come so that each stream has n.
func (l *Load) missing(n int) (missing int64) {
	l.each(func(s *stream) { missing += int64(max(0, n-s.count)) })
	return missing
}

// fail notes that a stream has ended, which none should.
func (l *Load) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.err = err
	}
}

// failed returns why the first stream has ended; nil: none has.
func (l *Load) failed() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// Streams returns the number of streams.
func (l *Load) Streams() (n int) {
	for _, c := range l.conns {
		n += len(c.streams)
	}
	return n
}

// Received returns how many messages have come.
func (l *Load) Received() int { return int(l.total.Load()) }

// Bytes returns how large all that has come is, as encoded, with five bytes more for each message.
func (l *Load) Bytes() int { return int(l.bytes.Load()) }

// Arrivals calls a function for each stream with the times when its messages came, in order. With
// Config.Newest there is only the last.
func (l *Load) Arrivals(yield func(t Target, at []time.Time)) {
	l.each(func(s *stream) { yield(s.target, s.arrivals) })
}

// Messages calls a function for each stream with its messages, if they have been kept.
func (l *Load) Messages(yield func(t Target, messages [][]byte)) {
	l.each(func(s *stream) { yield(s.target, s.kept) })
}

func (l *Load) each(do func(*stream)) {
	for _, c := range l.conns {
		c.each(do)
	}
}

// prefix is how many bytes stand before each message: whether it is compressed, and its length.
const prefix = 5

// stream is one call: where the next message ends, and when the others came.
type stream struct {
	target   Target
	newest   bool
	count    int // of messages
	arrivals []time.Time
	kept     [][]byte

	head    []byte // of the next message, as far as it has come
	left    int    // bytes of the message that are still to come, once head is whole
	message []byte // the message so far, if messages are kept
	unacked int    // bytes since the last window update
}

// take reads the next bytes of the stream, and returns how many messages they completed.
func (s *stream) take(data []byte, now time.Time) (done int) {
	for len(data) > 0 || len(s.head) == prefix && s.left == 0 {
		if n := min(prefix-len(s.head), len(data)); n > 0 {
			s.head, data = append(s.head, data[:n]...), data[n:]
			if len(s.head) < prefix {
				return done
			}
			s.left = int(binary.BigEndian.Uint32(s.head[1:]))
		}
		n := min(s.left, len(data))
		if s.target.Keep {
			s.message = append(s.message, data[:n]...)
		}
		s.left, data = s.left-n, data[n:]
		if s.left > 0 {
			return done
		}
		if s.newest {
			s.arrivals = s.arrivals[:0]
		}
		s.arrivals = append(s.arrivals, now)
		s.count++
		if s.target.Keep {
			s.kept = append(s.kept, slices.Clone(s.message))
		}
		s.head, s.message = s.head[:0], s.message[:0]
		done++
	}
	return done
}

// appendMessage appends a message with its prefix.
func appendMessage(b, message []byte) []byte {
	return append(binary.BigEndian.AppendUint32(append(b, 0), uint32(len(message))), message...)
}

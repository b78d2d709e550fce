// Package load opens many streams to a Destination server, as many proxies would, and records the
// time of each message.
//
// The package uses little CPU and memory, because it shares the machine with the measured server.
// It runs one goroutine per connection, reads HTTP/2 frames directly, and counts messages by their
// length without decoding. Its connections look like those of a proxy: plain text, windows of 64
// KiB per stream and 1 MiB per connection, and no pings.
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

type Config struct {
	Addr    string
	Conns   int
	Targets []Target // one stream each, distributed in turn over the connections
	Newest  bool     // only store the time of the last message per stream
}

// Target is the subscription of one stream.
type Target struct {
	Authority, Token string
	Method           string // Get or GetProfile; the default is Get
	Keep             bool   // store all messages
}

type Load struct {
	conns []*conn
	total atomic.Int64 // number of received messages
	bytes atomic.Int64 // number of received HTTP/2 data bytes

	mu      sync.Mutex
	err     error // error of the first stream that ended
	running sync.WaitGroup
}

// Open opens all connections and streams, and waits for the first message on each stream. On
// failure, it closes all connections.
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

// Close closes all connections. Later calls have no effect.
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

// Await waits until each stream has received at least n messages since it was opened. It checks
// every millisecond.
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
			return fmt.Errorf("%d messages received, %d missing: %w", total, l.missing(n), err)
		}
	}
}

// missing returns the number of messages still missing until each stream has n.
func (l *Load) missing(n int) (missing int64) {
	l.each(func(s *stream) { missing += int64(max(0, n-s.count)) })
	return missing
}

func (l *Load) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.err = err
	}
}

func (l *Load) failed() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

func (l *Load) Streams() (n int) {
	for _, c := range l.conns {
		n += len(c.streams)
	}
	return n
}

func (l *Load) Received() int { return int(l.total.Load()) }

// Bytes returns the size of all received messages, including five bytes of header per message.
func (l *Load) Bytes() int { return int(l.bytes.Load()) }

// Arrivals calls yield for each stream with the times of its messages in order. If Config.Newest is
// set, there is only the last time.
func (l *Load) Arrivals(yield func(t Target, at []time.Time)) {
	l.each(func(s *stream) { yield(s.target, s.arrivals) })
}

// Messages calls yield for each stream with its stored messages, or nil if the stream does not
// store them.
func (l *Load) Messages(yield func(t Target, messages [][]byte)) {
	l.each(func(s *stream) { yield(s.target, s.kept) })
}

func (l *Load) each(do func(*stream)) {
	for _, c := range l.conns {
		c.each(do)
	}
}

// prefix is the size of the header before each message: a compression flag and the length.
const prefix = 5

type stream struct {
	target   Target
	newest   bool
	count    int // number of messages
	arrivals []time.Time
	kept     [][]byte

	head    []byte // received part of the next message's header
	left    int    // missing bytes of the message, once the header is complete
	message []byte // received part of the message, if messages are stored
	unacked int    // bytes since the last window update
}

// take reads data from the stream and returns the number of completed messages.
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

func appendMessage(b, message []byte) []byte {
	return append(binary.BigEndian.AppendUint32(append(b, 0), uint32(len(message))), message...)
}

package logging

import (
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"golang.org/x/time/rate"
)

const (
	// Burst is how many lines with one message a logger writes at once. After
	// those it writes one each refillEvery.
	Burst       = 100
	refillEvery = time.Second

	// maxMessages bounds how many messages of a logger have a limit of their own,
	// and maxMessageKey how many bytes of each distinguish it. The gateway's
	// messages are fixed, but those of libraries contain what clients send.
	maxMessages   = 1000
	maxMessageKey = 200
)

// limitCore is a core that drops lines which are repeated too often. The next one
// of the message that it writes carries how many it has dropped. It does not
// limit debug lines: --log-level has asked for them.
type limitCore struct {
	zapcore.Core
	buckets *buckets
}

// Limit returns c with a limit: see the package's guarantees. New does this for
// the loggers it makes.
func Limit(c zapcore.Core) zapcore.Core {
	return limitCore{c, &buckets{byMessage: make(map[string]*bucket)}}
}

// WithOwnLimit returns the same logger with a limit of its own: for a library, so
// that its messages do not use up the limit of equal ones of the gateway's.
func WithOwnLimit(log *zap.Logger) *zap.Logger {
	return log.WithOptions(zap.WrapCore(func(c zapcore.Core) zapcore.Core { return c.With(nil) }))
}

// With returns a core with a limit of its own.
func (c limitCore) With(fields []zapcore.Field) zapcore.Core { return Limit(c.Core.With(fields)) }

func (c limitCore) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return ce.AddCore(e, c)
	}
	return ce
}

func (c limitCore) Write(e zapcore.Entry, fields []zapcore.Field) error {
	if e.Level < zapcore.InfoLevel {
		return c.Core.Write(e, fields)
	}
	dropped, ok := c.buckets.take(e.Message, e.Time)
	if !ok {
		return nil
	}
	if dropped > 0 {
		fields = append(fields[:len(fields):len(fields)], zap.Int("dropped", dropped))
	}
	return c.Core.Write(e, fields)
}

// buckets are a logger's token buckets, one for each message.
type buckets struct {
	mu        sync.Mutex
	byMessage map[string]*bucket
}

type bucket struct {
	*rate.Limiter
	dropped int
}

// take takes a token for a line with this message. It is ok if there was one, and
// returns how many lines have been dropped since the last one that was written.
func (b *buckets) take(message string, now time.Time) (dropped int, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	message = message[:min(len(message), maxMessageKey)]
	one := b.byMessage[message]
	if one == nil && len(b.byMessage) >= maxMessages {
		message = "" // shared by all that are too many
		one = b.byMessage[message]
	}
	if one == nil {
		one = &bucket{Limiter: rate.NewLimiter(rate.Every(refillEvery), Burst)}
		b.byMessage[strings.Clone(message)] = one // a clone: the key must not keep the whole message alive
	}
	if !one.AllowN(now, 1) {
		one.dropped++
		return 0, false
	}
	dropped, one.dropped = one.dropped, 0
	return dropped, true
}

package main

import (
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// What a client, or a cluster that is broken, can make the gateway say: so many
// lines with one message at once, and then one each so often. Every cluster's
// logger has its own allowance, so that none is silenced by another.
const (
	limitBurst = 100
	limitEvery = time.Second
	// limitKinds bounds how many messages of a logger are told apart, and limitKey
	// by how much of each. Ours are fixed, but libraries put into theirs what they
	// like.
	limitKinds = 1000
	limitKey   = 200
)

// limited is a core that drops lines which are repeated too often. The next one
// of the kind that gets through says how many were dropped. Debug lines are what
// somebody has asked for, and not limited.
type limited struct {
	zapcore.Core
	allowances *allowances
}

func newLimited(c zapcore.Core) limited {
	return limited{c, &allowances{of: make(map[string]*allowance)}}
}

// With returns a core with an allowance of its own.
func (c limited) With(fields []zapcore.Field) zapcore.Core { return newLimited(c.Core.With(fields)) }

// apart returns the same logger with an allowance of its own: for a library, so
// that none of its messages counts as one of ours.
func apart(log *zap.Logger) *zap.Logger {
	return log.WithOptions(zap.WrapCore(func(c zapcore.Core) zapcore.Core { return c.With(nil) }))
}

func (c limited) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return ce.AddCore(e, c)
	}
	return ce
}

func (c limited) Write(e zapcore.Entry, fields []zapcore.Field) error {
	if e.Level < zapcore.InfoLevel {
		return c.Core.Write(e, fields)
	}
	dropped, ok := c.allowances.take(e.Message, e.Time)
	if !ok {
		return nil
	}
	if dropped > 0 {
		fields = append(fields[:len(fields):len(fields)], zap.Int("dropped", dropped))
	}
	return c.Core.Write(e, fields)
}

// allowances are a logger's, by message.
type allowances struct {
	mu sync.Mutex
	of map[string]*allowance
}

// allowance is a token bucket.
type allowance struct {
	left    int
	since   time.Time // when left was that
	dropped int
}

// take tells whether a line may be written and, if it may, how many of its kind
// have been dropped since the last one.
func (a *allowances) take(message string, now time.Time) (dropped int, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	message = message[:min(len(message), limitKey)]
	one := a.of[message]
	if one == nil && len(a.of) >= limitKinds {
		message = ""
		one = a.of[message]
	}
	if one == nil {
		one = &allowance{left: limitBurst, since: now}
		a.of[strings.Clone(message)] = one // not the rest of it
	}
	if n := int(now.Sub(one.since) / limitEvery); n > 0 {
		one.left = min(limitBurst, one.left+n)
		one.since = one.since.Add(time.Duration(n) * limitEvery)
	}
	if one.left == 0 {
		one.dropped++
		return 0, false
	}
	one.left--
	dropped, one.dropped = one.dropped, 0
	return dropped, true
}

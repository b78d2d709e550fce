package server

import (
	"flag"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/zapr"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"golang.org/x/time/rate"
	"k8s.io/klog/v2"
)

// logLevel is how much is logged, by the gateway and by client-go.
type logLevel struct {
	zap  zapcore.Level
	klog int // client-go's own scale, klog's -v
}

// logLevelNames lists the levels for help and errors.
const logLevelNames = "panic, fatal, error, warn, info, debug or trace"

// findLevel returns the level of a name, in upper or lower case. It is not ok
// unless the name is one of logLevelNames or "warning".
func findLevel(name string) (l logLevel, ok bool) {
	l, ok = logLevels[strings.ToLower(name)]
	return l, ok
}

// logLevels are the levels by name. From 8 on client-go logs headers of answers, in which an API server may send back a
// token.
var logLevels = map[string]logLevel{
	"panic":   {zapcore.PanicLevel, 0},
	"fatal":   {zapcore.FatalLevel, 0},
	"error":   {zapcore.ErrorLevel, 0},
	"warn":    {zapcore.WarnLevel, 0},
	"warning": {zapcore.WarnLevel, 0},
	"info":    {zapcore.InfoLevel, 2},
	"debug":   {zapcore.DebugLevel, 6},
	"trace":   {zapcore.DebugLevel, 7},
}

// newLogger returns a logger that writes lines to w: as JSON if that is the format, or
// else as text for people.
func newLogger(l logLevel, format string, w io.Writer) *zap.Logger {
	cfg := zap.NewProductionEncoderConfig()
	cfg.EncodeTime = zapcore.RFC3339NanoTimeEncoder
	cfg.EncodeDuration = zapcore.StringDurationEncoder
	encoder := zapcore.NewJSONEncoder(cfg)
	if format != "json" {
		cfg.EncodeTime = zapcore.ISO8601TimeEncoder
		cfg.EncodeLevel = zapcore.CapitalLevelEncoder
		encoder = zapcore.NewConsoleEncoder(cfg)
	}
	return zap.New(limited(zapcore.NewCore(encoder, zapcore.Lock(zapcore.AddSync(w)), l.zap)))
}

const (
	// logBurst is how many lines with one message a logger writes at once. After
	// those it writes one each refillEvery.
	logBurst    = 100
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

// limited returns c with a limit. newLogger does this for
// the loggers it makes.
func limited(c zapcore.Core) zapcore.Core {
	return limitCore{c, &buckets{byMessage: make(map[string]*bucket)}}
}

// withOwnLimit returns the same logger with a limit of its own: for a library, so
// that its messages do not use up the limit of equal ones of the gateway's.
func withOwnLimit(log *zap.Logger) *zap.Logger {
	return log.WithOptions(zap.WrapCore(func(c zapcore.Core) zapcore.Core { return c.With(nil) }))
}

// With returns a core with a limit of its own.
func (c limitCore) With(fields []zapcore.Field) zapcore.Core { return limited(c.Core.With(fields)) }

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
		one = &bucket{Limiter: rate.NewLimiter(rate.Every(refillEvery), logBurst)}
		b.byMessage[strings.Clone(message)] = one // a clone: the key must not keep the whole message alive
	}
	if !one.AllowN(now, 1) {
		one.dropped++
		return 0, false
	}
	dropped = one.dropped
	one.dropped = 0
	return dropped, true
}

// perName keeps a logger with a limit of its own for each name, such as a cluster's, so
// that one that floods the log silences no other. It is safe for concurrent use.
type perName struct {
	log *zap.Logger

	mu     sync.Mutex
	byName map[string]*zap.Logger
}

// maxNames bounds perName. It is far above what a gateway links.
const maxNames = 1000

// newPerName returns loggers like log.
func newPerName(log *zap.Logger) *perName {
	return &perName{log: log, byName: make(map[string]*zap.Logger)}
}

// logger returns the logger of a name: the same one each time, unless there have been
// more than a thousand names in between.
func (p *perName) logger(name string) *zap.Logger {
	p.mu.Lock()
	defer p.mu.Unlock()
	log := p.byName[name]
	if log == nil {
		if len(p.byName) == maxNames {
			clear(p.byName) // most of them are no longer there
		}
		log = withOwnLimit(p.log)
		p.byName[name] = log
	}
	return log
}

// bridgeKlog sends what client-go logs to log, as much of it as the level lets
// through. klog's logger belongs to the process: call it once, before the first
// client is made.
func bridgeKlog(log *zap.Logger, l logLevel) error {
	set := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(set)
	if err := set.Set("v", strconv.Itoa(l.klog)); err != nil {
		return fmt.Errorf("set the verbosity of client-go's log to %d: %w", l.klog, err)
	}
	klog.SetLogger(zapr.NewLogger(forKlog(withOwnLimit(log), l.klog)))
	return nil
}

// forKlog returns a logger whose levels below info are klog's: -n is V(n).
func forKlog(log *zap.Logger, v int) *zap.Logger {
	return log.Named("client-go").WithOptions(zap.WrapCore(func(c zapcore.Core) zapcore.Core {
		return klogCore{c, zapcore.Level(-v)}
	}))
}

// klogCore logs all of klog's levels down to deepest as debug. Without it zap,
// which has no level below debug, would cut at V(1). Bodies of requests and
// responses, which client-go logs from V(8) on, are dropped: link Secrets are
// among them.
type klogCore struct {
	zapcore.Core
	deepest zapcore.Level
}

func (c klogCore) Enabled(l zapcore.Level) bool {
	if l < zapcore.InfoLevel {
		return l >= c.deepest && c.Core.Enabled(zapcore.DebugLevel)
	}
	return c.Core.Enabled(l)
}

func (c klogCore) With(fields []zapcore.Field) zapcore.Core {
	return klogCore{c.Core.With(fields), c.deepest}
}

func (c klogCore) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if strings.HasPrefix(e.Message, "Trace[") && !c.Core.Enabled(zapcore.DebugLevel) {
		return ce // client-go logs how long a list took as info
	}
	if !c.Enabled(e.Level) || e.Message == "Request Body" || e.Message == "Response Body" {
		return ce
	}
	return ce.AddCore(e, c)
}

// Write joins the lines of client-go's traces into one.
func (c klogCore) Write(e zapcore.Entry, fields []zapcore.Field) error {
	e.Level = max(e.Level, zapcore.DebugLevel)
	e.Message = strings.ReplaceAll(strings.TrimSpace(e.Message), "\n", "; ")
	return c.Core.Write(e, fields)
}

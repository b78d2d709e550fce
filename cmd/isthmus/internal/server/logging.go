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

// logLevel is the verbosity of the log, for Isthmus and for client-go.
type logLevel struct {
	zap  zapcore.Level
	klog int // value of klog's flag -v
}

// logLevelNames lists the levels for help and error messages.
const logLevelNames = "panic, fatal, error, warn, info, debug or trace"

// findLevel returns the level with a name, ignoring case. If the name is neither in logLevelNames
// nor "warning", ok is false.
func findLevel(name string) (l logLevel, ok bool) {
	l, ok = logLevels[strings.ToLower(name)]
	return l, ok
}

// logLevels maps names to levels. No level sets klog to 8 or more, since client-go would then log
// response headers, in which an API server may return a token.
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

// newLogger returns a logger that writes to w. If the format is "json", the lines are JSON.
// Otherwise they are text for people.
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
	// logBurst is the number of lines with the same message that a logger writes at once.
	// Afterwards it writes one line every refillEvery.
	logBurst    = 100
	refillEvery = time.Second

	// maxMessages limits the number of messages of a logger that have their own limit.
	// maxMessageKey is the number of bytes by which messages are distinguished. Isthmus's own
	// messages are constant, but messages of libraries contain data from clients.
	maxMessages   = 1000
	maxMessageKey = 200
)

// limitCore is a core that drops lines that are repeated too often. The next line with the same
// message carries the number of dropped lines. limitCore does not limit debug lines, since
// --log-level requests them.
type limitCore struct {
	zapcore.Core
	buckets *buckets
}

// limited returns c with a limit. newLogger adds a limit to every logger.
func limited(c zapcore.Core) zapcore.Core {
	return limitCore{c, &buckets{byMessage: make(map[string]*bucket)}}
}

// withOwnLimit returns a logger like log that has its own limit. A library gets one, so that its
// messages do not use up the limit of Isthmus's messages.
func withOwnLimit(log *zap.Logger) *zap.Logger {
	return log.WithOptions(zap.WrapCore(func(c zapcore.Core) zapcore.Core { return c.With(nil) }))
}

// With returns a core with its own limit.
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

// buckets are the token buckets of a logger, one for each message.
type buckets struct {
	mu        sync.Mutex
	byMessage map[string]*bucket
}

type bucket struct {
	*rate.Limiter
	dropped int
}

// take takes a token for a line with this message. If there is a token, ok is true and dropped is
// the number of lines that have been dropped since the last written line.
func (b *buckets) take(message string, now time.Time) (dropped int, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	message = message[:min(len(message), maxMessageKey)]
	one := b.byMessage[message]
	if one == nil && len(b.byMessage) >= maxMessages {
		message = "" // all messages above maxMessages share one bucket
		one = b.byMessage[message]
	}
	if one == nil {
		one = &bucket{Limiter: rate.NewLimiter(rate.Every(refillEvery), logBurst)}
		b.byMessage[strings.Clone(message)] = one // cloned, so that the key does not retain the whole message
	}
	if !one.AllowN(now, 1) {
		one.dropped++
		return 0, false
	}
	dropped = one.dropped
	one.dropped = 0
	return dropped, true
}

// perName caches a logger with its own limit for each name, such as a cluster's name. A name that
// floods the log therefore silences no other name. perName is safe for concurrent use.
type perName struct {
	log *zap.Logger

	mu     sync.Mutex
	byName map[string]*zap.Logger
}

// maxNames limits the size of perName. maxNames is far above the number of clusters that a replica
// links.
const maxNames = 1000

// newPerName returns a perName whose loggers are like log.
func newPerName(log *zap.Logger) *perName {
	return &perName{log: log, byName: make(map[string]*zap.Logger)}
}

// logger returns the logger of a name. The cache is cleared when it reaches maxNames names.
func (p *perName) logger(name string) *zap.Logger {
	p.mu.Lock()
	defer p.mu.Unlock()
	log := p.byName[name]
	if log == nil {
		if len(p.byName) == maxNames {
			clear(p.byName) // most of these names no longer exist
		}
		log = withOwnLimit(p.log)
		p.byName[name] = log
	}
	return log
}

// bridgeKlog forwards client-go's log to log, filtered by the level. Call it once, before the first
// client is created, because klog's logger is global to the process.
func bridgeKlog(log *zap.Logger, l logLevel) error {
	set := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(set)
	if err := set.Set("v", strconv.Itoa(l.klog)); err != nil {
		return fmt.Errorf("set the verbosity of client-go's log to %d: %w", l.klog, err)
	}
	klog.SetLogger(zapr.NewLogger(forKlog(withOwnLimit(log), l.klog)))
	return nil
}

// forKlog returns a logger that accepts klog's levels: zap level -n is V(n).
func forKlog(log *zap.Logger, v int) *zap.Logger {
	return log.Named("client-go").WithOptions(zap.WrapCore(func(c zapcore.Core) zapcore.Core {
		return klogCore{c, zapcore.Level(-v)}
	}))
}

// klogCore logs all of klog's levels down to deepest as debug lines. Without klogCore, zap would
// drop everything beyond V(1), since zap has no level below debug. klogCore drops the bodies of
// requests and responses, which client-go logs from V(8) on, since bodies include link Secrets.
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
		return ce // client-go logs the duration of slow lists at level info
	}
	if !c.Enabled(e.Level) || e.Message == "Request Body" || e.Message == "Response Body" {
		return ce
	}
	return ce.AddCore(e, c)
}

// Write joins the lines of a client-go trace into one line.
func (c klogCore) Write(e zapcore.Entry, fields []zapcore.Field) error {
	e.Level = max(e.Level, zapcore.DebugLevel)
	e.Message = strings.ReplaceAll(strings.TrimSpace(e.Message), "\n", "; ")
	return c.Core.Write(e, fields)
}

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

type logLevel struct {
	zap  zapcore.Level
	klog int // value of klog's flag -v
}

const logLevelNames = "panic, fatal, error, warn, info, debug or trace"

// findLevel returns the log level with the given name, ignoring case. In addition to the names in
// logLevelNames, findLevel accepts "warning". If the name is invalid, ok is false.
func findLevel(name string) (l logLevel, ok bool) {
	l, ok = logLevels[strings.ToLower(name)]
	return l, ok
}

// No entry in logLevels has a klog level above 7, because client-go logs response headers at level
// 8 and above, and headers may contain a token.
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

// newLogger returns a logger that writes JSON if the format is "json", and plain text otherwise.
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
	// A logger writes up to logBurst lines with the same message, and then one line per
	// refillEvery.
	logBurst    = 100
	refillEvery = time.Second

	// maxMessages is the maximum number of distinct messages for which a logger has separate rate
	// limits. Messages whose first maxMessageKey bytes are identical share one rate limit.
	// Together, maxMessages and maxMessageKey bound the memory that a logger uses, even if messages
	// contain data from clients.
	maxMessages   = 1000
	maxMessageKey = 200
)

// limitCore is a zapcore.Core that drops lines whose message is repeated too often. The next line
// with the same message includes the number of dropped lines. limitCore never drops debug lines,
// because the user requests them with --log-level.
type limitCore struct {
	zapcore.Core
	buckets *buckets
}

func limited(c zapcore.Core) zapcore.Core {
	return limitCore{c, &buckets{byMessage: make(map[string]*bucket)}}
}

// withOwnLimit returns a logger that writes to the same output as log but has its own rate limits.
// Libraries use separate loggers, so that their messages do not use up the rate limits of Isthmus's
// messages.
func withOwnLimit(log *zap.Logger) *zap.Logger {
	return log.WithOptions(zap.WrapCore(func(c zapcore.Core) zapcore.Core { return c.With(nil) }))
}

// With implements zapcore.Core. The returned core has its own rate limits.
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

// buckets holds a token bucket for each message of a logger.
type buckets struct {
	mu        sync.Mutex
	byMessage map[string]*bucket
}

type bucket struct {
	*rate.Limiter
	dropped int
}

// take reports whether a line with this message may be written. If ok is true, dropped is the
// number of lines with this message that have been dropped since one was last written.
func (b *buckets) take(message string, now time.Time) (dropped int, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	message = message[:min(len(message), maxMessageKey)]
	one := b.byMessage[message]
	if one == nil && len(b.byMessage) >= maxMessages {
		message = "" // all messages beyond maxMessages share one bucket
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

// perName caches a logger for each name, such as the name of a cluster. The loggers have separate
// rate limits, so that a cluster that floods the log does not suppress messages about other
// clusters. perName is safe for concurrent use.
type perName struct {
	log *zap.Logger

	mu     sync.Mutex
	byName map[string]*zap.Logger
}

// maxNames is the maximum number of loggers that a perName caches. A replica reads from far fewer
// than maxNames clusters.
const maxNames = 1000

func newPerName(log *zap.Logger) *perName {
	return &perName{log: log, byName: make(map[string]*zap.Logger)}
}

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

// bridgeKlog forwards client-go's log messages to the given logger, up to the given level. Because
// klog's logger is global, bridgeKlog must be called once, before the first client is created.
func bridgeKlog(log *zap.Logger, l logLevel) error {
	set := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(set)
	if err := set.Set("v", strconv.Itoa(l.klog)); err != nil {
		return fmt.Errorf("cannot set the verbosity of client-go's log to %d: %w", l.klog, err)
	}
	klog.SetLogger(zapr.NewLogger(forKlog(withOwnLimit(log), l.klog)))
	return nil
}

// forKlog returns a logger for klog messages up to level V(v). The logger represents klog's level
// V(n) as zap's level -n.
func forKlog(log *zap.Logger, v int) *zap.Logger {
	return log.Named("client-go").WithOptions(zap.WrapCore(func(c zapcore.Core) zapcore.Core {
		return klogCore{c, zapcore.Level(-v)}
	}))
}

// klogCore writes klog messages as debug lines, and drops messages that are more detailed than the
// configured level. Without klogCore, zap would drop all messages above V(1), because zap has no
// level below debug. client-go logs the bodies of requests and responses at V(8) and above.
// klogCore drops the bodies, because they may contain link Secrets.
type klogCore struct {
	zapcore.Core
	minLevel zapcore.Level
}

func (c klogCore) Enabled(l zapcore.Level) bool {
	if l < zapcore.InfoLevel {
		return l >= c.minLevel && c.Core.Enabled(zapcore.DebugLevel)
	}
	return c.Core.Enabled(l)
}

func (c klogCore) With(fields []zapcore.Field) zapcore.Core {
	return klogCore{c.Core.With(fields), c.minLevel}
}

func (c klogCore) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if strings.HasPrefix(e.Message, "Trace[") && !c.Core.Enabled(zapcore.DebugLevel) {
		return ce // client-go logs traces of slow lists at level info
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

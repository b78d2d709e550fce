package main

import (
	"flag"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/go-logr/zapr"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"k8s.io/klog/v2"
)

// level says how much is logged: by us, and by client-go, whose own scale is
// klog's -v.
type level struct {
	zap zapcore.Level
	v   int
}

// parseLevel reads --log-level.
func parseLevel(s string) (level, error) {
	switch strings.ToLower(s) {
	case "panic":
		return level{zapcore.PanicLevel, 0}, nil
	case "fatal":
		return level{zapcore.FatalLevel, 0}, nil
	case "error":
		return level{zapcore.ErrorLevel, 0}, nil
	case "warn", "warning":
		return level{zapcore.WarnLevel, 0}, nil
	case "info":
		return level{zapcore.InfoLevel, 2}, nil
	case "debug":
		return level{zapcore.DebugLevel, 6}, nil
	case "trace":
		return level{zapcore.DebugLevel, 10}, nil
	}
	return level{}, usagef("--log-level is %q: give panic, fatal, error, warn, info, debug or trace", s)
}

// newLogger returns a logger that writes lines to w: JSON, or text for people. What
// is repeated too often is dropped, see limited.
func newLogger(l level, format string, w io.Writer) *zap.Logger {
	cfg := zap.NewProductionEncoderConfig()
	cfg.EncodeTime = zapcore.RFC3339NanoTimeEncoder
	cfg.EncodeDuration = zapcore.StringDurationEncoder
	encoder := zapcore.NewJSONEncoder(cfg)
	if format != "json" {
		cfg.EncodeTime = zapcore.ISO8601TimeEncoder
		cfg.EncodeLevel = zapcore.CapitalLevelEncoder
		encoder = zapcore.NewConsoleEncoder(cfg)
	}
	return zap.New(newLimited(zapcore.NewCore(encoder, zapcore.Lock(zapcore.AddSync(w)), l.zap)))
}

// bridgeKlog sends what client-go logs to log, as much as its -v of v lets
// through. klog's logger belongs to the process: call it once, before the first
// client is made.
func bridgeKlog(log *zap.Logger, v int) error {
	set := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(set)
	if err := set.Set("v", strconv.Itoa(v)); err != nil {
		return fmt.Errorf("set the verbosity of client-go's log to %d: %w", v, err)
	}
	klog.SetLogger(zapr.NewLogger(forKlog(apart(log), v)))
	return nil
}

// forKlog returns a logger whose levels below info are klog's: -n is V(n).
func forKlog(log *zap.Logger, v int) *zap.Logger {
	return log.Named("client-go").WithOptions(zap.WrapCore(func(c zapcore.Core) zapcore.Core {
		return klogCore{c, zapcore.Level(-v)}
	}))
}

// klogCore takes everything that klog has levels for as debug, as deep as klog's
// -v lets through. Without it our own level, which knows nothing beyond debug,
// would cut at V(1). Bodies of requests and responses, which client-go logs from
// V(8) on, never get through: link Secrets are among them.
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
		return ce // how long a list took, which it says as info
	}
	if !c.Enabled(e.Level) || e.Message == "Request Body" || e.Message == "Response Body" {
		return ce
	}
	return ce.AddCore(e, c)
}

// Write makes one line of client-go's traces, which are several.
func (c klogCore) Write(e zapcore.Entry, fields []zapcore.Field) error {
	e.Level = max(e.Level, zapcore.DebugLevel)
	e.Message = strings.ReplaceAll(strings.TrimSpace(e.Message), "\n", "; ")
	return c.Core.Write(e, fields)
}

package logging

import (
	"flag"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-logr/zapr"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"k8s.io/klog/v2"
)

// BridgeKlog sends what client-go logs to log, as much of it as the level lets
// through. klog's logger belongs to the process: call it once, before the first
// client is made.
func BridgeKlog(log *zap.Logger, l Level) error {
	set := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(set)
	if err := set.Set("v", strconv.Itoa(l.klog)); err != nil {
		return fmt.Errorf("set the verbosity of client-go's log to %d: %w", l.klog, err)
	}
	klog.SetLogger(zapr.NewLogger(forKlog(WithOwnLimit(log), l.klog)))
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

package logging

import (
	"io"
	"strings"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// Level is how much is logged, by the gateway and by client-go.
type Level struct {
	zap  zapcore.Level
	klog int // client-go's own scale, klog's -v
}

// LevelNames lists the levels for help and errors.
const LevelNames = "panic, fatal, error, warn, info, debug or trace"

// ParseLevel returns the level of a name, in upper or lower case. It is not ok
// unless the name is one of LevelNames or "warning".
func ParseLevel(name string) (l Level, ok bool) {
	l, ok = levels[strings.ToLower(name)]
	return l, ok
}

// levels are the levels by name. From 8 on client-go logs headers of answers, in which an API server may send back a token.
var levels = map[string]Level{
	"panic": {zapcore.PanicLevel, 0}, "fatal": {zapcore.FatalLevel, 0}, "error": {zapcore.ErrorLevel, 0},
	"warn": {zapcore.WarnLevel, 0}, "warning": {zapcore.WarnLevel, 0}, "info": {zapcore.InfoLevel, 2},
	"debug": {zapcore.DebugLevel, 6}, "trace": {zapcore.DebugLevel, 7},
}

// New returns a logger that writes lines to w: as JSON if that is the format, or
// else as text for people.
func New(l Level, format string, w io.Writer) *zap.Logger {
	cfg := zap.NewProductionEncoderConfig()
	cfg.EncodeTime = zapcore.RFC3339NanoTimeEncoder
	cfg.EncodeDuration = zapcore.StringDurationEncoder
	encoder := zapcore.NewJSONEncoder(cfg)
	if format != "json" {
		cfg.EncodeTime = zapcore.ISO8601TimeEncoder
		cfg.EncodeLevel = zapcore.CapitalLevelEncoder
		encoder = zapcore.NewConsoleEncoder(cfg)
	}
	return zap.New(Limit(zapcore.NewCore(encoder, zapcore.Lock(zapcore.AddSync(w)), l.zap)))
}

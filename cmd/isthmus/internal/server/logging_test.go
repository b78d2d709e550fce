package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/zapr"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

// TestLimit checks that a repeated message is written a hundred times and then once a second, with
// the number of dropped lines.
func TestLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, lines := observer.New(zapcore.DebugLevel)
		log := zap.New(limited(core))
		east, north := log.With(zap.String("cluster", "east")), log.With(zap.String("cluster", "north"))
		library := withOwnLimit(log)
		burst := func(what string, want int, write func()) {
			t.Helper()
			for range 1000 {
				write()
			}
			if got := len(lines.TakeAll()); got != want {
				t.Errorf("%s: %d lines of 1000, want %d", what, got, want)
			}
		}
		burst("a stall", logBurst, func() { log.Warn("stalled") })
		burst("another message", logBurst, func() { log.Error("panic") })
		burst("a broken cluster", logBurst, func() { east.Info("lost") })
		burst("another one", logBurst, func() { north.Info("lost") })
		burst("a library with the same message", logBurst, func() { library.Warn("stalled") })
		names := newPerName(log)
		burst("of a name", logBurst, func() { names.logger("a").Warn("stalled") })
		burst("of the same name", 0, func() { names.logger("a").Warn("stalled") })
		burst("debug lines", 1000, func() { log.Debug("get") })
		burst("at once again", 0, func() { log.Warn("stalled") })

		time.Sleep(3 * refillEvery)
		for range 10 {
			log.Warn("stalled", zap.Int("n", 1))
		}
		all := lines.TakeAll()
		if len(all) != 3 {
			t.Fatalf("%d lines after three seconds, want 3", len(all))
		}
		if dropped := all[0].ContextMap()["dropped"]; dropped != int64(1900) {
			t.Errorf("the first line reports %v dropped lines, want 1900", dropped)
		}
		if _, ok := all[1].ContextMap()["dropped"]; ok {
			t.Error("the second line reports dropped lines")
		}
		time.Sleep(time.Hour)
		burst("after an hour", logBurst, func() { log.Warn("stalled") })
	})
}

// TestLimitIsBounded checks that messages beyond maxMessages share one limit.
func TestLimitIsBounded(t *testing.T) {
	core, lines := observer.New(zapcore.InfoLevel)
	c := limited(core).(limitCore)
	log := zap.New(c)
	for i := range 10 * maxMessages {
		log.Info(fmt.Sprint("from 10.0.0.1:", i))
	}
	if n := len(c.buckets.byMessage); n != maxMessages+1 {
		t.Errorf("%d messages have their own limit", n)
	}
	if n := lines.Len(); n < maxMessages+logBurst || n > maxMessages+2*logBurst {
		t.Errorf("%d lines", n)
	}
	c = limited(core).(limitCore)
	zap.New(c).Info(strings.Repeat("x", 1<<20))
	for m := range c.buckets.byMessage {
		if len(m) > maxMessageKey {
			t.Errorf("a key has %d bytes", len(m))
		}
	}
}

func TestLevels(t *testing.T) {
	for _, c := range []struct {
		level string
		lines string // the written lines, one letter per level
		klog  int    // client-go's verbosity
	}{
		{"panic", "", 0}, {"fatal", "", 0}, {"error", "E", 0}, {"warn", "WE", 0}, {"warning", "WE", 0},
		{"info", "IWE", 2}, {"INFO", "IWE", 2}, {"debug", "DIWE", 6}, {"trace", "DIWE", 7},
	} {
		l, ok := findLevel(c.level)
		if !ok {
			t.Fatalf("%s is not a level", c.level)
		}
		var b bytes.Buffer
		log := newLogger(l, "plain", &b)
		log.Debug("D")
		log.Info("I")
		log.Warn("W")
		log.Error("E")
		lines := ""
		for line := range strings.Lines(b.String()) {
			fields := strings.Fields(line)
			lines += fields[len(fields)-1]
		}
		if lines != c.lines || l.klog != c.klog {
			t.Errorf("%s: lines %q and -v=%d, want %q and %d", c.level, lines, l.klog, c.lines, c.klog)
		}
	}
}

func TestJSONLog(t *testing.T) {
	var b bytes.Buffer
	newLogger(logLevel{zap.InfoLevel, 0}, "json", &b).Info("hello", zap.String("cluster", "east"))
	var got map[string]any
	if err := json.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if got["msg"] != "hello" || got["level"] != "info" || got["cluster"] != "east" || got["ts"] == nil {
		t.Errorf("%v", got)
	}
}

// TestKlog checks that lines of klog's levels are logged as debug, down to its -v.
func TestKlog(t *testing.T) {
	for _, c := range []struct {
		level logLevel
		want  string
	}{
		{logLevel{zap.ErrorLevel, 0}, "ERROR broken"},
		{logLevel{zap.InfoLevel, 2}, "INFO zero;,ERROR broken"},
		{logLevel{zap.DebugLevel, 2}, "INFO zero;,DEBUG two,ERROR broken"},
		{logLevel{zap.DebugLevel, 10}, "INFO zero;,DEBUG two,DEBUG ten,ERROR broken"},
	} {
		var b bytes.Buffer
		log := zapr.NewLogger(forKlog(newLogger(c.level, "plain", &b), c.level.klog)).WithValues("k", "v")
		log.Info("zero\nlines\n")
		log.V(2).Info("two")
		log.V(10).Info("ten")
		log.V(11).Info("eleven")
		log.V(8).Info("Response Body", "body", "secret")
		log.V(8).Info("Request Body", "body", "secret")
		log.Error(errors.New("why"), "broken")
		var got []string
		for line := range strings.Lines(b.String()) {
			fields := strings.Fields(line)
			if fields[2] != "client-go" || !strings.Contains(line, `"k": "v"`) {
				t.Errorf("the logger's name or a field is missing: %s", line)
			}
			got = append(got, fields[1]+" "+fields[3])
		}
		if strings.Join(got, ",") != c.want {
			t.Errorf("%v: %q, want %q", c.level, got, c.want)
		}
	}
}

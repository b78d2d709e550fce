package logging

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

// TestLimit: a message that is logged again and again is written a hundred times
// and then once a second, with the number of lines dropped.
func TestLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, lines := observer.New(zapcore.DebugLevel)
		log := zap.New(Limit(core))
		east, north := log.With(zap.String("cluster", "east")), log.With(zap.String("cluster", "north"))
		library := WithOwnLimit(log)
		burst := func(what string, want int, write func()) {
			t.Helper()
			for range 1000 {
				write()
			}
			if got := len(lines.TakeAll()); got != want {
				t.Errorf("%s: %d lines of 1000, want %d", what, got, want)
			}
		}
		burst("a stall", Burst, func() { log.Warn("stalled") })
		burst("another message", Burst, func() { log.Error("panic") })
		burst("a broken cluster", Burst, func() { east.Info("lost") })
		burst("another one", Burst, func() { north.Info("lost") })
		burst("a library with the same message", Burst, func() { library.Warn("stalled") })
		names := NewPerName(log)
		burst("of a name", Burst, func() { names.Logger("a").Warn("stalled") })
		burst("of the same name", 0, func() { names.Logger("a").Warn("stalled") })
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
			t.Errorf("the first line has %v lines dropped, want 1900", dropped)
		}
		if _, ok := all[1].ContextMap()["dropped"]; ok {
			t.Error("the second line has lines dropped")
		}
		time.Sleep(time.Hour)
		burst("after an hour", Burst, func() { log.Warn("stalled") })
	})
}

// TestLimitIsBounded: messages beyond the bound share one limit.
func TestLimitIsBounded(t *testing.T) {
	core, lines := observer.New(zapcore.InfoLevel)
	c := Limit(core).(limitCore)
	log := zap.New(c)
	for i := range 10 * maxMessages {
		log.Info(fmt.Sprint("from 10.0.0.1:", i))
	}
	if n := len(c.buckets.byMessage); n != maxMessages+1 {
		t.Errorf("%d messages have a limit of their own", n)
	}
	if n := lines.Len(); n < maxMessages+Burst || n > maxMessages+2*Burst {
		t.Errorf("%d lines", n)
	}
	c = Limit(core).(limitCore)
	zap.New(c).Info(strings.Repeat("x", 1<<20))
	for m := range c.buckets.byMessage {
		if len(m) > maxMessageKey {
			t.Errorf("a key of %d bytes", len(m))
		}
	}
}

package main

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

// TestLimit: who makes the gateway say the same again and again gets a hundred
// lines and then one a second, which says how many it stands for.
func TestLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, lines := observer.New(zapcore.DebugLevel)
		log := zap.New(newLimited(core))
		east, north := log.With(zap.String("cluster", "east")), log.With(zap.String("cluster", "north"))
		library := apart(log)
		burst := func(what string, want int, write func()) {
			t.Helper()
			for range 1000 {
				write()
			}
			if got := len(lines.TakeAll()); got != want {
				t.Errorf("%s: %d lines of 1000, want %d", what, got, want)
			}
		}
		burst("a stall", limitBurst, func() { log.Warn("stalled") })
		burst("another message", limitBurst, func() { log.Error("panic") })
		burst("a broken cluster", limitBurst, func() { east.Info("lost") })
		burst("another one", limitBurst, func() { north.Info("lost") })
		burst("a library that says the same", limitBurst, func() { library.Warn("stalled") })
		burst("debug lines, which were asked for", 1000, func() { log.Debug("get") })
		burst("at once again", 0, func() { log.Warn("stalled") })

		time.Sleep(3 * limitEvery)
		for range 10 {
			log.Warn("stalled", zap.Int("n", 1))
		}
		all := lines.TakeAll()
		if len(all) != 3 {
			t.Fatalf("%d lines after three seconds, want 3", len(all))
		}
		if dropped := all[0].ContextMap()["dropped"]; dropped != int64(1900) {
			t.Errorf("the first line says that %v were dropped, want 1900", dropped)
		}
		if _, ok := all[1].ContextMap()["dropped"]; ok {
			t.Error("the second line says it again")
		}
		time.Sleep(time.Hour)
		burst("after an hour", limitBurst, func() { log.Warn("stalled") })
	})
}

// TestLimitIsBounded: messages that somebody makes up share one allowance once
// there are too many.
func TestLimitIsBounded(t *testing.T) {
	core, lines := observer.New(zapcore.InfoLevel)
	c := newLimited(core)
	log := zap.New(c)
	for i := range 10 * limitKinds {
		log.Info(fmt.Sprint("from 10.0.0.1:", i))
	}
	if n := len(c.allowances.of); n != limitKinds+1 {
		t.Errorf("%d messages are told apart", n)
	}
	if n := lines.Len(); n < limitKinds+limitBurst || n > limitKinds+2*limitBurst {
		t.Errorf("%d lines", n)
	}
	c = newLimited(core)
	zap.New(c).Info(strings.Repeat("x", 1<<20))
	for m := range c.allowances.of {
		if len(m) > limitKey {
			t.Errorf("%d bytes are kept of a message", len(m))
		}
	}
}

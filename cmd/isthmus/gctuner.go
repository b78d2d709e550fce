package main

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
	"time"
)

// How much garbage there may be: garbage bytes, but mostGCPercent of what is in use at most; where
// more than much is in use garbageOfMuch or, if that is more, percentOfMuch. The heap of an idle
// gateway is small, so that with Go's default of 100 it would collect again and again while
// thousands of proxies connect; and of a large heap the same percentage is memory that the gateway
// could do without. Until the gateway is ready no proxy waits for the collector, and what is in
// use grows faster than GOGC follows: then it is garbageAtStart or, if that is more, percentAtStart.
const (
	mostGCPercent  = 200
	garbage        = 96 << 20
	garbageAtStart = 48 << 20
	percentAtStart = 25
	garbageOfMuch  = 64 << 20
	percentOfMuch  = 15
	much           = 320 << 20
)

// gcTunePace is how often GOGC follows what is in use. What comes all at once, as proxies
// do when another replica ends, is mostly over before it is lowered. Where more than large is
// in use that would be too much, and GOGC follows at once.
const (
	gcTunePace     = 500 * time.Millisecond
	gcTunePaceFast = 50 * time.Millisecond
	large          = 2 * garbage
)

// gcTuner sets GOGC by what is in use, unless the environment has one.
type gcTuner struct {
	ready   *atomic.Bool // the gateway is; fixed
	percent int          // the newest that was set
	inUse   []metrics.Sample
}

func newGCTuner(ready *atomic.Bool) *gcTuner {
	c := &gcTuner{ready: ready, percent: mostGCPercent}
	// What GOGC is a percentage of.
	for _, name := range []string{"/gc/heap/live:bytes", "/gc/scan/stack:bytes", "/gc/scan/globals:bytes"} {
		c.inUse = append(c.inUse, metrics.Sample{Name: name})
	}
	return c
}

// run adjusts until ctx ends.
func (c *gcTuner) run(ctx context.Context) error {
	if os.Getenv("GOGC") != "" {
		<-ctx.Done()
		return nil
	}
	debug.SetGCPercent(c.percent)
	next := time.NewTimer(gcTunePace)
	defer next.Stop()
	for {
		select {
		case <-next.C:
			next.Reset(c.adjust())
		case <-ctx.Done():
			return nil
		}
	}
}

// adjust sets GOGC by what the last collection has found in use. It leaves small differences
// alone, since setting it stops all goroutines for a moment. It returns after how long it is to
// be called next.
func (c *gcTuner) adjust() time.Duration {
	metrics.Read(c.inUse)
	var inUse uint64
	for _, s := range c.inUse {
		inUse += s.Value.Uint64()
	}
	percent := gcPercentOf(inUse, mostGarbage(inUse, c.ready.Load()))
	if d := percent - c.percent; 8*max(d, -d) > c.percent {
		c.percent = percent
		debug.SetGCPercent(percent)
	}
	if inUse > large {
		return gcTunePaceFast
	}
	return gcTunePace
}

// mostGarbage returns how many bytes of garbage there may be with so many in use.
func mostGarbage(inUse uint64, ready bool) uint64 {
	switch {
	case !ready:
		return max(garbageAtStart, inUse*percentAtStart/100)
	case inUse > much:
		return max(garbageOfMuch, inUse*percentOfMuch/100)
	}
	return garbage
}

// gcPercentOf returns GOGC for so many bytes in use, and so many of garbage at most.
func gcPercentOf(inUse, most uint64) int {
	return int(min(mostGCPercent, (100*most+inUse/2)/max(inUse, 1)))
}

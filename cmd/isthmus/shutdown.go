package main

import (
	"context"
	"time"

	"go.uber.org/zap"
)

const (
	// drainSlack is what streams may take to end beyond their spread.
	drainSlack = 2 * time.Second
	// stopLimit is what other calls, connections and the admin server's
	// requests may take to end once all streams have.
	stopLimit = 2 * time.Second
)

// ending is how a gateway that serves stops serving.
type ending struct {
	streams  func() int            // how many are open
	leave    func()                // says in health checks that this server goes away
	drain    func(context.Context) // ends them all; gives up when the context ends
	graceful func()                // stops the server once nothing is under way
	abort    func()                // stops it now, also a graceful that is waiting
	pause    time.Duration         // before drain
	spread   time.Duration         // over which drain ends the streams
	log      *zap.Logger
}

// run pauses so that no new streams come, ends the open ones, and stops the
// server. Without open streams it only stops the server. Each part
// has its limit, so that it ends whatever clients do.
func (e *ending) run() {
	e.leave()
	if n := e.streams(); n > 0 {
		e.log.Info("shutdown: waiting for clients to go elsewhere", zap.Int("streams", n), zap.Duration("for", e.pause))
		time.Sleep(e.pause)
		e.log.Info("shutdown: ending streams", zap.Int("streams", e.streams()), zap.Duration("within", e.spread))
	}
	ctx, cancel := context.WithTimeout(context.Background(), e.spread+drainSlack)
	defer cancel()
	e.drain(ctx)
	if n := e.streams(); n > 0 {
		e.log.Warn("shutdown: streams did not end in time", zap.Int("streams", n))
	}
	late := time.AfterFunc(stopLimit, e.abort)
	defer late.Stop()
	e.graceful()
}

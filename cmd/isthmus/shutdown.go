package main

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"
)

// What comes after the last stream is over within a second, since the default
// flags leave no more of Kubernetes' default grace of 30 s.
const (
	// stopLimit is what streams, other calls and connections may take to end
	// once the listener is closed.
	stopLimit = 300 * time.Millisecond
	// lastLimit is what requests to the admin server, and spans that are left,
	// may take after that.
	lastLimit = 500 * time.Millisecond
	// calm is how long there must be no stream until all proxies count as gone.
	// A proxy tries again 0.1 s after its stream was ended.
	calm = time.Second
)

// ending is how a gateway that serves stops serving.
type ending struct {
	streams  func() int                                // how many are open
	leave    func()                                    // says in health checks that this server goes away
	drain    func(context.Context)                     // ends those that are open, spread over a time
	deserted func(context.Context, time.Duration) bool // waits until none has been open for that long
	finish   func()                                    // ends all, and those that still come
	graceful func()                                    // closes the listener, then waits until nothing is under way
	abort    func()                                    // stops the server now, also a graceful that is waiting
	pause    time.Duration                             // before drain
	spread   time.Duration                             // over which drain ends the streams
	log      *zap.Logger
}

// run sends proxies elsewhere while it serves, and then stops the server, which
// listens by the door. Without open streams it only stops the server. Each part has
// its limit, so that it ends whatever clients do.
func (e *ending) run(d *door) {
	e.leave()
	if n := e.streams(); n > 0 {
		e.log.Info("shutdown: waiting for clients to go elsewhere", zap.Int("streams", n), zap.Duration("for", e.pause))
		e.move()
		e.log.Info("shutdown: serving ends", zap.Int("streams", e.streams()))
	}
	e.stop(d)
}

// move pauses, so that proxies learn of other replicas, and then ends the open
// streams, unless that is to be done all at once: then stop does it. It returns
// when its time is over, or all proxies have gone.
func (e *ending) move() {
	ctx, cancel := context.WithTimeout(context.Background(), e.pause+e.spread)
	var moving sync.WaitGroup
	if e.spread > 0 {
		moving.Go(func() {
			select {
			case <-ctx.Done():
			case <-time.After(e.pause):
				e.log.Info("shutdown: ending streams", zap.Int("streams", e.streams()), zap.Duration("within", e.spread))
				e.drain(ctx)
			}
		})
	}
	if e.deserted(ctx, calm) {
		e.log.Info("shutdown: all clients have gone elsewhere")
	}
	cancel()
	moving.Wait()
}

// stop closes the listener, and only then ends the streams that are left: who
// tries again at once must not get in again.
func (e *ending) stop(d *door) {
	late := time.AfterFunc(stopLimit, func() {
		d.cut() // or abort would wait for those that have connected and said nothing
		e.abort()
	})
	defer late.Stop()
	var stopping sync.WaitGroup
	stopping.Go(e.graceful)
	<-d.closed
	e.finish()
	stopping.Wait()
}

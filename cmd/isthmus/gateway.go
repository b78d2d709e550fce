package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc"
)

// gatewayVerb runs the gateway until it fails or p has a signal. A second
// signal makes it return at once, with everything still running.
func gatewayVerb(ctx context.Context, p process, args []string) error {
	o, err := parseGateway(p, args)
	if o == nil {
		return err
	}
	l, err := parseLevel(o.logLevel)
	if err != nil {
		return err
	}
	log := newLogger(l, o.logFormat, p.stderr)
	if err := bridgeKlog(log, l.v); err != nil {
		return err
	}
	tuneMemory()
	g, err := newGateway(o, log)
	if err != nil {
		return err
	}
	ctx, end := context.WithCancel(ctx)
	defer end()
	done := make(chan error, 1)
	go func() { done <- g.run(ctx) }()
	for {
		select {
		case err := <-done:
			return err
		case s := <-p.signals:
			if ctx.Err() != nil {
				return fmt.Errorf("%w: ended at once", errSecondSignal)
			}
			log.Info("shutdown: begins", zap.Stringer("signal", s))
			end()
		}
	}
}

var errSecondSignal = errors.New("a second signal")

// gateway is the parts of a gateway process, ready to run.
type gateway struct {
	addr, metricsAddr string
	followers         []follower
	firstToEnd        []follower // what ends as soon as shutdown begins; nobody waits for what they know
	admin             *admin
	ready             *atomic.Bool // what the admin server says
	server            *grpc.Server
	traces            *tracing // nil: none
	ending            *ending
	log               *zap.Logger
}

// follower is a part that follows clusters.
type follower struct {
	name  string
	run   func(context.Context) error // blocks until the context ends
	known <-chan struct{}             // closed once it knows enough to serve
}

// run serves until ctx ends, which is no error, or until a part fails. Admin
// comes first and goes last; proxies are served while the followers know what
// to say; clusters are let go after the last stream has ended.
func (g *gateway) run(ctx context.Context) error {
	l, err := net.Listen("tcp", g.metricsAddr)
	if err != nil {
		return fmt.Errorf("--metrics-addr: %w", err)
	}
	if err := vacant(g.addr); err != nil {
		return errors.Join(fmt.Errorf("--addr: %w", err), l.Close())
	}
	g.log.Info("admin server listens", zap.Stringer("addr", l.Addr()))
	life, fail := context.WithCancelCause(ctx)
	defer fail(nil)

	outlive := context.WithoutCancel(ctx)
	var first, clusters, last sync.WaitGroup
	defer start(life, &first, fail, g.firstToEnd...)()
	letGo := start(outlive, &clusters, fail, g.followers...)
	parts := []follower{{name: "admin server", run: func(ctx context.Context) error { return g.admin.serve(ctx, l) }}}
	if g.traces != nil {
		parts = append(parts, follower{name: "traces", run: g.traces.run})
	}
	closeLast := start(outlive, &last, fail, parts...)
	g.serve(life, fail)
	first.Wait()
	letGo()
	clusters.Wait()
	closeLast()
	last.Wait()
	if cause := context.Cause(life); cause != context.Canceled { // what a part failed with, not the end of ctx
		return cause
	}
	g.log.Info("shutdown: done")
	return nil
}

// start runs parts until the function it returns is called; done counts them. A
// part that ends before that has failed.
func start(ctx context.Context, done *sync.WaitGroup, fail context.CancelCauseFunc, parts ...follower) context.CancelFunc {
	ctx, cancel := context.WithCancel(ctx)
	for _, p := range parts {
		done.Go(func() {
			err := p.run(ctx)
			switch {
			case ctx.Err() != nil:
			case err != nil:
				fail(fmt.Errorf("%s: %w", p.name, err))
			default:
				fail(fmt.Errorf("%s has ended by itself", p.name))
			}
		})
	}
	return cancel
}

// serve waits until the followers know enough, serves until life ends, and
// returns when it has stopped serving.
func (g *gateway) serve(life context.Context, fail context.CancelCauseFunc) {
	began := time.Now()
	for _, f := range g.followers {
		select {
		case <-f.known:
		case <-life.Done():
			return
		}
	}
	returnMemory()
	l, err := net.Listen("tcp", g.addr)
	if err != nil {
		fail(fmt.Errorf("--addr: %w", err))
		return
	}
	door := newDoor(l)
	var served sync.WaitGroup
	served.Go(func() {
		if err := g.server.Serve(door); err != nil {
			fail(fmt.Errorf("gRPC server at %s: %w", l.Addr(), err))
		}
	})
	g.ready.Store(true)
	g.log.Info("ready", zap.Stringer("addr", l.Addr()), zap.Duration("after", time.Since(began)))
	<-life.Done()
	g.ready.Store(false)
	g.ending.run(door)
	served.Wait()
}

// vacant tells whether an address can be listened on, now. See doc.go for why
// it is not kept open.
func vacant(addr string) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	return l.Close()
}

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc"

	"isthmus/cmd/isthmus/internal/cli"
	"isthmus/cmd/isthmus/internal/logging"
)

// runGateway runs the gateway until it fails or the process gets a signal. After a
// second signal it returns at once, with everything still running.
func runGateway(ctx context.Context, p cli.Process, o *options) error {
	if done, err := o.accept(p); done || err != nil {
		return err
	}
	log := logging.New(o.level, o.logFormat, p.Stderr)
	if err := logging.BridgeKlog(log, o.level); err != nil {
		return err
	}
	built := ownBuild()
	log.Info("gateway starts", zap.String("version", built.Version), zap.String("commit", built.Commit), zap.String("go", built.Go))
	limitMemory(log)
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
		case s := <-p.Signals:
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
	clusters          []part // served from; proxies are served once all are synced
	alongside         []part // these run for as long as the clusters do
	endFirst          []part // these end as soon as shutdown begins
	admin             *admin
	ready             *atomic.Bool // what the admin server reports
	server            *grpc.Server
	traces            *tracing // nil: none
	shutdown          *shutdown
	log               *zap.Logger
}

// part is something that a gateway runs.
type part struct {
	name   string
	run    func(context.Context) error // blocks until the context ends
	synced <-chan struct{}             // of clusters only: closed once they can be served from
}

// run serves until ctx ends, which is no error, or until a part fails. The admin
// server starts first and ends last; the clusters end after the last stream.
func (g *gateway) run(ctx context.Context) error {
	l, err := net.Listen("tcp", g.metricsAddr)
	if err != nil {
		return fmt.Errorf("--metrics-addr: %w", err)
	}
	if err := checkListen(g.addr); err != nil {
		return errors.Join(fmt.Errorf("--addr: %w", err), l.Close())
	}
	g.log.Info("admin server listens", zap.Stringer("addr", l.Addr()))
	serving, fail := context.WithCancelCause(ctx)
	defer fail(nil)

	outlive := context.WithoutCancel(ctx)
	var first, clusters, last sync.WaitGroup
	defer start(serving, &first, fail, g.endFirst...)()
	endClusters := start(outlive, &clusters, fail, slices.Concat(g.clusters, g.alongside)...)
	endLast := start(outlive, &last, fail, g.lastParts(l)...)
	g.serve(serving, fail)
	first.Wait()
	endClusters()
	clusters.Wait()
	endLast()
	last.Wait()
	if cause := context.Cause(serving); cause != context.Canceled { // a part has failed
		return cause
	}
	g.log.Info("shutdown: done")
	return nil
}

// lastParts returns the parts that end last: the admin server, which listens on l, what
// sets GOGC, and traces, so that the last spans are sent.
func (g *gateway) lastParts(l net.Listener) []part {
	parts := []part{
		{name: "admin server", run: func(ctx context.Context) error { return g.admin.serve(ctx, l) }},
		{name: "garbage collector", run: func(ctx context.Context) error { return runGCTuner(ctx, g.ready) }},
	}
	if g.traces != nil {
		parts = append(parts, part{name: "traces", run: g.traces.run})
	}
	return parts
}

// start runs parts until the function it returns is called; done counts them. It
// reports a part that ends before that as failed.
func start(ctx context.Context, done *sync.WaitGroup, fail context.CancelCauseFunc, parts ...part) context.CancelFunc {
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

// serve waits until the clusters are synced, serves until ctx ends, and returns
// when it has stopped serving.
//
// It listens on the gRPC address only once the gateway is ready: a client is then
// refused at once and asks another replica, instead of waiting in the backlog of a
// server that does not answer yet.
func (g *gateway) serve(ctx context.Context, fail context.CancelCauseFunc) {
	began := time.Now()
	for _, c := range g.clusters {
		select {
		case <-c.synced:
		case <-ctx.Done():
			return
		}
	}
	returnMemory()
	l, err := net.Listen("tcp", g.addr)
	if err != nil {
		fail(fmt.Errorf("--addr: %w", err))
		return
	}
	tracking := newTrackingListener(l)
	var served sync.WaitGroup
	served.Go(func() {
		if err := g.server.Serve(tracking); err != nil {
			fail(fmt.Errorf("gRPC server at %s: %w", l.Addr(), err))
		}
	})
	g.ready.Store(true)
	g.log.Info("ready", zap.Stringer("addr", l.Addr()), zap.Duration("after", time.Since(began)))
	<-ctx.Done()
	g.ready.Store(false)
	g.shutdown.run(tracking)
	served.Wait()
}

// checkListen finds out whether the gateway can listen on an address, so that a
// typing error shows at once, and not after the clusters are synced. It does not
// keep the address open: see serve.
func checkListen(addr string) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	return l.Close()
}

package server

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
	"k8s.io/client-go/rest"

	"isthmus/clusterstore"
	"isthmus/clusterstore/cluster"
	"isthmus/clusterstore/kube"
	"isthmus/cmd/isthmus/internal/admin"
	"isthmus/cmd/isthmus/internal/cli"
	"isthmus/federation"
	"isthmus/grpcapi"
	"isthmus/internal/adminapi"
	"isthmus/internal/panics"
	"isthmus/local"
)

// run runs a replica until a part fails or the process receives a signal. After a second signal,
// run returns immediately, without stopping the parts of the replica.
func run(ctx context.Context, p cli.Process, o *options) error {
	if done, err := o.accept(p); done || err != nil {
		return err
	}
	log := newLogger(o.level, o.logFormat, p.Stderr)
	if err := bridgeKlog(log, o.level); err != nil {
		return err
	}
	built := p.Build
	log.Info("Isthmus starts",
		zap.String("version", built.Version), zap.String("commit", built.Commit), zap.String("go", built.Go))
	limitMemory(log)
	r, err := newReplica(o, built, log)
	if err != nil {
		return err
	}
	ctx, end := context.WithCancel(ctx)
	defer end()
	done := make(chan error, 1)
	go func() { done <- r.run(ctx) }()
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

type replica struct {
	addr        string // address of the gRPC server
	metricsAddr string // address of the admin server
	clusters    []part // must sync before the replica serves proxies
	alongside   []part // run as long as clusters
	endFirst    []part // stopped as soon as shutdown begins
	admin       *admin.Server
	ready       *atomic.Bool // reported by the admin server
	server      *grpc.Server
	traces      *tracing // nil if traces are off
	shutdown    *shutdown
	log         *zap.Logger
}

// part is a component of a replica. Each part runs in its own goroutine.
type part struct {
	name   string
	run    func(context.Context) error // blocks until the context is done
	synced <-chan struct{}             // closed once the cluster can be served; nil for other parts
}

// newReplica builds all parts of a replica, but neither starts the parts nor uses the network.
func newReplica(o *options, built adminapi.Build, log *zap.Logger) (*replica, error) {
	for _, n := range o.notes {
		log.Log(n.level, n.text)
	}
	cfg, err := restConfig(o.kubeconfig)
	if err != nil {
		return nil, err
	}

	// Create the objects that all parts share: metrics, reports, and the table that merges
	// services.
	registry := newRegistry(built.Version)
	reports := newReports(log)
	supervisor := panics.New(withOwnLimit(log))
	table := newTable(o, reports, supervisor)
	registry.MustRegister(supervisor, federationMetrics(table, o.serviceMetrics), tierMetrics(table))
	metrics, err := cluster.NewMetrics(registry)
	if err != nil {
		return nil, err
	}

	// Create the parts that write to the local cluster.
	sliceWriter, err := newSliceWriter(o, cfg, metrics, registry, log)
	if err != nil {
		return nil, err
	}
	copied, err := newCopies(o, cfg, metrics, log)
	if err != nil {
		return nil, err
	}
	exporter, err := newExporter(o, cfg, metrics)
	if err != nil {
		return nil, err
	}

	// Create the local cluster and the linked clusters, which offer endpoints to the table.
	rules := o.rules(log)
	exported := exporter.storeOptions()
	localCluster, err := local.New(local.Options{
		REST:          cfg,
		TrustDomain:   o.trustDomain,
		ClusterDomain: o.domain,
		Rules:         rules,
		Table:         table,
		Log:           log,
		Metrics:       metrics,
		Preference:    &o.preference,
		Cordon:        o.cordon,
		Region:        o.region,
		Report:        reports.cluster,
		Writer:        sliceWriter.writer(),
		Exports:       exported,
		Supervisor:    supervisor,
	})
	if err != nil {
		return nil, err
	}
	registry.MustRegister(localCluster)
	links, err := newStore(cfg, clusterstore.Options{
		Namespace:    o.namespace,
		Rules:        rules,
		Table:        table,
		Log:          log,
		Registerer:   registry,
		Metrics:      metrics,
		Network:      o.network,
		IPv6:         o.ipv6,
		LocalCluster: localCluster,
		Memory:       clusterCap(usableMemory(), o.clusterMemory),
		WhenLost:     o.whenLost,
		LostAfter:    o.lostAfter,
		Report:       reports.cluster,
		Exports:      exported,
		LocalLink:    localCluster.LocalLink(),
		ReadCopy:     readCopy(o, copied),
		Supervisor:   supervisor,
	})
	if err != nil {
		return nil, err
	}
	copied.SetCaches(links.Caches)
	registry.MustRegister(copied.Missing())
	if err := exporter.begin(links, localCluster.Status, registry, log); err != nil {
		return nil, err
	}

	// Create the gRPC server, which sends endpoints from the table to proxies.
	serving := o.server(log, registry)
	serving.Stalled = reports.stalled
	serving.Supervisor = supervisor
	streams, err := grpcapi.New(table, localCluster, serving)
	if err != nil {
		return nil, err
	}
	traces := newTracing(o.traces, log)
	server := streams.GRPC(traces.options()...)

	// Create the admin server for users and Prometheus.
	asking, err := kube.New(federation.Local, cfg, metrics.Requests())
	if err != nil {
		return nil, fmt.Errorf("client for Linkerd's Links: %w", err)
	}
	ready := new(atomic.Bool)
	sources := admin.Sources{
		Replica:   o.self(built, ready.Load),
		Build:     built,
		Domain:    o.domain,
		Table:     table,
		Local:     localCluster,
		Links:     links,
		Streams:   streams,
		Events:    reports.events,
		Exports:   exporter.shown(),
		Copies:    copied,
		Leftovers: admin.NewLeftovers(asking, o.multiclusterNamespace),
		Failures:  supervisor.Failures,
	}
	if sliceWriter != nil {
		sources.SliceWriter = sliceWriter
	}

	return &replica{
		addr:        o.addr,
		metricsAddr: o.metricsAddr,
		clusters: []part{
			{"local cluster", localCluster.Run, localCluster.Synced()},
			{"linked clusters", links.Run, links.Settled()},
		},
		alongside: []part{
			{name: "preferences", run: func(ctx context.Context) error { return runTicks(ctx, table) }},
			{name: "retries after panics", run: supervisor.Run},
		},
		endFirst: slices.Concat(
			sliceWriter.parts(),
			[]part{{name: "writer of copies of stale clusters", run: copied.Run}},
			exporter.parts(),
		),
		admin: admin.New(admin.Options{
			Ready:   ready.Load,
			Sources: sources,
			Hosts:   admin.NewHosts(o.domain, o.namespace, o.hosts),
			Metrics: registry,
			PProf:   o.pprof,
			Log:     withOwnLimit(log),
		}),
		ready:    ready,
		server:   server,
		traces:   traces,
		shutdown: newShutdown(o, streams, server, log),
		log:      log,
	}, nil
}

func newTable(o *options, reports *reports, supervisor *panics.Supervisor) *federation.Table {
	return federation.NewTable(federation.Options{
		IPv6:          o.ipv6,
		Report:        reports.member,
		ReportRefused: reports.refused,
		ReportTiers:   reports.tiers,
		Supervise: func(id federation.ServiceID, of any, update, again func()) {
			supervisor.Do(panics.Work{Where: panics.Service, Service: id, Of: of}, update, again)
		},
	})
}

func newTypedClient(cfg *rest.Config, metrics *cluster.Metrics) (*kube.Client, error) {
	api, err := kube.New(federation.Local, cfg, metrics.Requests())
	if err == nil {
		err = api.AddTyped()
	}
	return api, err
}

// newStore returns the store of linked clusters, with a separate client for link Secrets.
func newStore(cfg *rest.Config, o clusterstore.Options) (*clusterstore.Store, error) {
	client, err := kube.New(federation.Local, cfg, o.Metrics.Requests())
	if err != nil {
		return nil, fmt.Errorf("client for link Secrets: %w", err)
	}
	return clusterstore.NewStore(client, o)
}

// The run method runs all parts until ctx is done or a part fails. If a part fails, the result is
// that part's error. The replica first opens the port of the admin server, and then starts all of
// its parts. The admin server is one of the last parts of the replica to stop. The watches of all
// clusters continue until the last stream has ended.
func (r *replica) run(ctx context.Context) error {
	l, err := net.Listen("tcp", r.metricsAddr)
	if err != nil {
		return fmt.Errorf("--metrics-addr: %w", err)
	}
	if err := checkListen(r.addr); err != nil {
		return errors.Join(fmt.Errorf("--addr: %w", err), l.Close())
	}
	r.log.Info("admin server listens", zap.Stringer("addr", l.Addr()))

	serving, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	outlive := context.WithoutCancel(ctx)

	writers := start(serving, fail, r.endFirst...)
	clusters := start(outlive, fail, slices.Concat(r.clusters, r.alongside)...)
	last := start(outlive, fail, r.lastParts(l)...)

	r.serve(serving, fail)

	writers.stop()
	clusters.stop()
	last.stop()

	cause := context.Cause(serving)
	if cause != context.Canceled { // a part has failed
		return cause
	}
	r.log.Info("shutdown: done")
	return nil
}

// lastParts returns the parts that stop last: the GC tuner, tracing (if enabled) and the admin
// server, which listens on l. Tracing is one of the last parts to stop, so that the replica can
// still send the remaining spans.
func (r *replica) lastParts(l net.Listener) []part {
	parts := []part{
		{name: "admin server", run: func(ctx context.Context) error { return r.admin.Serve(ctx, l, lastLimit) }},
		{name: "garbage collector", run: func(ctx context.Context) error { return runGCTuner(ctx, r.ready) }},
	}
	if r.traces != nil {
		parts = append(parts, part{name: "traces", run: r.traces.run})
	}
	return parts
}

// serve waits until the clusters have synced and then serves proxies until ctx is done. The method
// returns once the gRPC server has stopped.
//
// serve does not listen on the gRPC address until the replica is ready, so that earlier connection
// attempts fail immediately and the client tries another replica.
func (r *replica) serve(ctx context.Context, fail context.CancelCauseFunc) {
	began := time.Now()
	for _, c := range r.clusters {
		select {
		case <-c.synced:
		case <-ctx.Done():
			return
		}
	}
	returnMemory()
	l, err := net.Listen("tcp", r.addr)
	if err != nil {
		fail(fmt.Errorf("--addr: %w", err))
		return
	}
	tracking := newTrackingListener(l)
	var served sync.WaitGroup
	served.Go(func() {
		if err := r.server.Serve(tracking); err != nil {
			fail(fmt.Errorf("gRPC server at %s: %w", l.Addr(), err))
		}
	})
	r.ready.Store(true)
	r.log.Info("ready", zap.Stringer("addr", l.Addr()), zap.Duration("after", time.Since(began)))
	<-ctx.Done()
	r.ready.Store(false)
	r.shutdown.run(tracking)
	served.Wait()
}

// checkListen returns an error if the replica cannot listen on an address, so that an invalid
// address is detected at startup instead of after the clusters have synced. checkListen does not
// keep the port open, because a replica must not listen before it is ready.
func checkListen(addr string) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	return l.Close()
}

type running struct {
	cancel context.CancelFunc
	parts  sync.WaitGroup
}

// The start function runs each part in a separate goroutine until ctx is done or stop is called. If
// a part returns before ctx is done or stop is called, the fail function receives an error that
// names the part.
func start(ctx context.Context, fail context.CancelCauseFunc, parts ...part) *running {
	ctx, cancel := context.WithCancel(ctx)
	r := &running{cancel: cancel}
	for _, p := range parts {
		r.parts.Go(func() {
			err := p.run(ctx)
			switch {
			case ctx.Err() != nil:
			case err != nil:
				fail(fmt.Errorf("%s: %w", p.name, err))
			default:
				fail(fmt.Errorf("%s ended unexpectedly", p.name))
			}
		})
	}
	return r
}

// stop cancels the context of the parts and waits until they have returned.
func (r *running) stop() {
	r.cancel()
	r.parts.Wait()
}

func runTicks(ctx context.Context, table *federation.Table) error {
	for {
		at, changed := table.Due()
		var due <-chan time.Time
		if !at.IsZero() {
			due = time.After(time.Until(at))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		case <-due:
			table.Tick()
		}
	}
}

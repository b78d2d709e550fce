package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"isthmus/clusterstore"
	"isthmus/clusterstore/cluster"
	"isthmus/clusterstore/kube"
	"isthmus/cmd/isthmus/internal/logging"
	"isthmus/federation"
	"isthmus/grpcapi"
	"isthmus/grpcapi/wire"
	"isthmus/internal/adminapi"
	"isthmus/internal/panics"
	"isthmus/local"
)

// newGateway puts the parts together. It does no network IO and starts nothing.
func newGateway(o *options, log *zap.Logger) (*gateway, error) {
	for _, n := range o.notes {
		log.Log(n.level, n.text)
	}
	cfg, err := restConfig(o.kubeconfig)
	if err != nil {
		return nil, err
	}
	registry, reports := newRegistry(), newReports(log)
	supervisor := panics.New(logging.WithOwnLimit(log))
	table := federation.NewTable(federation.Options{
		IPv6: o.ipv6, Report: reports.member, ReportRefused: reports.refused, ReportTiers: reports.tiers,
		Supervise: func(id federation.ServiceID, of any, update, again func()) {
			supervisor.Do(panics.Work{Where: panics.Service, Service: id, Of: of}, update, again)
		},
	})
	registry.MustRegister(supervisor, federationMetrics(table, o.serviceMetrics), tierMetrics(table))
	metrics, err := cluster.NewMetrics(registry)
	if err != nil {
		return nil, err
	}
	writer, err := newSliceWriter(o, cfg, metrics, registry, log)
	if err != nil {
		return nil, err
	}
	exporter, err := newExporter(o, cfg, metrics)
	if err != nil {
		return nil, err
	}
	rules, exported := o.rules(log), exporter.kept()
	here, err := local.New(local.Options{
		REST: cfg, TrustDomain: o.trustDomain, ClusterDomain: o.domain, Rules: rules, Table: table, Log: log, Metrics: metrics,
		Preference: &o.preference, Cordon: o.cordon, Region: o.region, Report: reports.cluster,
		Writer: writer.Writer, Exports: exported, Supervisor: supervisor,
	})
	if err != nil {
		return nil, err
	}
	registry.MustRegister(here)
	store, err := newStore(cfg, clusterstore.Options{
		Namespace: o.namespace, Rules: rules, Table: table, Log: log, Registerer: registry, Metrics: metrics, Network: o.network, IPv6: o.ipv6, LocalCluster: here,
		Memory: clusterCap(usableMemory(), o.clusterMemory), WhenLost: o.whenLost,
		LostAfter: o.lostAfter, Report: reports.cluster,
		Exports: exported, LocalLink: here.LocalLink(), Supervisor: supervisor,
	})
	if err != nil {
		return nil, err
	}
	if err := exporter.begin(store, here.Status, registry, log); err != nil {
		return nil, err
	}
	asking, err := kube.New(federation.Local, cfg, metrics.Requests())
	if err != nil {
		return nil, fmt.Errorf("client for Linkerd's Links: %w", err)
	}
	serving := o.server(log, registry)
	serving.Stalled = reports.stalled
	serving.Supervisor = supervisor
	api, err := grpcapi.New(table, here, serving)
	if err != nil {
		return nil, err
	}

	g := &gateway{
		addr: o.addr, metricsAddr: o.metricsAddr,
		clusters: []part{
			{"local cluster", here.Run, here.Synced()},
			{"linked clusters", store.Run, store.Settled()},
		},
		alongside: []part{
			{name: "preferences", run: func(ctx context.Context) error { return runTicks(ctx, table) }},
			{name: "retries after panics", run: supervisor.Run},
		},
		endFirst: slices.Concat(writer.parts(), exporter.parts()),
		ready:    new(atomic.Bool),
		traces:   newTracing(o.traces, log),
		log:      log,
	}
	g.server = api.GRPC(g.traces.options()...)
	g.shutdown = newShutdown(o, api, g.server, log)
	shown := &pages{
		self:     o.self(g.ready.Load),
		domain:   o.domain,
		table:    table,
		here:     here,
		links:    store,
		streams:  api,
		events:   reports.events,
		writer:   writer,
		exporter: exporter,
		failures: supervisor.Failures,

		leftovers: newLeftovers(asking, o.multiclusterNamespace),
	}
	g.admin = &admin{
		ready: g.ready.Load, pages: shown.handlers(),
		hosts: newAdminHosts(o.domain, o.namespace, o.hosts), metrics: registry, pprof: o.pprof, log: logging.WithOwnLimit(log),
	}
	return g, nil
}

// newRegistry returns a registry with the metrics of the process.
func newRegistry() *prometheus.Registry {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewBuildInfoCollector(), newBuildMetric(buildInfo()),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return registry
}

// self returns what describes this replica on pages.
func (o *options) self(ready func() bool) func() adminapi.Replica {
	name, _ := os.Hostname()
	return func() adminapi.Replica {
		return adminapi.Replica{
			Name: name, Version: ownBuild().Version, Ready: ready(), Domain: o.domain, Format: adminapi.Format,
		}
	}
}

// newShutdown returns how a gateway stops server, which serves api.
func newShutdown(o *options, api *grpcapi.Server, server *grpc.Server, log *zap.Logger) *shutdown {
	return &shutdown{
		streams: api.Streams, markNotServing: api.MarkNotServing, drain: api.Drain, waitUnused: api.WaitUnused, finish: api.Finish,
		graceful: server.GracefulStop, abort: server.Stop,
		delay: o.delay, spread: o.drain, always: inPod(), log: log,
	}
}

// inPodVariable is one that Kubernetes gives every container.
const inPodVariable = "KUBERNETES_SERVICE_HOST"

// inPod returns whether this is a Pod's container, and so may be a replica that proxies find by DNS.
func inPod() bool { return os.Getenv(inPodVariable) != "" }

// newTypedClient returns a client of the own cluster that can write.
func newTypedClient(cfg *rest.Config, metrics *cluster.Metrics) (*kube.Client, error) {
	api, err := kube.New(federation.Local, cfg, metrics.Requests())
	if err == nil {
		err = api.AddTyped()
	}
	return api, err
}

// newStore returns the store of linked clusters, with a client of its own for
// the Secrets.
func newStore(cfg *rest.Config, o clusterstore.Options) (*clusterstore.Store, error) {
	client, err := kube.New(federation.Local, cfg, o.Metrics.Requests())
	if err != nil {
		return nil, fmt.Errorf("client for link Secrets: %w", err)
	}
	return clusterstore.NewStore(client, o)
}

// server returns the options of the Destination server.
func (o *options) server(log *zap.Logger, registry *prometheus.Registry) grpcapi.Options {
	return grpcapi.Options{
		ClusterDomain: o.domain,
		Messages: wire.Options{
			H2Upgrade: o.h2Upgrade, ForceOpaqueTransport: o.transport == "transport-header", ZoneWeights: o.zoneWeights,
			TargetClusterLabel: o.targetCluster, MeshedHTTP2: o.http2,
		},
		Pace:              noneIfZero(o.pace),
		Stall:             o.stall,
		Drain:             noneIfZero(o.drain),
		ConnectionAge:     noneIfZero(o.maxAge),
		ConcurrentStreams: o.maxCalls,
		Streams:           streamLimit(usableMemory(), o.maxStreams),
		ViewBytes:         viewLimit(usableMemory(), o.viewMemory),
		Log:               log,
		Registerer:        registry,
	}
}

// noneIfZero returns a duration for an option in which 0 asks for the default, and
// less than 0 for none: flags ask for none by 0.
func noneIfZero(d time.Duration) time.Duration {
	if d == 0 {
		return -1
	}
	return d
}

// loopbackGateways is the environment variable by which tests let gateways of other networks
// have loopback addresses.
const loopbackGateways = "ISTHMUS_TEST_LOOPBACK_GATEWAYS"

// rules returns how all clusters are read.
func (o *options) rules(log *zap.Logger) cluster.Rules {
	return cluster.Rules{
		ControllerNamespace: o.namespace,
		DefaultOpaquePorts:  o.defaultPorts(log),
		EndpointSlices:      o.slices,
		LoopbackGateways:    os.Getenv(loopbackGateways) == "true",
	}
}

// defaultPorts parses --default-opaque-ports and warns about items that are invalid.
func (o *options) defaultPorts(log *zap.Logger) cluster.Ports {
	ports, err := cluster.ParsePorts(o.opaquePorts, nil)
	if err != nil {
		problems := []error{err}
		if list, ok := err.(interface{ Unwrap() []error }); ok {
			problems = list.Unwrap()
		}
		for _, p := range problems {
			log.Warn("--default-opaque-ports: " + p.Error() + ": skipped")
		}
	}
	return ports
}

// restConfig returns what is needed to reach the cluster that the gateway runs in.
// An empty path asks for the usual places.
func restConfig(path string) (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = path
	cfg, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{}).ClientConfig()
	switch {
	case err == nil:
	case path != "":
		return nil, fmt.Errorf("--kubeconfig: %w", err)
	case errors.Is(err, clientcmd.ErrEmptyConfig) || clientcmd.IsEmptyConfig(err):
		return nil, errors.New("no cluster to run in: this is not a Pod, and there is neither $KUBECONFIG nor ~/.kube/config; name a file by --kubeconfig")
	default:
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	cfg.QPS = -1 // a handful of watches and lists: no client-side limit
	return cfg, nil
}

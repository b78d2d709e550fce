package server

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"k8s.io/client-go/rest"

	"isthmus/clusterstore"
	"isthmus/clusterstore/cluster"
	"isthmus/clusterstore/kube"
	"isthmus/cmd/isthmus/internal/admin"
	"isthmus/internal/adminapi"
	"isthmus/internal/pace"
	"isthmus/local/exports"
	"isthmus/local/exports/linkerd"
	"isthmus/local/exports/plan"
	"isthmus/local/externalworkload"
)

// sliceWriter is the writer of EndpointSlices for ExternalWorkloads. It is nil if Isthmus works without EndpointSlices.
type sliceWriter struct {
	*externalworkload.Writer
	api *kube.Client
}

// newSliceWriter returns nil if --enable-endpoint-slices is false.
func newSliceWriter(
	o *options,
	cfg *rest.Config,
	metrics *cluster.Metrics,
	registry *prometheus.Registry,
	log *zap.Logger,
) (*sliceWriter, error) {
	if !o.slices {
		return nil, nil
	}
	api, err := newTypedClient(cfg, metrics)
	if err != nil {
		return nil, fmt.Errorf("client for EndpointSlices: %w", err)
	}
	name, err := replicaName()
	if err != nil {
		return nil, err
	}
	w, err := externalworkload.New(externalworkload.Options{
		Client:       api.Clients,
		Namespace:    o.namespace,
		Identity:     name,
		QueueMetrics: o.queueMetrics,
		Registerer:   registry,
		Log:          log,
	})
	if err != nil {
		return nil, err
	}
	return &sliceWriter{w, api}, nil
}

// writer returns nil if w is nil.
func (w *sliceWriter) writer() *externalworkload.Writer {
	if w == nil {
		return nil
	}
	return w.Writer
}

// Refused returns the requests that the API server has refused.
func (w *sliceWriter) Refused() []adminapi.RefusedRequest { return w.api.Server().Refused }

// parts returns the writer as a part of the replica, or none if w is nil.
func (w *sliceWriter) parts() []part {
	if w == nil {
		return nil
	}
	return []part{{name: "EndpointSlice writer", run: w.Run}}
}

// exporter knows what is to be written for exports: its writer writes that, and [admin.Exports] shows it. It is nil if
// --exports is off.
type exporter struct {
	options *options
	api     *kube.Client
	linkerd linkerdState
	catalog *exports.Catalog
	store   exportStore
	local   func() adminapi.Cluster // the state of the local cluster
	log     *zap.Logger
	writer  *exports.Writer // nil: --exports is plan
	exports *admin.Exports  // what /debug/exports and metrics show
}

// exportStore has what clusters export. It is a catalogStore.
type exportStore interface {
	Exports() (plan.World, bool)
	ExportsChanged() <-chan struct{}
	SelectorsChanged(cluster string)
	LookAgain()
}

// catalogStore is a Store whose clusters' exports a Catalog reads.
type catalogStore struct {
	*clusterstore.Store
	catalog *exports.Catalog
}

// Exports returns what plans know of the exports of all clusters: see [exports.Catalog.World].
func (s catalogStore) Exports() (plan.World, bool) { return s.catalog.World(s.Store.Exports()) }

// linkerdState is what is known of Linkerd's service mirrors. It is a [linkerd.Mirrors].
type linkerdState interface {
	Run(context.Context)
	Selectors(cluster string) plan.Selectors
	Complete(*plan.Cluster)
	Notes() []string
}

// newExporter returns nil if --exports is off. It can be used once begin has been called.
func newExporter(o *options, from *rest.Config, metrics *cluster.Metrics) (*exporter, error) {
	if o.exports == exportsOff {
		return nil, nil
	}
	api, err := newTypedClient(from, metrics)
	if err != nil {
		return nil, fmt.Errorf("client for exported Services: %w", err)
	}
	e := &exporter{options: o, api: api}
	e.catalog = exports.NewCatalog(e.catalogOptions())
	e.exports = admin.NewExports(e)
	e.linkerd = linkerd.New(linkerd.Options{
		Sources:          api.Sources,
		Leases:           api.Leases,
		Printable:        api.Printable,
		Namespace:        o.multiclusterNamespace,
		UnlinkedAfter:    o.unlinkedAfter,
		SelectorsChanged: func(cluster string) { e.store.SelectorsChanged(cluster) },
		Changed:          func() { e.store.LookAgain() },
	})
	return e, nil
}

// catalogOptions returns the options of the catalog of what clusters export.
func (e *exporter) catalogOptions() exports.CatalogOptions {
	selectors := func(cluster string) plan.Selectors {
		if cluster == "" {
			return e.options.localExport
		}
		return e.linkerd.Selectors(cluster)
	}
	return exports.CatalogOptions{
		Selectors:      selectors,
		ServiceExports: e.options.sources.serviceExports,
		Defaults:       plan.LinkSettings{Allow: e.options.exportTo, ExcludeLabels: e.options.excludeLabels},
	}
}

// storeOptions make clusters cache what the catalog needs. If --exports is off, they are nil.
func (e *exporter) storeOptions() *clusterstore.ExportOptions {
	if e == nil {
		return nil
	}
	return e.catalog.StoreOptions()
}

// begin makes the writer of what a store's clusters export, if there is to be one.
func (e *exporter) begin(
	store *clusterstore.Store,
	local func() adminapi.Cluster,
	registry *prometheus.Registry,
	log *zap.Logger,
) error {
	if e == nil {
		return nil
	}
	e.store = catalogStore{store, e.catalog}
	e.local = local
	e.log = log
	registry.MustRegister(e.exports)
	if e.options.exports == exportsPlan {
		return nil
	}
	name, err := replicaName()
	if err != nil {
		return err
	}
	clients, err := e.api.MCS()
	if err != nil {
		return fmt.Errorf("client for ServiceImports: %w", err)
	}
	e.writer, err = exports.New(exports.Options{
		Services:   e.api.Services,
		MCS:        clients,
		Leases:     e.api.Leases,
		Namespace:  e.options.namespace,
		Identity:   name,
		World:      e.World,
		Changed:    store.ExportsChanged,
		Registerer: registry,
		Log:        log,
	})
	return err
}

// parts returns the writer, the reader of what it depends on, and the report of what can't be read, as parts of the
// replica. If --exports is off, there are none.
func (e *exporter) parts() (all []part) {
	if e == nil {
		return nil
	}
	if e.writer != nil {
		all = append(all, part{name: "writer of exported Services", run: e.writer.Run})
	}
	return append(all,
		part{
			name: "reader of Linkerd's Links and Leases",
			run: func(ctx context.Context) error {
				e.linkerd.Run(ctx)
				return nil
			},
		},
		part{
			name: "report of exports that can't be read",
			run: func(ctx context.Context) error {
				e.reportUnread(ctx)
				return nil
			},
		},
	)
}

// unreadAfter is how long after the start it is reported what can't be read for exports.
const unreadAfter = time.Minute

// reportUnread logs a warning if the kinds that exports are made of can't be read after unreadAfter. Without Services
// and Namespaces nothing is written. It returns when ctx ends.
func (e *exporter) reportUnread(ctx context.Context) {
	if !pace.Sleep(ctx, unreadAfter) {
		return
	}
	hint := "grant what manifests/install/exports has"
	reasons := e.unread()
	if _, known := e.store.Exports(); known {
		if len(reasons) > 0 {
			e.log.Warn("ServiceExports are not imported", zap.Strings("reasons", reasons), zap.String("hint", hint))
		}
		<-ctx.Done()
		return
	}

	if len(reasons) == 0 { // the kinds can be listed, but link Secrets can't, or a list takes its time
		reasons = []string{admin.ExportsUnread}
		hint = "isthmus check shows what is missing"
	}
	e.log.Warn("what is to be written for exports is not known, so nothing is written",
		zap.Strings("reasons", reasons), zap.String("hint", hint))
	for {
		changed := e.store.ExportsChanged()
		if _, known := e.store.Exports(); known {
			break
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
			pace.Sleep(ctx, time.Second) // one look for many changes
		}
	}
	e.log.Info("what is to be written for exports is known now")
	<-ctx.Done()
}

// unread returns why kinds of the local cluster that exports are made of have never been listed.
func (e *exporter) unread() (reasons []string) {
	status := e.local()
	kinds := []string{"services", "namespaces", "serviceexports", "serviceimports"}
	for _, r := range status.Resources {
		if r.NeverRead() && slices.Contains(kinds, r.Resource) {
			reasons = append(reasons, r.Resource+": "+r.Err)
		}
	}
	return reasons
}

// World returns what plans depend on, and whether it has been read.
func (e *exporter) World() (plan.World, bool) {
	w, ok := e.store.Exports()
	if !ok {
		return plan.World{}, false
	}
	o := e.options
	w.Now = time.Now()
	w.Settings = plan.Settings{
		Controller:      o.namespace,
		Multicluster:    o.multiclusterNamespace,
		ClusterName:     o.clusterName,
		IPv4Only:        !o.ipv6,
		UnlinkedAfter:   o.unlinkedAfter,
		MaxPerLink:      int(o.maxPerLink),
		MaxPerNamespace: int(o.maxPerNamespace),
		Labels:          o.sources.labels,
		ServiceExports:  o.sources.serviceExports,
	}
	for i := range w.Clusters {
		e.linkerd.Complete(&w.Clusters[i])
	}
	w.LeaseOf = func(name string) plan.Lease {
		c := plan.Cluster{Name: name}
		e.linkerd.Complete(&c)
		return c.Lease
	}
	return w, true
}

// Writer returns the writer, or nil if --exports is plan.
func (e *exporter) Writer() *exports.Writer { return e.writer }

// Notes returns what there is to know about Linkerd's service mirrors.
func (e *exporter) Notes() []string { return e.linkerd.Notes() }

// shown returns what the debug API shows, or nil if e is nil.
func (e *exporter) shown() *admin.Exports {
	if e == nil {
		return nil
	}
	return e.exports
}

// replicaName returns the name of this replica in the Lease: its Pod's.
func replicaName() (string, error) {
	if name := os.Getenv("HOSTNAME"); name != "" {
		return name, nil
	}
	name, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("this replica has no name for the Lease: $HOSTNAME is not set: %w", err)
	}
	return name, nil
}

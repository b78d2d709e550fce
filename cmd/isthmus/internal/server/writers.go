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
	"isthmus/federation"
	"isthmus/internal/adminapi"
	"isthmus/internal/pace"
	"isthmus/local/copies"
	"isthmus/local/exports"

	"isthmus/local/exports/plan"
	"isthmus/local/externalworkload"
)

// sliceWriter is the part of a replica that writes EndpointSlices for ExternalWorkloads. If
// --enable-endpoint-slices is false, the replica uses a nil *sliceWriter.
type sliceWriter struct {
	*externalworkload.Writer
	api *kube.Client
}

// newSliceWriter returns the writer of EndpointSlices, or nil if --enable-endpoint-slices is false.
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

func (w *sliceWriter) writer() *externalworkload.Writer {
	if w == nil {
		return nil
	}
	return w.Writer
}

// Refused returns the writer's requests that the API server rejected.
func (w *sliceWriter) Refused() []adminapi.RefusedRequest { return w.api.Server().Refused }

func (w *sliceWriter) parts() []part {
	if w == nil {
		return nil
	}
	return []part{{name: "EndpointSlice writer", run: w.Run}}
}

func newCopies(o *options, cfg *rest.Config, metrics *cluster.Metrics, log *zap.Logger) (*copies.Copies, error) {
	api, err := newTypedClient(cfg, metrics)
	if err != nil {
		return nil, fmt.Errorf("client for copies of stale clusters: %w", err)
	}
	name, err := replicaName()
	if err != nil {
		return nil, err
	}
	return copies.New(copies.Options{
		Client:    api,
		Namespace: o.namespace,
		Identity:  name,
		MaxAge:    o.cacheMaxAge,
		Log:       log,
	}), nil
}

// readCopy returns the function that reads the saved cache of a stale cluster, or nil if
// --cache-max-age is 0.
func readCopy(
	o *options, from *copies.Copies,
) func(context.Context, federation.ClusterName) (*clusterstore.Copy, error) {
	if o.cacheMaxAge == 0 {
		return nil
	}
	return from.Read
}

// exporter determines which objects to write for exports. An [exports.Writer] writes the objects,
// and [admin.ExportsReport] shows the objects to users. If --exports is off, the replica uses a nil
// *exporter.
type exporter struct {
	options *options
	api     *kube.Client
	linkerd linkerdState
	catalog *exports.Catalog
	store   exportStore
	local   func() adminapi.Cluster // returns the state of the local cluster
	log     *zap.Logger
	writer  *exports.Writer      // nil if --exports is plan
	exports *admin.ExportsReport // shown by /debug/exports and metrics
}

type exportStore interface {
	Exports() (plan.World, bool)
	ExportsChanged() <-chan struct{}
	RelistServices(cluster string)
	NotifyExports()
}

// catalogStore combines a Store with the Catalog that reads the exports of the Store's clusters.
type catalogStore struct {
	*clusterstore.Store
	catalog *exports.Catalog
}

func (s catalogStore) Exports() (plan.World, bool) { return s.catalog.World(s.Store.Exports()) }

// linkerdState provides the cached state of Linkerd's service mirrors. Type [exports.Mirrors]
// implements linkerdState.
type linkerdState interface {
	Run(context.Context)
	Selectors(cluster string) plan.Selectors
	Complete(*plan.Cluster)
	Notes() []string
}

// newExporter returns an exporter, or nil if --exports is off. Call begin before other methods.
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
	e.exports = admin.NewExportsReport(e)
	e.linkerd = exports.NewMirrors(exports.MirrorsOptions{
		Sources:          api.Sources,
		Leases:           api.Leases,
		Printable:        api.Printable,
		Namespace:        o.multiclusterNamespace,
		UnlinkedAfter:    o.unlinkedAfter,
		SelectorsChanged: func(cluster string) { e.store.RelistServices(cluster) },
		Changed:          func() { e.store.NotifyExports() },
	})
	return e, nil
}

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

// storeOptions returns the options for caching the objects that the catalog needs. The result is
// nil if --exports is off.
func (e *exporter) storeOptions() *clusterstore.ExportOptions {
	if e == nil {
		return nil
	}
	return e.catalog.StoreOptions()
}

// The begin method connects the exporter to the store of clusters, and creates the writer if
// --exports is on.
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

// parts returns the parts of the replica that work on exports, or nil if --exports is off.
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
			name: "report of exports that cannot be read",
			run: func(ctx context.Context) error {
				e.reportUnread(ctx)
				return nil
			},
		},
	)
}

// unreadAfter is how long reportUnread waits before it logs kinds that have not been read.
const unreadAfter = time.Minute

// The reportUnread method waits for the duration unreadAfter. If Isthmus has not read every kind of
// object that exports depend on by the end of the wait, reportUnread logs a warning. Until Services
// and Namespaces have been read, Isthmus does not write objects for exports.
func (e *exporter) reportUnread(ctx context.Context) {
	if !pace.Sleep(ctx, unreadAfter) {
		return
	}
	hint := "grant the permissions in manifests/install/exports"
	reasons := e.unread()
	if _, known := e.store.Exports(); known {
		if len(reasons) > 0 {
			e.log.Warn("ServiceExports are not imported", zap.Strings("reasons", reasons), zap.String("hint", hint))
		}
		<-ctx.Done()
		return
	}

	if len(reasons) == 0 { // the kinds can be listed, but link Secrets cannot be listed, or a list is slow
		reasons = []string{admin.ExportsUnread}
		hint = "isthmus check shows what is missing"
	}
	e.log.Warn("cannot determine what to write for exports: nothing is written",
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
			pace.Sleep(ctx, time.Second) // batches changes
		}
	}
	e.log.Info("Isthmus can again determine what to write for exports")
	<-ctx.Done()
}

// Exports depend on several kinds of objects in the local cluster. For each kind that has never
// been listed, the unread method returns the reason why listing failed.
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

// World returns the input for plans. If the input has not been read yet, World returns false.
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

// Writer returns the writer, or nil with --exports=plan.
func (e *exporter) Writer() *exports.Writer { return e.writer }

// Notes returns messages for users about Linkerd's service mirrors.
func (e *exporter) Notes() []string { return e.linkerd.Notes() }

// The shown method returns the exports for the debug API, or nil if e is nil.
func (e *exporter) shown() *admin.ExportsReport {
	if e == nil {
		return nil
	}
	return e.exports
}

// replicaName returns the name of this replica's Pod, which identifies the replica in Leases.
func replicaName() (string, error) {
	if name := os.Getenv("HOSTNAME"); name != "" {
		return name, nil
	}
	name, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("cannot determine the name of this replica for the Lease: $HOSTNAME is not set: %w", err)
	}
	return name, nil
}

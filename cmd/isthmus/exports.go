package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"k8s.io/client-go/rest"

	"isthmus/clusterstore"
	"isthmus/clusterstore/cluster"
	"isthmus/clusterstore/kube"
	"isthmus/federation"
	"isthmus/internal/adminapi"
	"isthmus/internal/pace"
	"isthmus/local/exports"
	"isthmus/local/exports/linkerd"
	"isthmus/local/exports/plan"
)

// exporter knows what is to be written for exports: its writer writes that, pages and metrics show it. nil: --exports is off.
type exporter struct {
	options *options
	api     *kube.Client
	linkerd linkerdState
	store   exportStore
	own     func() adminapi.Cluster // the state of the local cluster
	log     *zap.Logger
	writer  *exports.Writer // nil: --exports is plan
	now     *shared[*exportsView]
	memory  plan.Memory // of the plan that was shown last
}

// exportStore has what clusters export. It is a *clusterstore.Store.
type exportStore interface {
	Exports() (plan.World, bool)
	ExportsChanged() <-chan struct{}
	SelectorsChanged(cluster string)
	LookAgain()
}

// linkerdState is what is known of Linkerd's service mirrors. It is a [linkerd.Mirrors].
type linkerdState interface {
	Run(context.Context)
	Selectors(cluster string) plan.Selectors
	Complete(*plan.Cluster)
	Notes() []string
}

// exportsView is what there was to be written at one time.
type exportsView struct {
	writer  adminapi.ExportsWriter
	world   plan.World
	plan    *plan.Plan // nil: not all has been read yet. A state may also be one of adminapi.Export's
	changes []exportChange
}

// exportChange is an object that is to be written or deleted.
type exportChange struct {
	exports.Change
	trouble
}

// trouble is why an object is not as it is to be: a state, and that in words, which may be empty.
type trouble struct{ state, detail string }

// over reports whether this is to be shown rather than another.
func (a trouble) over(b trouble) bool {
	order := []string{"", adminapi.ExportWouldBeWritten, adminapi.ExportBeingWritten, adminapi.ExportChangedBack, adminapi.ExportFailed}
	return slices.Index(order, a.state) > slices.Index(order, b.state)
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
	e.now = newShared(time.Second, listRestFor, e.look)
	e.linkerd = linkerd.New(linkerd.Options{
		Sources: api.Sources, Leases: api.Leases, Printable: api.Printable, Namespace: o.multiclusterNamespace, UnlinkedAfter: o.unlinkedAfter,
		SelectorsChanged: func(cluster string) { e.store.SelectorsChanged(cluster) }, Changed: func() { e.store.LookAgain() },
	})
	return e, nil
}

// kept is what is kept of clusters for exports; nil: nothing.
func (e *exporter) kept() *clusterstore.ExportOptions {
	if e == nil {
		return nil
	}
	selectors := func(cluster string) plan.Selectors {
		if cluster == "" {
			return e.options.ownExport
		}
		return e.linkerd.Selectors(cluster)
	}
	return &clusterstore.ExportOptions{
		Namespaces:     e.options.exportTo,
		ExcludeLabels:  e.options.excludeLabels,
		ServiceExports: e.options.sources.serviceExports,
		Selectors:      selectors,
	}
}

// begin makes the writer of what a store's clusters export, if there is to be one.
func (e *exporter) begin(store exportStore, own func() adminapi.Cluster, registry *prometheus.Registry,
	log *zap.Logger,
) error {
	if e == nil {
		return nil
	}
	e.store, e.own, e.log = store, own, log
	registry.MustRegister(scraped(e.collect))
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
		Services: e.api.Services, MCS: clients, Leases: e.api.Leases, Namespace: e.options.namespace, Identity: name,
		World: e.world, Changed: store.ExportsChanged, Registerer: registry, Log: log,
	})
	return err
}

// parts returns the writer, the reader of what it depends on, and the report of what can't be read, as parts of the
// gateway. If --exports is off, there are none.
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
			run:  func(ctx context.Context) error { e.linkerd.Run(ctx); return nil },
		},
		part{
			name: "report of exports that can't be read",
			run:  func(ctx context.Context) error { e.reportUnread(ctx); return nil },
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
		reasons, hint = []string{unreadExports}, "isthmus check shows what is missing"
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
	own := e.own()
	kinds := []string{"services", "namespaces", "serviceexports", "serviceimports"}
	for _, r := range own.Resources {
		if r.NeverRead() && slices.Contains(kinds, r.Resource) {
			reasons = append(reasons, r.Resource+": "+r.Err)
		}
	}
	return reasons
}

// world returns what plans depend on.
func (e *exporter) world() (plan.World, bool) {
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

// look makes a plan of what there is now, as the writer does. It is not called by two goroutines at a time.
func (e *exporter) look() *exportsView {
	v := &exportsView{writer: adminapi.ExportsWriter{Mode: exportsPlan}}
	why := func(*exports.Change) (state, detail string) { return adminapi.ExportWouldBeWritten, "" }
	if e.writer != nil {
		v.writer, why = e.writer.Status(), e.writer.Trouble
		if memory, leads := e.writer.Memory(); leads {
			e.memory = memory
		}
	}
	v.writer.Notes = e.linkerd.Notes()
	var ok bool
	if v.world, ok = e.world(); !ok {
		return v
	}
	if e.writer != nil {
		v.world.Attempt = e.writer.Attempt
	}
	v.plan, e.memory = plan.Make(v.world, e.memory)
	if v.writer.MCS = v.world.MCSVersion; v.writer.MCS == "" && v.world.ServiceExports {
		v.writer.MCS = "none"
	}
	troubles := make(map[exports.Object]trouble) // of what is to be changed, of each object the worst
	for _, c := range exports.Changes(v.world, v.plan) {
		var of trouble
		if of.state, of.detail = why(&c); of.state == "" {
			continue // as far as the API keeps it
		}
		v.changes = append(v.changes, exportChange{c, of})
		if c.Status = false; of.over(troubles[c.Object]) {
			troubles[c.Object] = of
		}
	}
	for i := range v.plan.Verdicts {
		of := &v.plan.Verdicts[i]
		var worst trouble
		if of.Object != of.Export { // else it is a headless ServiceImport
			worst = troubles[exports.Object{Kind: exports.Service, ID: of.Object}]
		}
		if of.Kind == plan.Import {
			for _, kind := range []string{exports.ServiceImport, exports.ServiceExport} {
				if t := troubles[exports.Object{Kind: kind, ID: of.Export}]; t.over(worst) && (kind == exports.ServiceImport || of.Cluster == "") {
					worst = t
				}
			}
		}
		if of.State == plan.Written && worst.state != "" {
			of.State, of.Detail = plan.State(worst.state), cmp.Or(worst.detail, of.Detail)
		}
	}
	return v
}

// summary is what the page of clusters shows; nil: --exports is off.
func (e *exporter) summary() *adminapi.ExportsSummary {
	if e == nil {
		return nil
	}
	const examples = 5
	v := e.now.get().value
	page := &adminapi.ExportsSummary{ExportsWriter: v.writer, Pending: len(v.changes), Unwritten: make(map[string][]string)}
	if v.plan == nil {
		page.Unread = unreadExports
		return page
	}
	for _, of := range v.plan.Verdicts {
		if state := string(of.State); slices.Contains(unwritten, of.State) && len(page.Unwritten[state]) < examples {
			text := fmt.Sprintf("%v of %s", of.Object, federation.ClusterName(of.Cluster))
			if of.Detail != "" {
				text += " (" + of.Detail + ")"
			}
			page.Unwritten[state] = append(page.Unwritten[state], printable(text))
		}
	}
	return page
}

// unwritten are the states in which somebody has to do something, or to know.
var unwritten = []plan.State{
	plan.Taken, plan.Waiting, plan.OnHold, plan.Unset, plan.OverNumber, plan.NameRefused, plan.NoPort, adminapi.ExportFailed, adminapi.ExportChangedBack,
}

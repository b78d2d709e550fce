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
	"isthmus/local/exports"
	"isthmus/local/exports/linkerd"
	"isthmus/local/exports/plan"
)

// exporter knows what is to be written for exports: its writer writes that, pages and metrics show it. nil: --exports is off.
type exporter struct {
	settings plan.Settings
	store    interface {
		Exports() (clusterstore.Exports, bool)
	}
	linkerd linkerdState
	writer  *exports.Writer // nil: --exports is plan
	now     *shared[*exportsView]
	memory  plan.Memory // of the plan that was shown last
}

// linkerdState is what is known of Linkerd's service mirrors. It is a [linkerd.Mirrors].
type linkerdState interface {
	Complete(*plan.Cluster)
	Notes() []string
}

// exportsView is what there was to be written at one time.
type exportsView struct {
	writer  adminapi.ExportsWriter
	world   plan.World
	plan    *plan.Plan // nil: not all has been read yet. A state may also be one of adminapi.Export's
	changes []exportChange
	of      map[plan.ID]plan.ID // by Service, the exports that it is written for
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

type exporterConfig struct {
	options  *options
	log      *zap.Logger
	registry *prometheus.Registry
	store    *clusterstore.Store
	mirrors  *mirrors
}

// mirrors are Linkerd's service mirrors, and the client by which they are read.
type mirrors struct {
	api *kube.Client
	*linkerd.Mirrors
}

// newMirrors returns nil if --exports is off. of is asked for the Store once it is there.
func newMirrors(o *options, from *rest.Config, metrics *cluster.Metrics, of func() *clusterstore.Store) (*mirrors, error) {
	if o.exports == exportsOff {
		return nil, nil
	}
	api, err := kube.New(federation.Local, from, metrics.Requests())
	if err == nil {
		err = api.AddTyped()
	}
	if err != nil {
		return nil, fmt.Errorf("client for exported Services: %w", err)
	}
	return &mirrors{api, linkerd.New(linkerd.Options{
		Sources: api.Sources, Leases: api.Leases, Printable: api.Printable, Namespace: o.multiclusterNamespace, UnlinkedAfter: o.unlinkedAfter,
		SelectorsChanged: func(cluster string) { of().SelectorsChanged(cluster) }, Changed: func() { of().LookAgain() },
	})}, nil
}

func newExporter(c exporterConfig) (*exporter, error) {
	o := c.options
	if c.mirrors == nil {
		return nil, nil
	}
	e := &exporter{store: c.store, linkerd: c.mirrors, settings: plan.Settings{
		Controller: o.namespace, Multicluster: o.multiclusterNamespace, ClusterName: o.clusterName, Labels: o.labels, ServiceExports: o.serviceExports, UnlinkedAfter: o.unlinkedAfter,
	}}
	e.now = newShared(time.Second, listRestFor, nil, e.look)
	c.registry.MustRegister(newExportMetrics(e))
	if o.exports == exportsPlan {
		return e, nil
	}
	name, err := replicaName()
	if err != nil {
		return nil, err
	}
	clients, err := c.mirrors.api.MCS()
	if err != nil {
		return nil, fmt.Errorf("client for ServiceImports: %w", err)
	}
	e.writer, err = exports.New(exports.Options{
		Services: c.mirrors.api.Services, MCS: clients, Leases: c.mirrors.api.Leases, Namespace: o.namespace, Identity: name,
		World: e.world, Changed: c.store.ExportsChanged, Registerer: c.registry, Log: c.log,
	})
	return e, err
}

// parts returns the reader as a part of the gateway, or none.
func (m *mirrors) parts() []part {
	if m == nil {
		return nil
	}
	return []part{{name: "reader of Linkerd's Links and Leases", run: func(ctx context.Context) error { m.Run(ctx); return nil }}}
}

// parts returns the writer as a part of the gateway, or none.
func (e *exporter) parts() []part {
	if e == nil || e.writer == nil {
		return nil
	}
	return []part{{name: "writer of exported Services", run: e.writer.Run}}
}

// world returns what plans depend on.
func (e *exporter) world() (plan.World, bool) {
	all, ok := e.store.Exports()
	if !ok {
		return plan.World{}, false
	}
	w := plan.World{
		Settings: e.settings, Now: time.Now(), Clusters: slices.Clone(all.Clusters),
		Namespaces: all.Namespaces, Services: all.Services, Imports: all.Imports, MCSVersion: all.MCSVersion,
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
	v := &exportsView{writer: adminapi.ExportsWriter{Mode: exportsPlan}, of: make(map[plan.ID]plan.ID)}
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
	v.plan, e.memory = plan.Make(v.world, e.memory)
	if v.writer.MCS = v.world.MCSVersion; v.writer.MCS == "" && e.settings.ServiceExports {
		v.writer.MCS = "none"
	}
	for i := range v.plan.Services {
		v.of[v.plan.Services[i].ID] = v.plan.Services[i].Of
	}
	for _, u := range v.plan.Delete {
		v.of[u.ID] = u.Of
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
		worst := troubles[exports.Object{Kind: exports.Service, ID: of.Object}]
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

// addTo adds to a page what is wrong.
func (e *exporter) addTo(page adminapi.Clusters) adminapi.Clusters {
	if e == nil {
		return page
	}
	const examples = 5
	v := e.now.get().value
	page.Exports = &adminapi.ExportsSummary{ExportsWriter: v.writer, Pending: len(v.changes), Unwritten: make(map[string][]string)}
	if v.plan == nil {
		page.Exports.Unread = unreadExports
		return page
	}
	for _, of := range v.plan.Verdicts {
		if state := string(of.State); slices.Contains(unwritten, of.State) && len(page.Exports.Unwritten[state]) < examples {
			text := fmt.Sprintf("%v of %s", of.Object, federation.ClusterName(of.Cluster))
			if of.Detail != "" {
				text += " (" + of.Detail + ")"
			}
			page.Exports.Unwritten[state] = append(page.Exports.Unwritten[state], printable(text))
		}
	}
	return page
}

// unwritten are the states in which somebody has to do something, or to know.
var unwritten = []plan.State{
	plan.Taken, plan.Waiting, plan.OnHold, plan.Unset, plan.OverNumber, plan.NameRefused, plan.NoPort, adminapi.ExportFailed, adminapi.ExportChangedBack,
}

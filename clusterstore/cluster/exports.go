package cluster

import (
	"context"
	"reflect"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcs "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"isthmus/clusterstore/decode"
	"isthmus/clusterstore/follow"
	"isthmus/federation"
)

// ExportHooks make a Cluster cache what somebody else reads from its objects for exports. The
// Cluster only compares the values that the hooks return, and counts them for the memory cap. A
// value must share nothing with the object and must not change.
//
// The hooks are called by several goroutines and must not block. Service, Listed and Changed are needed.
type ExportHooks struct {
	// Service returns what is cached of a Service besides the Service itself. If it is nil, nothing
	// is cached. If the result for an unchanged Service may be another one from now on, call
	// [Cluster.SelectorsChanged].
	Service func(*corev1.Service) any
	// Listed reports whether Exports lists a Service with that value, which is not nil. Services
	// that are not listed are found by the ServiceExports of their names.
	Listed func(value any) bool
	// ServiceExport returns what is cached of a ServiceExport. If the hook is nil, ServiceExports are not followed.
	ServiceExport func(*mcs.ServiceExport) any
	// ServiceImport returns what is cached of a ServiceImport of the local cluster. If the hook is
	// nil, ServiceImports are not followed.
	ServiceImport func(*mcs.ServiceImport) any
	// Changed is called after the result of Exports has changed. No lock is held then, and Changed
	// may call methods of the Cluster.
	Changed func()
}

// Export is what the hooks returned for the objects of one name.
type Export struct {
	ID            federation.ServiceID
	Service       any // nil: there is no Service, or its hook returned nil
	ServiceExport any // nil: there is none
}

// Exports is what the hooks returned for the objects of a cluster, after a whole list or event. It must not be changed.
type Exports struct {
	// List has the Services that are listed and all ServiceExports, each name once and in no order.
	List []Export
	// ServiceExports is whether List has the ServiceExports. They have been listed, or the API does
	// not have the kind. In the second case Emptied is set too.
	ServiceExports, Emptied bool

	// Only of the local cluster:
	Namespaces map[string]bool              // those that are not being deleted; nil: they have not been listed
	Imports    map[federation.ServiceID]any // nil: they have not been listed
	// MCSVersion is that of Imports. It is empty if they have not been listed, or the API does not have the kind.
	MCSVersion string

	state   *state
	version uint64
}

// Unlisted reports whether the cluster has a Service now that is not listed. x may be one that no Cluster has returned.
func (x *Exports) Unlisted(id federation.ServiceID) bool {
	if x.state == nil {
		return false
	}
	x.state.mu.RLock()
	defer x.state.mu.RUnlock()
	e := x.state.services.byID[id]
	return e.state() != federation.Missing && !x.state.exports.isListed(id)
}

// exportIndex has the values of hooks. If it is nil, there are no hooks.
type exportIndex struct {
	// fixed
	state      *state
	hooks      *ExportHooks
	mcsVersion func() string // of the kinds of the MCS-API

	// Under state.mu:
	services       map[federation.ServiceID]any // the values of Services that are listed
	namespaces     map[string]any               // false: it is being deleted
	serviceExports map[string]any               // by key
	imports        map[string]any               // by key
	kinds          [ofServiceImports + 1]exportedKind
	version        uint64 // changes with the result of Exports

	latest atomic.Pointer[Exports]
}

// exportedKind is the state of one kind of objects.
type exportedKind struct {
	listed  bool
	changed bool // within a list or event that has not been put into the state as a whole
	absent  bool // the API does not have the kind; then it counts as listed
}

// The kinds of objects with hooks.
const (
	ofServices = iota
	ofNamespaces
	ofServiceExports
	ofServiceImports
)

func newExportIndex(s *state, hooks *ExportHooks, mcsVersion func() string) *exportIndex {
	return &exportIndex{
		state:          s,
		hooks:          hooks,
		mcsVersion:     mcsVersion,
		services:       make(map[federation.ServiceID]any),
		namespaces:     make(map[string]any),
		serviceExports: make(map[string]any),
		imports:        make(map[string]any),
	}
}

// current returns the result of Cluster.Exports. x may be nil.
func (x *exportIndex) current() *Exports {
	if x == nil {
		return nil
	}
	s := x.state
	s.mu.RLock()
	defer s.mu.RUnlock()

	version := "" // a list in another version need not change anything else
	if imports := x.kinds[ofServiceImports]; imports.listed && !imports.absent {
		version = x.mcsVersion()
	}
	now := x.latest.Load()
	if now != nil && now.version == x.version && now.MCSVersion == version || x.pending() {
		return now
	}

	now = &Exports{
		List:           x.list(),
		ServiceExports: x.kinds[ofServiceExports].listed,
		Emptied:        x.kinds[ofServiceExports].absent,
		MCSVersion:     version,
		state:          s,
		version:        x.version,
	}
	if x.kinds[ofServiceImports].listed {
		now.Imports = make(map[federation.ServiceID]any, len(x.imports))
		for key, value := range x.imports {
			now.Imports[serviceID(key)] = value
		}
	}
	if x.kinds[ofNamespaces].listed {
		now.Namespaces = make(map[string]bool, len(x.namespaces))
		for name, lasts := range x.namespaces {
			if lasts.(bool) {
				now.Namespaces[name] = true
			}
		}
	}
	x.latest.Store(now)
	return now
}

// list returns the Services that are listed and all ServiceExports. mu is held.
func (x *exportIndex) list() []Export {
	list := make([]Export, 0, len(x.services)+len(x.serviceExports))
	for id, value := range x.services {
		list = append(list, Export{
			ID:            id,
			Service:       value,
			ServiceExport: x.serviceExports[follow.JoinKey(id.Namespace, id.Name)],
		})
	}
	for key, value := range x.serviceExports {
		id := serviceID(key)
		if x.isListed(id) {
			continue
		}
		one := Export{ID: id, ServiceExport: value}
		if e := x.state.services.byID[id]; e != nil {
			one.Service = e.spec.export()
		}
		list = append(list, one)
	}
	return list
}

// pending reports whether Exports has to wait for the end of a list, or for the first list of Services.
func (x *exportIndex) pending() bool {
	for _, p := range x.kinds {
		if p.changed {
			return true
		}
	}
	return !x.kinds[ofServices].listed
}

func (x *exportIndex) isListed(id federation.ServiceID) bool {
	_, listed := x.services[id]
	return listed
}

// setService follows a Service and its value. A nil Service does not exist. x may be nil.
func (x *exportIndex) setService(key string, from, to *Service) {
	if x == nil {
		return
	}
	id := serviceID(key)
	before, now := from.export(), to.export()
	matters := x.isListed(id) || x.serviceExports[key] != nil
	if now != nil && x.hooks.Listed(now) {
		x.services[id] = now
		matters = true
	} else {
		delete(x.services, id)
	}
	if matters && !sameExport(before, now) || x.state.local != nil && (from == nil) != (to == nil) {
		x.kinds[ofServices].changed = true
	}
}

// forgetServices makes Exports wait for the next list of Services. state.mu is held.
func (x *exportIndex) forgetServices() {
	x.kinds[ofServices].listed = false
	x.latest.Store(nil)
}

// applied is called after a whole list, or an event, of one of the kinds, so that nobody sees a
// part of a list. If wantsList returns true, the hook has not read all objects of the kind since
// SelectorsChanged. x may be nil.
func (x *exportIndex) applied(kind int, wantsList func() bool) {
	if x == nil {
		return
	}
	x.state.mu.Lock()
	p := &x.kinds[kind]
	changed := (p.changed || !p.listed) && !wantsList()
	if changed {
		p.listed = true
		p.changed = false
		x.version++
	}
	x.state.mu.Unlock()
	if changed {
		x.hooks.Changed()
	}
}

// setAbsent records whether the API does not have a kind.
func (x *exportIndex) setAbsent(kind int, absent bool) {
	x.state.mu.Lock()
	p := &x.kinds[kind]
	changed := p.absent != absent
	p.absent = absent
	if changed {
		p.listed = true
		x.version++
	}
	x.state.mu.Unlock()
	if changed {
		x.hooks.Changed()
	}
}

// size is what the state takes for the value of a Service of a linked cluster, with its place in Exports.
func (x *exportIndex) size(value any) int64 {
	if value == nil {
		return 0
	}
	n := valueSize(value)
	if x.hooks.Listed(value) {
		n += exportPlace + mapEntry(sizeof[federation.ServiceID]()+sizeof[any]())
	}
	return n
}

// serviceExportSize is what the state takes for a ServiceExport of a linked cluster, with its place in Exports.
func serviceExportSize(value any, _ string) int64 {
	return valueSize(value) + indexEntry[any]() + exportPlace
}

// exportPlace is what one of Exports.List takes there and in a list that is made from it.
var exportPlace = listSize[Export](3)

func sameExport(a, b any) bool { return reflect.DeepEqual(a, b) }

// namespaceKind returns how the cluster follows Namespaces. The value is whether the Namespace is not being deleted.
func namespaceKind(c *Cluster) follow.Kind[*metav1.PartialObjectMetadata, any] {
	compact := func(o *metav1.PartialObjectMetadata) (any, bool) { return o.DeletionTimestamp == nil, true }
	return exportKind(
		c, ofNamespaces, "namespaces", c.cfg.Client.Sources.Namespaces, c.state.exports.namespaces, compact,
	)
}

// serviceExportKind returns how the cluster follows ServiceExports. One that is being deleted counts as deleted.
func serviceExportKind(c *Cluster) follow.Kind[*mcs.ServiceExport, any] {
	compact := func(o *mcs.ServiceExport) (any, bool) {
		return c.cfg.Exports.ServiceExport(o), o.DeletionTimestamp == nil
	}
	k := exportKind(
		c, ofServiceExports, "serviceexports", c.cfg.Client.Sources.ServiceExports,
		c.state.exports.serviceExports, compact,
	)
	k.Size = serviceExportSize
	return ofMCS(c, ofServiceExports, k)
}

// serviceImportKind returns how the cluster follows ServiceImports.
func serviceImportKind(c *Cluster) follow.Kind[*mcs.ServiceImport, any] {
	compact := func(o *mcs.ServiceImport) (any, bool) { return c.cfg.Exports.ServiceImport(o), true }
	return ofMCS(c, ofServiceImports, exportKind(
		c, ofServiceImports, "serviceimports", c.cfg.Client.Sources.ServiceImports, c.state.exports.imports, compact,
	))
}

// exportKind follows one of the kinds besides Services. What compact returns of an object is put into all.
func exportKind[O decode.Object](
	c *Cluster, kind int, name string, from decode.Source[O], all map[string]any, compact func(O) (any, bool),
) follow.Kind[O, any] {
	changed := func(string, any, any) { c.state.exports.kinds[kind].changed = true }
	return follow.Kind[O, any]{
		Name:      name,
		Aside:     true,
		Unawaited: true,
		Source:    from,
		Compact:   compact,
		Into:      mapStore(c.state, all, sameExport, changed),
		Applied:   func() { c.state.exports.applied(kind, func() bool { return false }) },
	}
}

// ofMCS records whether the API has a kind of the MCS-API.
func ofMCS[O decode.Object](c *Cluster, kind int, k follow.Kind[O, any]) follow.Kind[O, any] {
	k.Serves = func(ctx context.Context) (bool, error) {
		there, err := c.cfg.Client.Sources.Serves(ctx, k.Name, decode.MCSVersions...)
		if !there && err == nil {
			c.state.exports.setAbsent(kind, true)
		}
		return there, err
	}
	k.Report = func(err error) {
		if err == nil {
			c.state.exports.setAbsent(kind, false)
		}
	}
	return k
}

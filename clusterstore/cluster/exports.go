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

// ExportHooks contains functions that derive values from a Cluster's objects. The Cluster caches
// these values for exports. A Cluster compares these values and counts their memory, but does not
// interpret them. A value must be immutable and must not share memory with the object.
//
// Several goroutines may call the hooks concurrently. The hooks must not block. The fields Service,
// Listed and Changed are required.
type ExportHooks struct {
	// Service returns the value to cache for a Service. If the hook returns nil, the Cluster does
	// not cache a value for the Service. After a change that affects the results of this hook for
	// existing Services, call [Cluster.RelistServices].
	Service func(*corev1.Service) any
	// Listed reports whether CachedExports.List includes a Service with the given value, which is
	// never nil. Other Services only appear in the list if a ServiceExport has the same name and
	// namespace.
	Listed func(value any) bool
	// ServiceExport returns the value to cache for a ServiceExport. If the hook is nil,
	// ServiceExports are not read.
	ServiceExport func(*mcs.ServiceExport) any
	// ServiceImport returns the value to cache for a ServiceImport of the local cluster. If the
	// hook is nil, ServiceImports are not read.
	ServiceImport func(*mcs.ServiceImport) any
	// Changed is called after the result of Cluster.Exports has changed. The caller of Changed
	// holds no locks, so Changed may call methods of the Cluster.
	Changed func()
}

// Export contains the values that the hooks returned for a Service and for the ServiceExport with
// the same name.
type Export struct {
	ID            federation.ServiceID
	Service       any // nil if there is no Service, or the hook returned nil
	ServiceExport any // nil if there is no ServiceExport
}

// CachedExports contains the values that the hooks returned for the objects of a cluster. A
// CachedExports never reflects a partial list. Do not modify a CachedExports.
type CachedExports struct {
	// List contains the Services that Listed accepted and all ServiceExports, in no particular
	// order. Each name occurs only once.
	List []Export
	// ServiceExports reports whether List contains all ServiceExports. The field is true if
	// ServiceExports have been listed, or if the API does not serve ServiceExports. If the API does
	// not serve ServiceExports, Emptied is also true.
	ServiceExports, Emptied bool

	// The following fields are only set for the local cluster.
	Namespaces map[string]bool              // Namespaces that are not being deleted; nil before their first list
	Imports    map[federation.ServiceID]any // nil before their first list
	// MCSVersion is the API version of Imports. If ServiceImports have not been listed or the API
	// does not serve ServiceImports, MCSVersion is empty.
	MCSVersion string

	// The cache field is nil for a linked cluster. If the cache field were set for a linked
	// cluster, a reference to an old CachedExports would keep the cache of a replaced or unlinked
	// cluster in memory.
	cache   *cache
	version uint64
}

// Unlisted reports whether the local cluster currently contains a Service with the given ID that
// List does not contain. Unlisted returns false for a CachedExports of a linked cluster, and for a
// CachedExports that no Cluster has created.
func (x *CachedExports) Unlisted(id federation.ServiceID) bool {
	if x.cache == nil {
		return false
	}
	x.cache.mu.RLock()
	defer x.cache.mu.RUnlock()
	e := x.cache.services.byID[id]
	return e.state() != federation.Missing && !x.cache.exports.isListed(id)
}

// exportIndex contains the values that the hooks returned. If a cluster has no hooks, its
// exportIndex is nil.
type exportIndex struct {
	// fixed
	cache      *cache
	hooks      *ExportHooks
	mcsVersion func() string // of the MCS API kinds

	// The mutex cache.mu guards the following fields.
	services       map[federation.ServiceID]any // values of the listed Services
	namespaces     map[string]any               // false if the Namespace is being deleted
	serviceExports map[string]any               // by key
	imports        map[string]any               // by key
	kinds          [ofServiceImports + 1]exportedKind
	version        uint64 // changes with the result of Exports

	latest atomic.Pointer[CachedExports]
}

// exportedKind records whether the objects of one kind have been listed, and whether they have
// changed.
type exportedKind struct {
	listed  bool
	changed bool // in a list or event that has not been applied completely
	absent  bool // the API does not serve the kind, which then counts as listed
}

// These constants are the kinds of objects that have hooks.
const (
	ofServices = iota
	ofNamespaces
	ofServiceExports
	ofServiceImports
)

func newExportIndex(c *cache, hooks *ExportHooks, mcsVersion func() string) *exportIndex {
	return &exportIndex{
		cache:          c,
		hooks:          hooks,
		mcsVersion:     mcsVersion,
		services:       make(map[federation.ServiceID]any),
		namespaces:     make(map[string]any),
		serviceExports: make(map[string]any),
		imports:        make(map[string]any),
	}
}

// current returns the result of Cluster.Exports. The receiver may be nil.
func (x *exportIndex) current() *CachedExports {
	if x == nil {
		return nil
	}
	c := x.cache
	c.mu.RLock()
	defer c.mu.RUnlock()

	version := "" // the version may change without any other change
	if imports := x.kinds[ofServiceImports]; imports.listed && !imports.absent {
		version = x.mcsVersion()
	}
	now := x.latest.Load()
	if now != nil && now.version == x.version && now.MCSVersion == version || x.pending() {
		return now
	}

	now = &CachedExports{
		List:           x.list(),
		ServiceExports: x.kinds[ofServiceExports].listed,
		Emptied:        x.kinds[ofServiceExports].absent,
		MCSVersion:     version,
		version:        x.version,
	}
	if c.local != nil {
		now.cache = c
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

// list returns the listed Services and all ServiceExports. The caller must hold cache.mu.
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
		if e := x.cache.services.byID[id]; e != nil {
			one.Service = e.spec.export()
		}
		list = append(list, one)
	}
	return list
}

// pending reports whether Exports must wait for a list to complete or for Services to be listed.
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

// setService updates the value of a Service. The from argument is nil for a new Service. The to
// argument is nil for a deleted Service. The receiver may be nil.
func (x *exportIndex) setService(key string, from, to *Service) {
	if x == nil {
		return
	}
	id := serviceID(key)
	before := from.export()
	now := to.export()
	matters := x.isListed(id) || x.serviceExports[key] != nil
	if now != nil && x.hooks.Listed(now) {
		x.services[id] = now
		matters = true
	} else {
		delete(x.services, id)
	}
	if matters && !sameExport(before, now) || x.cache.local != nil && (from == nil) != (to == nil) {
		x.kinds[ofServices].changed = true
	}
}

// forgetServices makes Exports return nil until Services have been listed again. The caller must
// hold cache.mu.
func (x *exportIndex) forgetServices() {
	if x == nil {
		return
	}
	x.kinds[ofServices].listed = false
	x.latest.Store(nil)
}

// applied is called after a complete list or a single event for a kind, so that Exports never
// reflects a partial list. If wantsList returns true, the hook has not yet read all objects of the
// kind since RelistServices was called. The receiver may be nil.
func (x *exportIndex) applied(kind int, wantsList func() bool) {
	if x == nil {
		return
	}
	x.cache.mu.Lock()
	p := &x.kinds[kind]
	changed := (p.changed || !p.listed) && !wantsList()
	if changed {
		p.listed = true
		p.changed = false
		x.version++
	}
	x.cache.mu.Unlock()
	if changed {
		x.hooks.Changed()
	}
}

// setAbsent records whether a kind is missing from the API.
func (x *exportIndex) setAbsent(kind int, absent bool) {
	x.cache.mu.Lock()
	p := &x.kinds[kind]
	changed := p.absent != absent
	p.absent = absent
	if changed {
		p.listed = true
		x.version++
	}
	x.cache.mu.Unlock()
	if changed {
		x.hooks.Changed()
	}
}

// size returns the memory that the cache uses for the value of a Service in a linked cluster, in
// bytes. The result includes the memory of the entry in Exports.
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

// serviceExportSize returns the memory that the cache uses for a ServiceExport in a linked cluster,
// in bytes. The result includes the memory of the entry in Exports.
func serviceExportSize(value any, _ string) int64 {
	return valueSize(value) + indexEntry[any]() + exportPlace
}

// exportPlace is the memory in bytes that one element of CachedExports.List uses, including its
// copies in derived lists.
var exportPlace = listSize[Export](3)

func sameExport(a, b any) bool { return reflect.DeepEqual(a, b) }

// namespaceKind defines how Namespaces are listed, watched and cached. The cached value is true if
// the Namespace is not being deleted.
func namespaceKind(c *Cluster) follow.Kind[*metav1.PartialObjectMetadata, any] {
	compact := func(o *metav1.PartialObjectMetadata) (any, bool) { return o.DeletionTimestamp == nil, true }
	return exportKind(
		c, ofNamespaces, "namespaces", c.cfg.Client.Sources.Namespaces, c.cache.exports.namespaces, compact,
	)
}

// serviceExportKind defines how ServiceExports are listed, watched and cached. A ServiceExport with
// a deletion timestamp counts as deleted.
func serviceExportKind(c *Cluster) follow.Kind[*mcs.ServiceExport, any] {
	compact := func(o *mcs.ServiceExport) (any, bool) {
		return c.cfg.Exports.ServiceExport(o), o.DeletionTimestamp == nil
	}
	k := exportKind(
		c, ofServiceExports, "serviceexports", c.cfg.Client.Sources.ServiceExports,
		c.cache.exports.serviceExports, compact,
	)
	k.Size = serviceExportSize
	return ofMCS(c, ofServiceExports, k)
}

// serviceImportKind defines how ServiceImports are listed, watched and cached.
func serviceImportKind(c *Cluster) follow.Kind[*mcs.ServiceImport, any] {
	compact := func(o *mcs.ServiceImport) (any, bool) { return c.cfg.Exports.ServiceImport(o), true }
	return ofMCS(c, ofServiceImports, exportKind(
		c, ofServiceImports, "serviceimports", c.cfg.Client.Sources.ServiceImports, c.cache.exports.imports, compact,
	))
}

// exportKind defines how a kind of object other than Services is cached for exports. The Cluster
// stores the results of the compact function in the given map.
func exportKind[O decode.Object](
	c *Cluster, kind int, name string, from decode.Source[O], all map[string]any, compact func(O) (any, bool),
) follow.Kind[O, any] {
	changed := func(string, any, any) { c.cache.exports.kinds[kind].changed = true }
	return follow.Kind[O, any]{
		Name:      name,
		Aside:     true,
		Unawaited: true,
		Source:    from,
		Compact:   compact,
		Into:      mapStore(c.cache, all, sameExport, changed),
		Applied:   func() { c.cache.exports.applied(kind, func() bool { return false }) },
	}
}

// ofMCS modifies the definition of an MCS API kind so that the index records whether the API serves
// the kind.
func ofMCS[O decode.Object](c *Cluster, kind int, k follow.Kind[O, any]) follow.Kind[O, any] {
	k.Serves = func(ctx context.Context) (bool, error) {
		there, err := c.cfg.Client.Sources.Serves(ctx, k.Name, decode.MCSVersions...)
		if !there && err == nil {
			c.cache.exports.setAbsent(kind, true)
		}
		return there, err
	}
	k.Report = func(err error) {
		if err == nil {
			c.cache.exports.setAbsent(kind, false)
		}
	}
	return k
}

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

// ExportHooks contains functions that derive values from the objects of a Cluster. The Cluster
// caches and compares these values without interpreting them. The size of the values counts toward
// the memory cap of the Cluster. The derived values must be immutable, and must not share memory
// with the original objects.
//
// The hooks may be called concurrently and must not block. The Service, Listed and Changed hooks
// are required.
type ExportHooks struct {
	// The Service hook returns the value to cache for a Service, or nil to cache nothing. After a
	// change that makes the hook return different values for the same Services, call
	// [Cluster.RelistServices].
	Service func(*corev1.Service) any
	// The Listed hook receives the cached value of a Service, which is never nil. If Listed returns
	// true, CachedExports.List includes the Service. If Listed returns false, CachedExports.List
	// includes the Service only if a ServiceExport has the same namespace and name.
	Listed func(value any) bool
	// The ServiceExport hook returns the value to cache for a ServiceExport. If this hook is nil,
	// the Cluster does not read ServiceExports.
	ServiceExport func(*mcs.ServiceExport) any
	// The ServiceImport hook returns the value to cache for a ServiceImport in the local cluster.
	// If this hook is nil, the Cluster does not read ServiceImports.
	ServiceImport func(*mcs.ServiceImport) any
	// Changed is called after the result of Cluster.Exports has changed. Changed may call methods
	// of the Cluster.
	Changed func()
}

// Export contains the values that the hooks returned for a Service and for the ServiceExport with
// the same name.
type Export struct {
	ID            federation.ServiceID
	Service       any // nil if there is no Service or the hook returned nil
	ServiceExport any // nil if there is no ServiceExport
}

// CachedExports contains the results of the export hooks for the objects of a cluster. A
// CachedExports never reflects a partial list, and must not be modified.
type CachedExports struct {
	// List contains all ServiceExports and the Services accepted by ExportHooks.Listed, in no
	// particular order. Each name occurs only once.
	List []Export
	// The ServiceExports field is true if List contains all ServiceExports. The field becomes true
	// once ServiceExports have been listed. If the API server does not serve the kind
	// ServiceExport, the ServiceExports and Emptied fields are both true.
	ServiceExports, Emptied bool

	// The following fields are set only for the local cluster.
	Namespaces map[string]bool              // Namespaces that are not being deleted; nil before the first list
	Imports    map[federation.ServiceID]any // nil before the first list
	// MCSVersion is the API version of the ServiceImports in the Imports field. MCSVersion is empty
	// if ServiceImports have not been listed or are not served.
	MCSVersion string

	// The cache field is nil for a linked cluster. Otherwise, an old CachedExports would keep a
	// linked cluster's cache in memory after the cluster had been replaced or unlinked.
	cache   *cache
	version uint64
}

// Unlisted reports whether the Service with the given ID currently exists in the local cluster, but
// is not accepted by ExportHooks.Listed. Unlisted returns false for a linked cluster, and for a
// CachedExports that was not returned by a Cluster.
func (x *CachedExports) Unlisted(id federation.ServiceID) bool {
	if x.cache == nil {
		return false
	}
	x.cache.mu.RLock()
	defer x.cache.mu.RUnlock()
	e := x.cache.services.byID[id]
	return e.state() != federation.Missing && !x.cache.exports.isListed(id)
}

type exportIndex struct {
	cache      *cache
	hooks      *ExportHooks
	mcsVersion func() string // API version of the MCS kinds

	// cache.mu guards the following fields.
	services       map[federation.ServiceID]any // values of the listed Services
	namespaces     map[string]any               // false if the Namespace is being deleted
	serviceExports map[string]any               // by key
	imports        map[string]any               // by key
	kinds          [ofServiceImports + 1]exportedKind
	version        uint64 // changes whenever the result of Exports changes

	latest atomic.Pointer[CachedExports]
}

type exportedKind struct {
	listed  bool
	changed bool // a list or event has changed objects, and has not yet been applied completely
	absent  bool // the API server does not serve the kind; the kind then counts as listed
}

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

func (x *exportIndex) current() *CachedExports {
	if x == nil {
		return nil
	}
	c := x.cache
	c.mu.RLock()
	defer c.mu.RUnlock()

	version := "" // this API version may change without any other change
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

// The caller must hold cache.mu.
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

// pending reports whether a list is incomplete, in which case Exports returns its previous result.
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

// The receiver may be nil.
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

// exportIndex.applied makes Cluster.Exports reflect the latest changes to objects of one kind. If
// there are any changes, the method calls ExportHooks.Changed. The applied method must not be
// called while a list of objects of this kind is still being applied to the cache, because Exports
// must never reflect a partial list. The wantsList function reports whether the objects must be
// listed again before the changes can be published. The receiver may be nil.
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

// The size of an export value includes its entry in CachedExports.List.
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

// The size of a ServiceExport includes its entry in CachedExports.List.
func serviceExportSize(value any, _ string) int64 {
	return valueSize(value) + indexEntry[any]() + exportPlace
}

// exportPlace is the number of bytes that one Export uses in CachedExports.List and in the lists
// derived from it.
var exportPlace = listSize[Export](3)

func sameExport(a, b any) bool { return reflect.DeepEqual(a, b) }

// The cached value is false if the Namespace is being deleted.
func namespaceKind(c *Cluster) follow.Kind[*metav1.PartialObjectMetadata, any] {
	compact := func(o *metav1.PartialObjectMetadata) (any, bool) { return o.DeletionTimestamp == nil, true }
	return exportKind(
		c, ofNamespaces, "namespaces", c.cfg.Client.Sources.Namespaces, c.cache.exports.namespaces, compact,
	)
}

// A ServiceExport with a deletion timestamp is treated as deleted.
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

func serviceImportKind(c *Cluster) follow.Kind[*mcs.ServiceImport, any] {
	compact := func(o *mcs.ServiceImport) (any, bool) { return c.cfg.Exports.ServiceImport(o), true }
	return ofMCS(c, ofServiceImports, exportKind(
		c, ofServiceImports, "serviceimports", c.cfg.Client.Sources.ServiceImports, c.cache.exports.imports, compact,
	))
}

// exportKind defines how objects of a kind other than Service are cached for exports.
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

// ofMCS adds hooks to a resource of the MCS API. The hooks record in the export index whether the
// API server serves the resource.
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

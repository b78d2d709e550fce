package cluster

import (
	"reflect"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"

	"isthmus/clusterstore/follow"
	"isthmus/local/exports/object"
	"isthmus/local/exports/plan"
)

// ExportConfig makes a Cluster keep what it exports. Both functions are needed.
type ExportConfig struct {
	// Selectors returns which Services are exported. It is called for each Service that is read, by several goroutines, and must
	// not block. When its result has changed, call [Cluster.SelectorsChanged].
	Selectors func() plan.Selectors
	// ServiceExports is whether ServiceExports are read, of the local cluster also ServiceImports.
	ServiceExports bool
	// Changed is called after the result of Exports has changed. No lock is held then, and it may call methods of the
	// Cluster. It must not block.
	Changed func()
}

// Exports is what a cluster exports: all of it, as a whole list or an event has left it. It must not be changed.
type Exports struct {
	List []plan.Export // in no order
	// ServiceExports is whether List has what these export: they have been listed, or the cluster does not have them as a kind of
	// object, which is Emptied then.
	ServiceExports, Emptied bool

	// Only of the local cluster:
	Services   map[plan.ID]*plan.Service       // all; of those that are neither exported nor written, no more than that they are there
	Namespaces map[string]bool                 // that are not being deleted
	Imports    map[plan.ID]*plan.ServiceImport // nil: they have not been listed; of those that no gateway wrote, no more than that they are there
	MCSVersion string                          // of Imports; empty: these have not been listed, or are no kind of object

	version uint64
}

// taken stands for all Services of which no more is kept than that they are there.
var taken = &plan.Service{}

// Exports returns what the cluster exports. What was read stays while its API can't be reached. nil: the Services, or of the own
// cluster also the Namespaces, have not been listed yet, or not since other selectors are in force, or Config.Exports is nil.
func (c *Cluster) Exports() *Exports {
	s := c.state
	s.mu.RLock()
	defer s.mu.RUnlock()
	x := s.exports
	if x == nil {
		return nil
	}
	version := "" // a list in another one need not change anything else
	if imports := x.parts[ofServiceImports]; imports.listed && !imports.absent {
		version = c.cfg.Client.Sources.MCSVersion()
	}
	now := x.latest.Load()
	if now != nil && now.version == x.version && now.MCSVersion == version || x.pending() {
		return now
	}
	now = &Exports{version: x.version, MCSVersion: version, ServiceExports: x.parts[ofServiceExports].listed, Emptied: x.parts[ofServiceExports].absent, List: s.exportList()}
	if imports := x.parts[ofServiceImports]; imports.listed {
		now.Imports = make(map[plan.ID]*plan.ServiceImport, len(x.imports))
		for key, i := range x.imports {
			now.Imports[plan.ID(serviceID(key))] = i
		}
	}
	if x.own {
		now.Namespaces = make(map[string]bool, len(x.namespaces))
		for name, lasts := range x.namespaces {
			if lasts {
				now.Namespaces[name] = true
			}
		}
		now.Services = make(map[plan.ID]*plan.Service, len(s.services.byID))
		for id, e := range s.services.byID {
			if e.spec == nil {
				continue
			}
			there := taken
			if kept := e.spec.export(); kept != nil && (isLabelled(kept) || plan.IsWritten(kept.Service.Labels)) {
				there = kept.Service
			}
			now.Services[plan.ID(id)] = there
		}
	}
	x.latest.Store(now)
	return now
}

// SelectorsChanged makes all Services be listed again, and judged by what ExportConfig.Selectors returns now. Until they have been
// listed it is not known what is exported. It does not block.
func (c *Cluster) SelectorsChanged() {
	c.state.mu.Lock()
	defer c.state.mu.Unlock()
	c.state.exports.parts[ofServices].listed = false
	c.state.exports.latest.Store(nil)
	c.resources[0].ListAgain() // of Services
}

// readExport returns a Service that is exported by its labels or, in the local cluster, was written for exports, and what ServiceExports
// need of any other; nil: there is nothing to keep. What only ServiceImports have
// of it is left out where ServiceExports are not read.
func (c *Cluster) readExport(o *corev1.Service) *plan.Export {
	selectors := c.cfg.Exports.Selectors()
	mirror, federated := selectors.Match(o.Labels)
	whole := mirror || federated || c.cfg.local != nil && plan.IsWritten(o.Labels)
	if !whole && !c.cfg.Exports.ServiceExports {
		return nil
	}
	kept := object.Read(o)
	if !c.cfg.Exports.ServiceExports {
		kept.Traffic = plan.Traffic{}
	}
	e := selectors.Export(kept, mirror, federated)
	if !whole {
		e.Service.Reduce()
	}
	return e
}

// isLabelled reports whether labels say that something is exported.
func isLabelled(e *plan.Export) bool { return e != nil && (e.Mirror || e.Federated) }

// exportSize is what is cached of a Service for exports. What is exported by its labels also has a place in what
// Exports returns. If e is nil, exportSize is zero.
func exportSize(e *plan.Export) int64 {
	if e == nil {
		return 0
	}
	n := sizeof[plan.Export]() + textSize(e.Namespace) + textSize(e.Name)
	if isLabelled(e) {
		n += listSize[plan.Export](2)
	}
	s := e.Service
	if s == nil {
		return n
	}
	n += allocation + sizeof[plan.Service]() +
		textSize(s.Namespace) + textSize(s.Name) + textSize(s.UID) + textSize(s.Type) +
		textsSize(s.ClusterIPs) + textsSize(s.IPFamilies) + textSize(s.IPFamilyPolicy) + textSize(s.OwnerKind) +
		textSize(s.OwnerName) + textSize(s.OwnerUID) + textMapSize(s.Labels) + textMapSize(s.Annotations) +
		listSize[plan.Port](cap(s.Ports)) + textSize(s.SessionAffinity) + textSize(s.InternalTrafficPolicy) +
		textSize(s.TrafficDistribution)
	for i := range s.Ports {
		p := &s.Ports[i]
		n += textSize(p.Name) + textSize(p.Protocol) + textSize(p.AppProtocol) + textSize(p.Target)
	}
	return n
}

// serviceExportSize is what the state takes for a ServiceExport of a linked cluster, with its place in what Exports
// returns.
func serviceExportSize(e *plan.ServiceExport, _ string) int64 {
	return sizeof[plan.ServiceExport]() + indexEntry[*plan.ServiceExport]() + listSize[plan.Export](2) +
		textSize(e.UID) + textMapSize(e.Labels) + textMapSize(e.Annotations)
}

func sameExport(a, b *plan.Export) bool { return a == b || reflect.DeepEqual(a, b) }

// exportList returns what is exported. mu is held.
func (s *state) exportList() (list []plan.Export) {
	x := s.exports
	for id, e := range s.services.byID {
		if kept := e.spec.export(); isLabelled(kept) {
			one := *kept
			one.Exported = x.serviceExports[follow.JoinKey(id.Namespace, id.Name)]
			list = append(list, one)
		}
	}
	for key, e := range x.serviceExports {
		one := plan.Export{ID: plan.ID(serviceID(key)), Exported: e}
		if of := s.services.byID[serviceID(key)]; of != nil {
			kept := of.spec.export()
			if isLabelled(kept) {
				continue
			}
			if kept != nil {
				one.Service = kept.Service
			}
		}
		list = append(list, one)
	}
	return list
}

// exportIndex has what is exported. nil: nothing is kept for it.
type exportIndex struct {
	own bool // fixed

	// Under state.mu, by key:
	namespaces     map[string]bool // false: it is being deleted
	serviceExports map[string]*plan.ServiceExport
	imports        map[string]*plan.ServiceImport
	parts          [ofServiceImports + 1]exportPart
	version        uint64 // of what there is, without what is pending

	latest atomic.Pointer[Exports]
}

// exportPart is one of the resources that exports are made of.
type exportPart struct {
	listed  bool
	changed bool // within a list or event that has not come to its end
	absent  bool // the API does not have the kind; then it counts as listed
}

// Those from ofServiceExports on are optional: what there is is whole without them.
const (
	ofServices = iota
	ofNamespaces
	ofServiceExports
	ofServiceImports
)

func newExportIndex(own bool) *exportIndex {
	x := &exportIndex{
		own: own, namespaces: make(map[string]bool),
		serviceExports: make(map[string]*plan.ServiceExport), imports: make(map[string]*plan.ServiceImport),
	}
	x.parts[ofNamespaces].listed = !own
	return x
}

// pending reports whether what there is is not whole: a list has not come, or is being put into the state.
func (x *exportIndex) pending() bool {
	for i, p := range x.parts {
		if p.changed || !p.listed && i < ofServiceExports {
			return true
		}
	}
	return false
}

// setService follows a Service; nil: there is none.
func (x *exportIndex) setService(key string, from, to *Service) {
	if x == nil {
		return
	}
	before, now := from.export(), to.export()
	matters := func(e *plan.Export) bool {
		return isLabelled(e) || x.serviceExports[key] != nil || x.own && e != nil && plan.IsWritten(e.Service.Labels)
	}
	if (matters(before) || matters(now)) && !sameExport(before, now) || x.own && (from == nil) != (to == nil) {
		x.parts[ofServices].changed = true
	}
}

// exportsApplied is called after a whole list, or an event, of one of the parts: what others see is never a part of a list.
func (c *Cluster) exportsApplied(part int) {
	x := c.state.exports
	if x == nil {
		return
	}
	c.state.mu.Lock()
	p := &x.parts[part]
	changed := p.changed || !p.listed
	if part == ofServices && c.resources[0].Stale() {
		changed = false // some are still judged by the selectors of before
	}
	if changed {
		p.listed, p.changed = true, false
		x.version++
	}
	c.state.mu.Unlock()
	if changed {
		c.cfg.Exports.Changed()
	}
}

package cluster

import (
	"reflect"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"isthmus/clusterstore/follow"
	"isthmus/federation"
	"isthmus/local/exports/object"
	"isthmus/local/exports/plan"
)

// ExportConfig makes a Cluster keep what it exports. Both functions are needed.
type ExportConfig struct {
	// Selectors returns which Services are exported. It is called for each Service that is read, by several goroutines, and must
	// not block. When its result has changed, call [Cluster.SelectorsChanged].
	Selectors func() plan.Selectors
	// Changed is called after the result of Exports has changed. No lock is held then, and it may call methods of the
	// Cluster. It must not block.
	Changed func()
}

// Exports is what a cluster exports: all of it, as a whole list or an event has left it. It must not be changed.
type Exports struct {
	List []plan.Export // in no order

	// Only of the own cluster:
	Services   map[plan.ID]*plan.Service // all; of those that are neither exported nor written, no more than that they are there
	Namespaces map[string]bool           // that are not being deleted

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
	now := x.latest.Load()
	if now != nil && now.version == x.version || x.pending() {
		return now
	}
	now = &Exports{version: x.version}
	for _, e := range x.exported {
		if e.Mirror || e.Federated {
			now.List = append(now.List, *e)
		}
	}
	if x.own {
		now.Namespaces = make(map[string]bool, len(x.namespaces))
		for name, lasts := range x.namespaces {
			if lasts {
				now.Namespaces[name] = true
			}
		}
		now.Services = make(map[plan.ID]*plan.Service, len(s.services))
		for id, e := range s.services {
			if e.spec == nil {
				continue
			}
			there := taken
			if kept := e.spec.export(); kept != nil {
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

// readExport returns a Service that is exported or, in the own cluster, was written for exports; nil: it is neither. Its version is
// left out, since most changes of a Service don't matter here, and so is what only ServiceImports have of it.
func (c *Cluster) readExport(o *corev1.Service) *plan.Export {
	selectors := c.cfg.Exports.Selectors()
	mirror, federated := selectors.Match(o.Labels)
	if !mirror && !federated && !(c.cfg.own != nil && plan.IsWritten(o.Labels)) {
		return nil
	}
	kept := object.Read(o)
	kept.Version, kept.Traffic = "", plan.Traffic{}
	return selectors.Export(kept, mirror, federated)
}

// exportPlaces counts the places that an export has in the index, and in what Exports returns.
func exportPlaces(s *Service) int {
	if s.export() == nil {
		return 0
	}
	return 2
}

func sameExport(a, b *plan.Export) bool { return a == b || reflect.DeepEqual(a, b) }

// exportIndex has what is exported. nil: nothing is kept for it.
type exportIndex struct {
	own bool // fixed

	// Under state.mu:
	exported   map[federation.ServiceID]*plan.Export
	namespaces map[string]bool // false: it is being deleted
	parts      [ofNamespaces + 1]exportPart
	version    uint64 // of what there is, without what is pending

	latest atomic.Pointer[Exports]
}

// exportPart is one of the resources that exports are made of.
type exportPart struct {
	listed  bool
	changed bool // within a list or event that has not come to its end
}

const (
	ofServices = iota
	ofNamespaces
)

func newExportIndex(own bool) *exportIndex {
	x := &exportIndex{own: own, exported: make(map[federation.ServiceID]*plan.Export), namespaces: make(map[string]bool)}
	x.parts[ofNamespaces].listed = !own
	return x
}

// pending reports whether what there is is not whole: a list has not come, or is being put into the state.
func (x *exportIndex) pending() bool {
	for _, p := range x.parts {
		if !p.listed || p.changed {
			return true
		}
	}
	return false
}

// setService follows a Service; nil: there is none.
func (x *exportIndex) setService(id federation.ServiceID, from, to *Service) {
	if x == nil {
		return
	}
	before, now := from.export(), to.export()
	if now == nil {
		delete(x.exported, id)
	} else {
		x.exported[id] = now
	}
	if !sameExport(before, now) || x.own && (from == nil) != (to == nil) {
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
		*p = exportPart{listed: true}
		x.version++
	}
	c.state.mu.Unlock()
	if changed {
		c.cfg.Exports.Changed()
	}
}

// namespaces follows Namespaces: whether they are there, and are to stay.
func (c *Cluster) namespaces() follow.Kind[*metav1.PartialObjectMetadata, bool] {
	x := c.state.exports
	same := func(a, b bool) bool { return a == b }
	get := func(name string) (lasts, exists bool) { lasts, exists = x.namespaces[name]; return lasts, exists }
	set := func(name string, lasts, exists bool) {
		x.parts[ofNamespaces].changed = true
		if exists {
			x.namespaces[name] = lasts
		} else {
			delete(x.namespaces, name)
		}
	}
	return follow.Kind[*metav1.PartialObjectMetadata, bool]{
		Name: "namespaces", Aside: true,
		Source:  c.cfg.Client.Sources.Namespaces,
		Compact: func(o *metav1.PartialObjectMetadata) (bool, bool) { return o.DeletionTimestamp == nil, true },
		Into:    lockedStore[bool]{c.state, newStoreFuncs(get, same, set, keysOf(x.namespaces, func(bool) bool { return true }))},
		Same:    same,
		Applied: func() { c.exportsApplied(ofNamespaces) },
	}
}

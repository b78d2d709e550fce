package cluster

import (
	"unique"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"isthmus/clusterstore/follow"
	"isthmus/federation"
)

const (
	zoneLabel   = "topology.kubernetes.io/zone"
	regionLabel = "topology.kubernetes.io/region"
)

// nodeLabels is what is kept of a Node.
type nodeLabels struct{ zone, region unique.Handle[string] }

// nodeIndex has the cluster's Nodes.
type nodeIndex struct {
	byName  map[string]nodeLabels
	regions map[unique.Handle[string]]int // how many of them have that region; there is none with 0
	region  string                        // of all, when a list or event was last complete
}

func newNodeIndex() nodeIndex {
	return nodeIndex{byName: make(map[string]nodeLabels), regions: make(map[unique.Handle[string]]int)}
}

// nodes follows Nodes.
func (c *Cluster) nodes() follow.Kind[*metav1.PartialObjectMetadata, nodeLabels] {
	k := follow.Kind[*metav1.PartialObjectMetadata, nodeLabels]{
		Name: "nodes", Aside: c.cfg.Name != federation.Local, // of linked clusters only the region follows from them
		Source:  c.cfg.Client.Sources.Nodes,
		Serves:  c.serves(schema.GroupVersionResource{Version: "v1", Resource: "nodes"}),
		Compact: compactNode,
		Into:    lockedStore[nodeLabels]{c.state, c.state.nodeStore()},
		Shared:  nodeLabels.shared,
		Same:    func(a, b nodeLabels) bool { return a == b },
		Applied: c.updateRegion,
	}
	if own := c.cfg.own; own != nil {
		k.Changed = func(name string, n nodeLabels, exists bool) {
			zone := ""
			if exists {
				zone = n.zone.Value()
			}
			own.NodeChanged(name, zone, exists)
		}
	}
	return k
}

// compactNode keeps a Node's zone and region. A region that can't be shown is none.
func compactNode(o *metav1.PartialObjectMetadata) (nodeLabels, bool) {
	region := o.Labels[regionLabel]
	if !sendableText(region) {
		region = ""
	}
	return nodeLabels{zone: unique.Make(o.Labels[zoneLabel]), region: unique.Make(region)}, true
}

// Region returns the one region that all Nodes have (topology.kubernetes.io/region);
// empty: there are no Nodes, they differ, one has none, or they are not read (yet). What
// was read stays while Nodes can't be read.
func (c *Cluster) Region() string {
	c.state.mu.RLock()
	defer c.state.mu.RUnlock()
	return c.state.nodes.region
}

// updateRegion is called after a whole list, or an event, so that no part of a list
// counts.
func (c *Cluster) updateRegion() {
	s := c.state
	s.mu.Lock()
	now := s.nodes.commonRegion()
	changed := now != s.nodes.region
	s.nodes.region = now
	s.mu.Unlock()
	if changed && c.cfg.RegionChanged != nil {
		c.cfg.RegionChanged()
	}
}

func (x *nodeIndex) commonRegion() string {
	if len(x.regions) != 1 {
		return ""
	}
	for region := range x.regions {
		return region.Value()
	}
	return ""
}

// countRegion adds to the number of Nodes with a region.
func (x *nodeIndex) countRegion(region unique.Handle[string], n int) {
	if x.regions[region] += n; x.regions[region] == 0 {
		delete(x.regions, region)
	}
}

func (s *state) nodeStore() storeFuncs[nodeLabels] {
	x := &s.nodes
	same := func(a, b nodeLabels) bool { return a == b }
	return newStoreFuncs(x.get, same, x.set, keysOf(x.byName, func(nodeLabels) bool { return true }))
}

func (x *nodeIndex) get(name string) (n nodeLabels, exists bool) {
	n, exists = x.byName[name]
	return n, exists
}

func (x *nodeIndex) set(name string, to nodeLabels, exists bool) {
	if before, existed := x.byName[name]; existed {
		x.countRegion(before.region, -1)
	}
	if !exists {
		delete(x.byName, name)
		return
	}
	x.byName[name] = to
	x.countRegion(to.region, 1)
}

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

// nodes follows Nodes.
func (c *Cluster) nodes() follow.Kind[*metav1.PartialObjectMetadata, nodeLabels] {
	k := follow.Kind[*metav1.PartialObjectMetadata, nodeLabels]{
		Name: "nodes", Aside: c.cfg.Name != federation.Local, // of linked clusters only the region follows from them
		Source:  c.cfg.Client.Sources.Nodes,
		Serves:  c.serves(schema.GroupVersionResource{Version: "v1", Resource: "nodes"}),
		Compact: compactNode,
		Into:    mapStore(c.state, c.state.nodes, func(a, b nodeLabels) bool { return a == b }, c.state.countRegions),
		Size:    nodeLabels.size,
		Shared:  nodeLabels.shared,
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

// size is what the state takes for a Node.
func (n nodeLabels) size(string) int64 { return indexEntry[nodeLabels]() }

// shared yields the zone and the region. The region is also a key of state.regions.
func (n nodeLabels) shared(yield func(any, int64) bool) {
	_ = yield(n.zone, uniqueText(n.zone)) && yield(n.region, uniqueText(n.region)+indexEntry[int]())
}

// compactNode keeps a Node's zone and region. A region that can't be shown is none.
func compactNode(o *metav1.PartialObjectMetadata) (nodeLabels, bool) {
	region := o.Labels[regionLabel]
	if !sendableText(region) {
		region = ""
	}
	return nodeLabels{zone: unique.Make(o.Labels[zoneLabel]), region: unique.Make(region)}, true
}

// Region returns the one region that all Nodes have (topology.kubernetes.io/region). It is empty if there are no Nodes,
// they differ, or one has none. If known is false, Nodes have never been listed. What was read stays while Nodes can't
// be read.
func (c *Cluster) Region() (region string, known bool) {
	c.state.mu.RLock()
	defer c.state.mu.RUnlock()
	return c.state.region, c.state.regionKnown
}

// updateRegion is called after a whole list, or an event, so that no part of a list
// counts.
func (c *Cluster) updateRegion() {
	s := c.state
	s.mu.Lock()
	now := s.commonRegion()
	changed := now != s.region || !s.regionKnown
	s.region, s.regionKnown = now, true
	s.mu.Unlock()
	if changed && c.cfg.LinkChanged != nil {
		c.cfg.LinkChanged()
	}
}

func (s *state) commonRegion() string {
	if len(s.regions) != 1 {
		return ""
	}
	for region := range s.regions {
		return region.Value()
	}
	return ""
}

// countRegions is called after a change of a Node.
func (s *state) countRegions(_ string, before, now nodeLabels) {
	s.countRegion(before.region, -1)
	s.countRegion(now.region, 1)
}

// countRegion adds to the number of Nodes with a region. The zero handle is that of no Node.
func (s *state) countRegion(region unique.Handle[string], n int) {
	var none unique.Handle[string]
	if s.regions[region] += n; s.regions[region] == 0 || region == none {
		delete(s.regions, region)
	}
}

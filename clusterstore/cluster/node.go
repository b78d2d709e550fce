package cluster

import (
	"net/netip"
	"slices"
	"unique"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"isthmus/clusterstore/decode"
	"isthmus/clusterstore/follow"
)

const (
	zoneLabel   = "topology.kubernetes.io/zone"
	regionLabel = "topology.kubernetes.io/region"
)

// node is what is cached of a Node.
type node struct {
	zone, region unique.Handle[string]
	// addresses are sorted, each once. Of the Nodes of linked clusters they are not read.
	addresses []netip.Addr
}

func (n node) equal(o node) bool {
	return n.zone == o.zone && n.region == o.region && slices.Equal(n.addresses, o.addresses)
}

// size is what the state takes for a Node. Only linked clusters have a memory cap, and their Nodes have no addresses.
func (n node) size(string) int64 { return indexEntry[node]() }

// shared yields the zone and the region. The region is also a key of state.regions.
func (n node) shared(yield func(any, int64) bool) {
	_ = yield(n.zone, uniqueText(n.zone)) && yield(n.region, uniqueText(n.region)+indexEntry[int]())
}

// localNodes follows the Nodes of the local cluster with their addresses.
func (c *Cluster) localNodes() follow.Kind[*corev1.Node, node] {
	k := nodes(c, c.cfg.Client.Sources.Nodes, compactLocalNode)
	k.Changed = func(name string, n node, exists bool) {
		zone := ""
		if exists {
			zone = n.zone.Value()
		}
		c.cfg.own.NodeChanged(name, zone, exists)
	}
	return k
}

// linkedNodes follows the Nodes of a linked cluster, of which only the metadata is read.
func (c *Cluster) linkedNodes() follow.Kind[*metav1.PartialObjectMetadata, node] {
	k := nodes(c, c.cfg.Client.Sources.NodeMetadata, compactLinkedNode)
	k.Aside = true // only the region follows from them
	return k
}

func nodes[O decode.Object](c *Cluster, source decode.Source[O], compact func(O) (node, bool)) follow.Kind[O, node] {
	return follow.Kind[O, node]{
		Name:    "nodes",
		Source:  source,
		Serves:  c.serves(schema.GroupVersionResource{Version: "v1", Resource: "nodes"}),
		Compact: compact,
		Into:    mapStore(c.state, c.state.nodes, node.equal, c.state.nodeChanged),
		Size:    node.size,
		Shared:  node.shared,
		Applied: c.updateRegion,
	}
}

// compactLocalNode keeps a Node's addresses besides its zone and region. Addresses that are names are left out.
func compactLocalNode(o *corev1.Node) (node, bool) {
	n := nodeOf(o.Labels)
	for _, a := range o.Status.Addresses {
		if ip, ok := parseIP(a.Address); ok {
			n.addresses = append(n.addresses, ip)
		}
	}
	slices.SortFunc(n.addresses, netip.Addr.Compare)
	n.addresses = slices.Clip(slices.Compact(n.addresses))
	return n, true
}

func compactLinkedNode(o *metav1.PartialObjectMetadata) (node, bool) { return nodeOf(o.Labels), true }

// nodeOf returns a Node's zone and region. A region that can't be shown is none.
func nodeOf(labels map[string]string) node {
	region := labels[regionLabel]
	if !sendableText(region) {
		region = ""
	}
	return node{zone: unique.Make(labels[zoneLabel]), region: unique.Make(region)}
}

// nodeChanged is called after a change of a Node. The zero node stands for none.
func (s *state) nodeChanged(name string, before, now node) {
	s.countRegion(before.region, -1)
	s.countRegion(now.region, 1)
	if s.own == nil {
		return
	}
	for _, ip := range before.addresses {
		unindex(s.own.nodes, ip, name)
	}
	for _, ip := range now.addresses {
		s.own.nodes[ip] = append(s.own.nodes[ip], name)
	}
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

// countRegion adds to the number of Nodes with a region. The zero handle is that of no Node.
func (s *state) countRegion(region unique.Handle[string], n int) {
	var none unique.Handle[string]
	if s.regions[region] += n; s.regions[region] == 0 || region == none {
		delete(s.regions, region)
	}
}

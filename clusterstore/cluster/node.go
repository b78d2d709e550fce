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

type node struct {
	zone, region unique.Handle[string]
	// The addresses are sorted and contain no duplicates. In a linked cluster, the list of
	// addresses is always empty.
	addresses []netip.Addr
}

func (n node) equal(o node) bool {
	return n.zone == o.zone && n.region == o.region && slices.Equal(n.addresses, o.addresses)
}

// The addresses of Nodes are not counted, because they are cached only for the local cluster, which
// has no memory cap.
func (n node) size(string) int64 { return indexEntry[node]() }

// shared yields the values that Nodes share, each with its size. The size of a region includes its
// entry in nodeIndex.regions.
func (n node) shared(yield func(any, int64) bool) {
	_ = yield(n.zone, uniqueText(n.zone)) && yield(n.region, uniqueText(n.region)+indexEntry[int]())
}

// localNodeKind caches the addresses of Nodes in addition to their zones and regions.
func localNodeKind(c *Cluster) follow.Kind[*corev1.Node, node] {
	k := nodeKind(c, c.cfg.Client.Sources.Nodes, compactLocalNode)
	k.Changed = func(name string, n node, exists bool) {
		zone := ""
		if exists {
			zone = n.zone.Value()
		}
		c.cfg.local.NodeChanged(name, zone, exists)
	}
	return k
}

// Isthmus reads only the metadata of Nodes in a linked cluster.
func linkedNodeKind(c *Cluster) follow.Kind[*metav1.PartialObjectMetadata, node] {
	k := nodeKind(c, c.cfg.Client.Sources.NodeMetadata, compactLinkedNode)
	k.Aside = true // only the region depends on these Nodes
	return k
}

func nodeKind[O decode.Object](c *Cluster, source decode.Source[O], compact func(O) (node, bool)) follow.Kind[O, node] {
	return follow.Kind[O, node]{
		Name:    "nodes",
		Source:  source,
		Serves:  c.serves(schema.GroupVersionResource{Version: "v1", Resource: "nodes"}),
		Compact: compact,
		Into:    mapStore(c.cache, c.cache.nodes.byName, node.equal, c.cache.nodes.set),
		Size:    node.size,
		Shared:  node.shared,
		Applied: func() { c.updateLink(c.cache.nodes.updateRegion) },
	}
}

// compactLocalNode ignores addresses that are hostnames.
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

func expandNode(n node) *metav1.PartialObjectMetadata {
	labels := nonEmpty(map[string]string{zoneLabel: n.zone.Value(), regionLabel: n.region.Value()})
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Labels: labels}}
}

// nodeOf returns the zone and region of a Node. If the region is not safe to display, nodeOf
// returns an empty region.
func nodeOf(labels map[string]string) node {
	region := labels[regionLabel]
	if !sendableText(region) {
		region = ""
	}
	return node{zone: unique.Make(labels[zoneLabel]), region: unique.Make(region)}
}

type nodeIndex struct {
	cache       *cache
	byName      map[string]node
	regions     map[unique.Handle[string]]int // number of Nodes per region, without zero entries
	region      string                        // region of all Nodes after the last complete list or event
	regionKnown bool                          // whether Nodes have been listed
}

func newNodeIndex(c *cache) nodeIndex {
	return nodeIndex{
		cache:   c,
		byName:  make(map[string]node),
		regions: make(map[unique.Handle[string]]int),
	}
}

func (x *nodeIndex) set(name string, before, now node) {
	x.countRegion(before.region, -1)
	x.countRegion(now.region, 1)
	if x.cache.local == nil {
		return
	}
	for _, ip := range before.addresses {
		unindex(x.cache.local.addresses.nodes, ip, name)
	}
	for _, ip := range now.addresses {
		x.cache.local.addresses.nodes[ip] = append(x.cache.local.addresses.nodes[ip], name)
	}
}

// updateRegion updates the cached region of the cluster. If the Nodes are in different regions, the
// region of the cluster is empty. The result is true if the region has changed or was unknown.
// updateRegion must not be called while a list of Nodes is still being applied to the cache.
func (x *nodeIndex) updateRegion() (changed bool) {
	now := x.commonRegion()
	changed = now != x.region || !x.regionKnown
	x.region = now
	x.regionKnown = true
	return changed
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

func (x *nodeIndex) countRegion(region unique.Handle[string], n int) {
	var none unique.Handle[string]
	if x.regions[region] += n; x.regions[region] == 0 || region == none {
		delete(x.regions, region)
	}
}

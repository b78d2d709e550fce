package wire

import (
	"cmp"
	"encoding/binary"
	"hash/fnv"
	"slices"

	"isthmus/federation"
)

// spread orders the endpoints of a set that is too large for one message. A proxy
// that reconnects drops what the first message does not hold, until the next one
// comes. So however many fit, they are of each cluster about its share, and of each
// of its zones: no cluster and no zone vanishes. Which they are follows from their
// addresses, so that the next stream, and another replica, begin with the same.
func spread(list []*federation.Endpoint) []*federation.Endpoint {
	all := make([]placed, len(list))
	for i, ep := range list {
		all[i] = placed{ep: ep, hash: hashAddr(ep)}
	}
	slices.SortFunc(all, func(a, b placed) int {
		return cmp.Or(cmp.Compare(a.hash, b.hash), a.ep.Addr.Compare(b.ep.Addr))
	})
	interleave(all, func(ep *federation.Endpoint) clusterZone { return clusterZone{ep.Cluster, ep.Zone} })
	interleave(all, func(ep *federation.Endpoint) federation.ClusterName { return ep.Cluster })
	order := make([]*federation.Endpoint, len(all))
	for i, p := range all {
		order[i] = p.ep
	}
	return order
}

// placed is an endpoint, and where it is among those of its group: 0 is the
// first, and just below 1 the last.
type placed struct {
	ep   *federation.Endpoint
	hash uint64
	at   float64
}

type clusterZone struct {
	cluster federation.ClusterName
	zone    string
}

// interleave lets groups take turns, each as often as its size says. Within a
// group the order stays.
func interleave[K comparable](all []placed, group func(*federation.Endpoint) K) {
	size, rank := make(map[K]int), make(map[K]int)
	for _, p := range all {
		size[group(p.ep)]++
	}
	for i := range all {
		k := group(all[i].ep)
		all[i].at = float64(rank[k]) / float64(size[k])
		rank[k]++
	}
	slices.SortStableFunc(all, func(a, b placed) int { return cmp.Compare(a.at, b.at) })
}

// hashAddr depends on nothing but the address.
func hashAddr(ep *federation.Endpoint) uint64 {
	ip := ep.Addr.Addr().As16()
	h := fnv.New64a()
	h.Write(binary.BigEndian.AppendUint16(ip[:], ep.Addr.Port()))
	return h.Sum64()
}

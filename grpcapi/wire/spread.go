package wire

import (
	"cmp"
	"encoding/binary"
	"hash/fnv"
	"slices"

	"isthmus/federation"
)

// spread orders the endpoints of a set that is too large for one message. A proxy
// that reconnects drops all endpoints that are not in the first message, until it
// receives the next one. So however many fit, the first message has a fair share of
// each cluster, and of each of its zones: none of them vanishes. The order depends on
// the addresses only, so that the next stream, and another replica, begin with the
// same endpoints.
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

// placed is an endpoint and its position in its group.
type placed struct {
	ep       *federation.Endpoint
	hash     uint64
	position float64 // 0 is the first, just below 1 the last
}

type clusterZone struct {
	cluster federation.ClusterName
	zone    string
}

// interleave mixes groups in proportion to their sizes. The order within
// a group stays the same.
func interleave[K comparable](all []placed, group func(*federation.Endpoint) K) {
	size, rank := make(map[K]int), make(map[K]int)
	for _, p := range all {
		size[group(p.ep)]++
	}
	for i := range all {
		k := group(all[i].ep)
		all[i].position = float64(rank[k]) / float64(size[k])
		rank[k]++
	}
	slices.SortStableFunc(all, func(a, b placed) int { return cmp.Compare(a.position, b.position) })
}

// hashAddr hashes the address, and nothing else.
func hashAddr(ep *federation.Endpoint) uint64 {
	ip := ep.Addr.Addr().As16()
	h := fnv.New64a()
	h.Write(binary.BigEndian.AppendUint16(ip[:], ep.Addr.Port()))
	return h.Sum64()
}

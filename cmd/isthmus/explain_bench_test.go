package main

import (
	"fmt"
	"net/netip"
	"testing"

	"isthmus/federation"
	"isthmus/grpcapi"
)

// BenchmarkExplainPage writes the page of a service with as many addresses as are listed.
func BenchmarkExplainPage(b *testing.B) {
	x := &grpcapi.Explanation{Explanation: &federation.Explanation{Set: &federation.Set{}, Members: []federation.WatchedMember{{}}}}
	for i := range maxExplained {
		e := &federation.Endpoint{
			Addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), 80), Kind: federation.Pod, Node: "node-1", Zone: "a",
			Twin: fmt.Sprintf("shop/web-5f79f964bc-%05d", i), Common: &federation.Common{Identity: federation.Identity{DNS: "web.shop.serviceaccount.identity.linkerd.cluster.local"}},
		}
		x.Addresses = append(x.Addresses, federation.ExplainedAddress{Considered: federation.Considered{Slice: "shop/web-1", Addr: e.Addr, Target: e.Twin}, Endpoint: e})
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := encodePage(newExplainPage(x, nil, nil)).err; err != nil {
			b.Fatal(err)
		}
	}
}

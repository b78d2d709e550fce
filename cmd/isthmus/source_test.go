package main

import (
	"fmt"
	"net/netip"
	"strings"

	"isthmus/federation"
)

// source is a cluster, by the addresses that it offers of each Service; nil: it has no such Service.
type source struct {
	cluster federation.ClusterName
	offers  func(federation.ServiceID) []netip.AddrPort
}

// newOffers returns a cluster with one Service in namespace shop.
func newOffers(cluster federation.ClusterName, has string, addrs ...string) *source {
	list := []netip.AddrPort{}
	for _, a := range addrs {
		list = append(list, netip.MustParseAddrPort(a))
	}
	return &source{cluster, func(id federation.ServiceID) []netip.AddrPort {
		if id != shopID(has) {
			return nil
		}
		return list
	}}
}

// numbered returns a cluster with every Service. Each web-N has so many endpoints, which no other has.
func numbered(cluster federation.ClusterName, number, endpoints int) *source {
	return &source{cluster, func(id federation.ServiceID) (list []netip.AddrPort) {
		var n int
		_, _ = fmt.Sscanf(id.Name, "web-%d", &n) // other names have number 0
		for i := range endpoints {
			n := n*endpoints + i
			list = append(list, netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, byte(number), byte(n >> 8), byte(n)}), 80))
		}
		return list
	}}
}

func (s *source) State(id federation.ServiceID) federation.ServiceState {
	if s.offers(id) == nil {
		return federation.Missing
	}
	return federation.Present
}

func (s *source) Declares(federation.ServiceID, uint16) bool { return true }

func (s *source) Reader(id federation.ServiceID, _ uint16) federation.Reader { return reader{s, id} }

// Owner: a Pod has 10.0.0.99.
func (s *source) AddressOwner(a netip.Addr) string {
	if a == netip.MustParseAddr("10.0.0.99") {
		return "Pod shop/mine"
	}
	return ""
}

type reader struct {
	*source
	id federation.ServiceID
}

func (r reader) Read() federation.Share {
	slice := &federation.Slice{}
	for _, a := range r.offers(r.id) {
		slice.Endpoints = append(slice.Endpoints, &federation.Endpoint{Addr: a, Cluster: r.cluster})
	}
	return federation.Share{State: r.State(r.id), Slices: []*federation.Slice{slice}}
}

// directory has Nodes n1, n2 and so on in zones z1, z2 and so on, and no profiles.
type directory struct{}

func (directory) Zone(node string) (string, <-chan struct{}) {
	return strings.Replace(node, "n", "z", 1), nil
}
func (directory) Profile(federation.ProfileKey) *federation.Watch[*federation.Profile] { return nil }

package kube

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"isthmus/clusterstore/decode"
)

// nodes is a source of so many Nodes, in pages.
type nodes struct {
	decode.Source[*corev1.Node]
	n, ofPage int // 0: as many as are asked for
	asked     int
}

func (s *nodes) List(_ context.Context, o metav1.ListOptions, each func(*corev1.Node, *decode.Refused) error) (meta metav1.ListMeta, err error) {
	s.asked++
	from, _ := strconv.Atoi(o.Continue)
	to := min(from+cmp.Or(s.ofPage, int(o.Limit)), s.n)
	for i := from; i < to; i++ {
		cidr := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 0}), 24).String()
		if err := each(&corev1.Node{Spec: corev1.NodeSpec{PodCIDR: cidr, PodCIDRs: []string{cidr, "none"}}}, nil); err != nil {
			return meta, err
		}
	}
	if to < s.n {
		meta.Continue = strconv.Itoa(to)
	}
	return meta, nil
}

// TestReadNetworks: the ranges of a cluster are joined, and neither an endless page nor endless pages are read to the end.
func TestReadNetworks(t *testing.T) {
	for _, c := range []struct {
		from         nodes
		nodes, asked int
		cidrs        string // the first and the last
		part         bool
	}{
		{nodes{n: 300}, 300, 1, "[10.0.0.0/16 10.1.40.0/22]", false},
		{nodes{n: 1024}, 1024, 3, "[10.0.0.0/14 10.0.0.0/14]", false},
		{nodes{n: maxNodes}, maxNodes, 10, "[10.0.0.0/12 10.19.128.0/21]", false},
		{nodes{n: maxNodes + 1}, maxNodes, 10, "[10.0.0.0/12 10.19.128.0/21]", true},
		{nodes{n: 1 << 30, ofPage: 1 << 30}, maxNodes, 1, "[10.0.0.0/12 10.19.128.0/21]", true},
		{nodes{n: 1 << 30, ofPage: 1}, 10, 10, "[10.0.0.0/21 10.0.8.0/23]", true},
		{nodes{}, 0, 1, "", false},
	} {
		n, err := readNetworks(t.Context(), &c.from)
		cidrs := ""
		if len(n.CIDRs) > 0 {
			cidrs = fmt.Sprint([]string{n.CIDRs[0], n.CIDRs[len(n.CIDRs)-1]})
		}
		if err != nil || n.Nodes != c.nodes || c.from.asked != c.asked || n.Partly != c.part || cidrs != c.cidrs {
			t.Errorf("%d Nodes of %d pages, partly: %v, %s, %v", n.Nodes, c.from.asked, n.Partly, cidrs, err)
		}
	}
}

// TestJoinOfAny: what is joined has just the addresses that were there, each in one range.
func TestJoinOfAny(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ranges := make(map[netip.Prefix]bool)
		for range rapid.IntRange(0, 12).Draw(t, "ranges") {
			a := netip.AddrFrom4([4]byte{10, 0, 0, rapid.Byte().Draw(t, "address")})
			ranges[netip.PrefixFrom(a, rapid.IntRange(26, 32).Draw(t, "bits")).Masked()] = true
		}
		joined := join(ranges)
		for last := range 256 {
			a := netip.AddrFrom4([4]byte{10, 0, 0, byte(last)})
			before := false
			for p := range ranges {
				before = before || p.Contains(a)
			}
			in := 0
			for _, p := range joined {
				if p.Contains(a) {
					in++
				}
			}
			if before && in != 1 || !before && in != 0 {
				t.Fatalf("%v is in %d of %v, of %v", a, in, joined, ranges)
			}
		}
		if !slices.IsSortedFunc(joined, netip.Prefix.Compare) {
			t.Fatalf("%v is not sorted", joined)
		}
		for i := range len(joined) - 1 {
			p, next := joined[i], joined[i+1]
			if p.Bits() == next.Bits() && netip.PrefixFrom(p.Addr(), p.Bits()-1).Contains(next.Addr()) {
				t.Fatalf("%v and %v could be one", p, next)
			}
		}
	})
}

package kube

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"isthmus/clusterstore/decode"
	"isthmus/internal/adminapi"
)

const (
	// maxNodes of one cluster are read. Each has some ten kilobytes: an API server is not asked to encode all of them at once.
	maxNodes, nodePage = 5000, 500
	// maxRanges of one cluster are kept: comparing takes more the more there are.
	maxRanges = 1000
)

// errEnough ends a list, which a hostile server may never do.
var errEnough = errors.New("there are more Nodes than are read")

// readNetworks reads the Pod CIDRs of a cluster's Nodes.
func readNetworks(ctx context.Context, from decode.Source[*corev1.Node]) (n adminapi.PodNetworks, err error) {
	ranges := make(map[netip.Prefix]bool)
	options := metav1.ListOptions{Limit: nodePage}
	for range maxNodes / nodePage { // a hostile server's pages may be empty, and have no end
		page, err := from.List(ctx, options, func(node *corev1.Node, refused *decode.Refused) error {
			switch {
			case refused != nil:
				return contentError{fmt.Errorf("of Node %s: %w", refused.Name, refused.Err)}
			case n.Nodes == maxNodes:
				return errEnough
			}
			for _, text := range append(node.Spec.PodCIDRs, node.Spec.PodCIDR) {
				if p, err := netip.ParsePrefix(text); err == nil && len(ranges) < maxNodes {
					ranges[p.Masked()] = true
				}
			}
			n.Nodes++
			return nil
		})
		if n.Partly = errors.Is(err, errEnough) || page.Continue != ""; err != nil && !errors.Is(err, errEnough) {
			return n, err
		}
		if options.Continue = page.Continue; err != nil || options.Continue == "" {
			break
		}
	}
	joined := join(ranges)
	for _, p := range joined[:min(len(joined), maxRanges)] {
		n.CIDRs = append(n.CIDRs, p.String())
	}
	n.Partly = n.Partly || len(joined) > maxRanges
	return n, nil
}

// join returns the ranges that have just the addresses of these, none of which overlap: Nodes' ranges are mostly parts of one that
// the cluster was given.
func join(ranges map[netip.Prefix]bool) (joined []netip.Prefix) {
	list := make([]netip.Prefix, 0, len(ranges))
	for p := range ranges {
		list = append(list, p)
	}
	slices.SortFunc(list, netip.Prefix.Compare)
	for _, p := range list {
		if n := len(joined); n > 0 && joined[n-1].Overlaps(p) { // the larger one comes first
			continue
		}
		joined = append(joined, p)
		for n := len(joined); n > 1; n = len(joined) { // two halves become the whole
			a, b := joined[n-2], joined[n-1]
			if a.Bits() == 0 || a.Bits() != b.Bits() {
				break
			}
			whole := netip.PrefixFrom(a.Addr(), a.Bits()-1).Masked()
			if whole.Addr() != a.Addr() || !whole.Contains(b.Addr()) {
				break
			}
			joined = append(joined[:n-2], whole)
		}
	}
	return joined
}

package check

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"isthmus/clusterstore/decode"
)

// Nodes are read in pages, since each has some ten kilobytes.
const (
	nodePage = 100
	maxNodes = 5000
	// maxRanges of one cluster are kept: comparing takes more the more there are.
	maxRanges = 1000
)

// network is the Pod CIDRs of one cluster, sorted, none twice.
type network struct {
	cluster string
	ranges  []netip.Prefix
	nodes   int  // that were read
	partly  bool // there are more Nodes than are read
}

// readNetwork reads the Pod CIDRs of a cluster's Nodes.
func readNetwork(ctx context.Context, from decode.Source[*corev1.Node], cluster string) (network, error) {
	n := network{cluster: cluster}
	options := metav1.ListOptions{Limit: nodePage}
	for {
		before := n.nodes
		page, err := from.List(ctx, options, func(node *corev1.Node, refused *decode.Refused) error {
			if refused != nil {
				return fmt.Errorf("of Node %s: %w", refused.Name, refused.Err)
			}
			for _, text := range append(node.Spec.PodCIDRs, node.Spec.PodCIDR) {
				if p, err := netip.ParsePrefix(text); err == nil && len(n.ranges) < maxRanges {
					n.ranges = append(n.ranges, p.Masked())
				}
			}
			n.nodes++
			return nil
		})
		if err != nil {
			return n, err
		}
		options.Continue = page.Continue
		if n.partly = options.Continue != "" && n.nodes >= maxNodes; n.partly || options.Continue == "" || n.nodes == before {
			break
		}
	}
	slices.SortFunc(n.ranges, comparePrefixes)
	n.ranges = slices.Compact(n.ranges)
	return n, nil
}

func comparePrefixes(a, b netip.Prefix) int {
	if c := a.Addr().Compare(b.Addr()); c != 0 {
		return c
	}
	return a.Bits() - b.Bits()
}

// overlap is a range of one cluster, and one of another that has addresses of it.
type overlap struct {
	of, with          string
	ofRange, withThis netip.Prefix
}

func (o overlap) String() string {
	if o.ofRange == o.withThis {
		return fmt.Sprintf("%v is also of %s", o.ofRange, o.with)
	}
	return fmt.Sprintf("%v overlaps %v of %s", o.ofRange, o.withThis, o.with)
}

// overlaps returns an example for each two clusters whose ranges overlap, by the second one
// of the two in the order of the list.
func overlaps(list []network) map[string][]overlap {
	type owned struct {
		netip.Prefix
		by int
	}
	var all []owned
	for i, n := range list {
		for _, p := range n.ranges {
			all = append(all, owned{p, i})
		}
	}
	slices.SortFunc(all, func(a, b owned) int { return comparePrefixes(a.Prefix, b.Prefix) })
	found := make(map[string][]overlap)
	seen := make(map[[2]int]bool)
	var open []owned // ranges that the next one may be in: each has the one after it
	for _, p := range all {
		open = slices.DeleteFunc(open, func(o owned) bool { return !o.Overlaps(p.Prefix) })
		for _, o := range open {
			first, second := o, p
			if first.by > second.by {
				first, second = second, first
			}
			pair := [2]int{first.by, second.by}
			if o.by == p.by || seen[pair] {
				continue
			}
			seen[pair] = true
			name := list[second.by].cluster
			found[name] = append(found[name], overlap{name, list[first.by].cluster, second.Prefix, first.Prefix})
		}
		open = append(open, p)
	}
	return found
}

package check

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// checkNetworks reports which clusters' Pod CIDRs overlap, of those on one network: an example for each two clusters, by the second
// of the two.
func checkNetworks(clusters []*clusterCheck) {
	ranges := make([][]netip.Prefix, len(clusters))
	for i, l := range clusters {
		var overlaps []string
		ranges[i] = l.podRanges()
		for j, before := range clusters[:i] {
			if before.Network != l.Network {
				continue
			}
			if mine, other, found := overlap(ranges[i], ranges[j]); found && mine == other {
				overlaps = append(overlaps, fmt.Sprintf("%v is also of %s", mine, before.Cluster.Cluster))
			} else if found {
				overlaps = append(overlaps, fmt.Sprintf("%v overlaps %v of %s", mine, other, before.Cluster.Cluster))
			}
		}
		if l.why == "" {
			l.checkNetwork(overlaps)
		}
	}
}

// podRanges returns the Pod CIDRs of a cluster, sorted.
func (l *clusterCheck) podRanges() (list []netip.Prefix) {
	if l.API.Networks == nil {
		return nil
	}
	for _, text := range l.API.Networks.CIDRs {
		if p, err := netip.ParsePrefix(text); err == nil {
			list = append(list, p)
		}
	}
	slices.SortFunc(list, netip.Prefix.Compare)
	return list
}

// overlap returns a range of each of two lists that have addresses in common. Both are sorted, and no range overlaps another of its list.
func overlap(a, b []netip.Prefix) (of, with netip.Prefix, found bool) {
	for len(a) > 0 && len(b) > 0 {
		switch {
		case a[0].Overlaps(b[0]):
			return a[0], b[0], true
		case a[0].Compare(b[0]) < 0:
			a = a[1:]
		default:
			b = b[1:]
		}
	}
	return of, with, false
}

func (l *clusterCheck) checkNetwork(overlaps []string) {
	n := l.API.Networks
	add := func(level Level, text, hint string) {
		if n != nil {
			text = aged(text, n.AgeSeconds, networksAge)
		}
		l.about(sectionNetworks, PodNetworks, l.Cluster.Cluster)(level, text, hint)
	}
	switch {
	case n == nil:
		add(Unchecked, "not read yet", "")
	case n.Error != "":
		add(Unchecked, n.Error, l.toPermit(n.Error))
	case len(overlaps) > 0:
		texts := overlaps[:min(len(overlaps), 5)]
		if more := len(overlaps) - len(texts); more > 0 {
			texts = append(slices.Clone(texts), fmt.Sprintf("%d more", more))
		}
		add(Warning, "Pod CIDRs overlap: "+strings.Join(texts, "; "),
			"federated Services need flat networks, in which an address is one Pod's: give new clusters other --cluster-cidr ranges, or reach them through Linkerd gateways (annotation isthmus.io/network of the link Secret)")
	case n.Nodes == 0:
		add(OK, "it has no Nodes", "")
	case len(n.CIDRs) == 0:
		add(Unchecked, "its Nodes have no Pod CIDR", "some network plugins don't use them: compare their own ranges")
	case n.Partly:
		add(OK, fmt.Sprintf("its Pod CIDRs overlap no other's, as far as %d of its Nodes have them", n.Nodes), "")
	default:
		add(OK, "its Pod CIDRs overlap no other's", "")
	}
}

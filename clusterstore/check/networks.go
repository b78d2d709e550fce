package check

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
)

// network is the Pod CIDRs of one cluster.
type network struct {
	cluster string
	ranges  []netip.Prefix
}

// checkNetworks reports which clusters' Pod CIDRs overlap, of those on one network.
func checkNetworks(clusters []*clusterCheck) {
	known, found := make(map[string][]network), make(map[string][]overlap)
	for _, l := range clusters {
		if n := l.API.Networks; n != nil {
			known[l.Network] = append(known[l.Network], networkOf(l.Cluster.Cluster, n.CIDRs))
		}
	}
	for _, list := range known {
		maps.Copy(found, overlaps(list))
	}
	for _, l := range clusters {
		l.checkNetwork(found[l.Cluster.Cluster])
	}
}

func networkOf(cluster string, cidrs []string) network {
	n := network{cluster: cluster}
	for _, text := range cidrs {
		if p, err := netip.ParsePrefix(text); err == nil {
			n.ranges = append(n.ranges, p)
		}
	}
	return n
}

func (l *clusterCheck) checkNetwork(over []overlap) {
	add, n := l.about(sectionNetworks, PodNetworks, l.Cluster.Cluster), l.API.Networks
	switch {
	case l.why != "":
		add(Unchecked, l.why, "")
	case n == nil:
		add(Unchecked, "not read yet", "")
	case n.Error != "":
		add(Unchecked, n.Error, l.toPermit(n.Error))
	case len(over) > 0:
		var texts []string
		for _, o := range over[:min(len(over), 5)] {
			texts = append(texts, o.String())
		}
		if more := len(over) - len(texts); more > 0 {
			texts = append(texts, fmt.Sprintf("%d more", more))
		}
		add(Warning, "Pod CIDRs overlap: "+strings.Join(texts, "; "),
			"federated Services need flat networks, in which an address is one Pod's: give new clusters other --cluster-cidr ranges, or reach them through gateways (annotation isthmus.io/network of the link Secret)")
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
	slices.SortFunc(all, func(a, b owned) int { return a.Compare(b.Prefix) })
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

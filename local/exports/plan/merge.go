package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"isthmus/internal/text"
)

type merged struct {
	group
	whyTaken   string // of a ServiceImport: why another object has its Service's name; empty if none does
	members    []*member
	known      []*member // the members whose exports are known
	deciding   *member   // the first of known; nil if there is none
	ports      []Port
	importType string     // of a ServiceImport
	absent     string     // of a ServiceImport: the value of the annotation absentKey
	metadata   metadata   // copied labels and annotations
	conflicts  []Conflict // with Reason and Message only
	refused    []string   // texts about values of members that can't be used
}

func (one *merged) localMember() *member {
	i := slices.IndexFunc(one.members, func(p *member) bool { return p.cluster == "" })
	if i < 0 {
		return nil
	}
	return one.members[i]
}

func (one *merged) exporters(localName string) (names []string) {
	for _, p := range one.members {
		if name := cmp.Or(p.cluster, localName); listable(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// remoteOrder returns the names of the linked clusters that are members, in order of precedence. A
// linked cluster whose exports are unknown keeps its position in the existing Service, so that the
// order does not change again when the exports become known.
func (one *merged) remoteOrder(w *World) (names []string) {
	known := make(map[string]bool) // the member links; true if the exports are known
	for _, p := range one.members {
		if p.cluster == "" {
			continue
		}
		known[p.cluster] = p.export != nil
		if p.export != nil {
			names = append(names, p.cluster)
		}
	}
	if len(names) == len(known) {
		return names
	}
	if o := w.Service(one.target()); o != nil {
		_, written, _ := identify(o)
		previous := ""
		for _, name := range written {
			isKnown, isMember := known[name]
			if !isMember {
				continue
			}
			if !isKnown {
				names = slices.Insert(names, slices.Index(names, previous)+1, name)
				known[name] = true
			}
			previous = name
		}
	}
	for _, p := range one.members {
		if isKnown, isMember := known[p.cluster]; isMember && !isKnown {
			names = append(names, p.cluster)
		}
	}
	return names
}

// unserved returns the member clusters whose exported Service is IPv6-only. If Isthmus serves IPv6,
// the result is empty. Clusters on other networks are omitted, because clients reach these clusters
// through Linkerd gateways.
func (one *merged) unserved(ipv4Only bool) (clusters []string) {
	if !ipv4Only {
		return nil
	}
	for _, p := range one.known {
		if !p.link.OtherNetwork && p.export.Service.onlyIPv6() {
			clusters = append(clusters, p.cluster)
		}
	}
	return clusters
}

type merger struct{ *maker }

// While a member's exports are unknown, every value that may depend on that member stays unchanged.
func (m merger) merge(g group) *merged {
	one := &merged{group: g, members: m.members[g]}
	for _, p := range one.members {
		if p.export != nil {
			one.known = append(one.known, p)
		}
	}
	if g.kind == Import {
		m.mergeImport(one)
	} else {
		one.ports, one.refused = unite(m.portListsInOrder(one))
	}
	for _, p := range one.known {
		if len(p.export.Service.Ports) > maxExportedPorts {
			one.refused = append(one.refused, fmt.Sprintf(
				"cluster %s: only the first %d ports are used", displayName(p.cluster), maxExportedPorts))
		}
	}
	if len(one.known) == 0 {
		return one
	}
	one.deciding = one.known[0]
	e := one.deciding.export
	if one.deciding.link.Joins == Unreadable { // the labels that the link excludes are not known
		one.metadata.keep = true
	}
	if g.kind != Import {
		one.metadata.copies = one.deciding.serviceCopies()
		if one.deciding.cluster == "" {
			preference := preferenceOf(e.Service)
			maps.Copy(one.metadata.copies.annotations, preference.annotations)
			one.metadata.copies.refused = append(one.metadata.copies.refused, preference.refused...)
		}
	} else {
		one.metadata.copies = *one.deciding.exportedCopies()
		for _, p := range one.known[1:] {
			for _, text := range p.exportedCopies().refused {
				if !slices.Contains(one.metadata.copies.refused, text) {
					p.notes = append(p.notes, text)
				}
			}
		}
		if t := e.Service.Traffic; t != t.usable() {
			one.refused = append(one.refused, fmt.Sprintf(
				"cluster %s: the sessionAffinity, internalTrafficPolicy or trafficDistribution is invalid",
				displayName(one.deciding.cluster),
			))
		}
		one.conflicts = m.differences(one)
	}
	one.refused = append(one.refused, one.metadata.copies.refused...)
	for _, text := range portConflicts(one.ports, one.known, g.kind == Import) {
		one.conflicts = append(one.conflicts, Conflict{Reason: "PortConflict", Message: text})
	}
	one.ports = named(one.ports)
	return one
}

func (m merger) mergeImport(one *merged) {
	s := newSettler(m.maker, one)
	one.importType = s.decideType()
	there := m.portsThere(one.group)
	if s.complete && s.have != nil {
		there = firstPorts(s.have.Ports)
	}
	lists := []portList{s.keptPorts(there)}
	for _, p := range s.byAge() {
		lists = append(lists, portList{cluster: p.cluster, ports: p.exported()})
	}
	one.ports, one.refused = unite(lists)
	for _, p := range one.members {
		if p.cluster != "" && !listable(p.cluster) {
			p.notes = append(p.notes, fmt.Sprintf(
				"status.clusters omits cluster %s, because its name is not a DNS label; its endpoints are still used",
				quoted(p.cluster)))
		}
	}
	s.remember(named(slices.Clone(one.ports)), there)
	one.absent = s.absentClusters(m.maker, one.members)
	m.after.imports[one.of] = &s.after
	one.metadata.keep = !s.complete
}

// portListsInOrder returns the lists of ports to merge for a mirror or federated Service, in order
// of precedence. Each member whose exports are known has its own list. All members whose exports
// are unknown share one list, which contains the ports of the existing object. The shared list has
// the rank of the first member whose exports are unknown.
func (m merger) portListsInOrder(one *merged) (all []portList) {
	byCluster := make(map[string]*member)
	for _, p := range one.members {
		byCluster[p.cluster] = p
	}
	order := one.remoteOrder(&m.World)
	if byCluster[""] != nil {
		order = slices.Insert(order, 0, "")
	}
	kept := false
	for i, name := range order {
		switch p := byCluster[name]; {
		case p.export != nil:
			all = append(all, portList{cluster: name, ports: p.exported()})
		case !kept:
			kept = true
			all = append(all, portList{ports: m.portsThere(one.group), kept: true})
			one.metadata.keep = i == 0
		}
	}
	return all
}

func (m merger) portsThere(g group) []Port {
	if o := m.Imports[g.of]; g.kind == Import && o != nil && len(o.Ports) > 0 {
		return firstPorts(o.Ports)
	}
	if o := m.Service(g.target()); o != nil && (g.kind != Import || m.Marked(o)) {
		return firstPorts(o.Ports)
	}
	return nil
}

func firstPorts(ports []Port) []Port { return ports[:min(len(ports), maxPorts)] }

// differences returns all conflicts between the exports of a ServiceImport except port conflicts.
func (m merger) differences(one *merged) (all []Conflict) {
	add := func(reason, field string, value func(p *member) string) {
		by := make(map[string][]string)
		for _, p := range one.known {
			of := value(p)
			by[of] = append(by[of], displayName(p.cluster))
		}
		used := value(one.deciding)
		if field == "type" {
			used = one.importType
		}
		if message := differing(field, cmp.Or(used, "none"), used, by); message != "" {
			all = append(all, Conflict{Reason: reason, Message: message})
		}
	}
	traffic := func(p *member) Traffic { return p.export.Service.Traffic.usable() }
	add("TypeConflict", "type", func(p *member) string { return importType(p.export) })
	add("SessionAffinityConflict", "sessionAffinity", func(p *member) string {
		return cmp.Or(traffic(p).SessionAffinity, "None")
	})
	add("SessionAffinityConfigConflict", "sessionAffinityConfig", func(p *member) string {
		return fmt.Sprint(traffic(p).AffinitySeconds, " s")
	})
	add("InternalTrafficPolicyConflict", "internalTrafficPolicy", func(p *member) string {
		return cmp.Or(traffic(p).InternalTrafficPolicy, "Cluster")
	})
	add("TrafficDistributionConflict", "trafficDistribution", func(p *member) string {
		return traffic(p).TrafficDistribution
	})
	// Keys that are omitted from at least one export are not compared, because one link may exclude
	// a label that another link copies.
	leftLabels := make(map[string]bool)
	leftAnnotations := make(map[string]bool)
	for _, p := range one.known {
		for _, key := range p.exportedCopies().leftLabels {
			leftLabels[key] = true
		}
		for _, key := range p.exportedCopies().leftAnnotations {
			leftAnnotations[key] = true
		}
	}
	add("LabelsConflict", "exportedLabels", func(p *member) string {
		return shownMap(p.exportedCopies().labels, leftLabels)
	})
	add("AnnotationsConflict", "exportedAnnotations", func(p *member) string {
		return shownMap(p.exportedCopies().annotations, leftAnnotations)
	})
	if only := one.unserved(m.IPv4Only); len(only) > 0 && len(only) < len(one.known) {
		all = append(all, Conflict{
			Reason: "IPFamilyConflict", Message: "ipFamilies: " + onlyIPv6Text(only), only: only,
		})
	}
	return all
}

const (
	clusterSetIP = "ClusterSetIP"
	headless     = "Headless"
)

func importType(e *Export) string {
	if e.Service.Headless() {
		return headless
	}
	return clusterSetIP
}

// listable reports whether status.clusters may contain the given name. The API accepts only DNS
// labels, but a link may have a name that is not a DNS label, such as eu.west. Every plan calls
// listable for every member, so listable avoids the regular expression of
// [validation.IsDNS1123Label].
func listable(cluster string) bool {
	const inside = "abcdefghijklmnopqrstuvwxyz0123456789-"
	return cluster != "" && len(cluster) <= validation.DNS1123LabelMaxLength && strings.Trim(cluster, inside) == "" &&
		cluster[0] != '-' && cluster[len(cluster)-1] != '-'
}

func unlisted(members []*member) (names []string) {
	for _, p := range members {
		if p.cluster != "" && !listable(p.cluster) {
			names = append(names, p.cluster)
		}
	}
	slices.Sort(names)
	return names
}

func onlyIPv6Text(clusters []string) string {
	var names []string
	for _, name := range clusters {
		names = append(names, displayName(name))
	}
	return "IPv6 is disabled (--enable-ipv6=false), and the Service is IPv6-only in the clusters: " +
		strings.Join(text.First(names, maxRefused), ", ")
}

// shownMap returns a short string that identifies the entries of a map, excluding those with the
// given keys.
func shownMap(m map[string]string, without map[string]bool) string {
	var all []string
	for _, key := range sorted(m) {
		if !without[key] {
			all = append(all, strconv.Quote(key+"="+m[key]))
		}
	}
	joined := strings.Join(all, ",")
	if len(joined) > 100 {
		joined = text.Truncate(joined, text.Short) + " (" + hash(joined, 8) + ")"
	}
	return joined
}

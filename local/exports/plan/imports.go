package plan

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"isthmus/internal/text"
)

// The types of a ServiceImport.
const (
	clusterSetIP = "ClusterSetIP"
	headless     = "Headless"
)

// noSlices is the value of status.endpointSliceObjects that says that a ServiceImport has no
// EndpointSlices. Isthmus writes none.
const noSlices = "Absent"

// familyReason is the reason of Ready of a ServiceImport without exports that are served.
const familyReason = "IPFamilyNotSupported"

// wantImport adds the ServiceImport of a group, and its derived Service. The derived Service waits
// until its owner, the ServiceImport, exists. The ServiceImport gets its IPs once the derived
// Service has some. It keeps these IPs while the derived Service is missing or somebody has taken
// the IPs off it. That Service is then created with them. If another object has the derived Service's name, a
// ServiceImport that exists has no IPs. The plan does not create an object all of whose parts are on hold.
func (m *maker) wantImport(one *merged) {
	have := m.Imports[one.of]
	derived := m.Service(one.target())
	held := !slices.ContainsFunc(one.parts, func(p *part) bool { return p.state != OnHold })
	if held && have == nil {
		return
	}
	w := WantedImport{
		ID:       one.of,
		Turn:     m.turn(one.parts, one.group),
		settings: m.Settings,
		metadata: one.metadata,
		kind:     one.importType,
		clusters: m.exporters(one),
	}
	w.metadata.labels, w.metadata.annotations = m.mark("ServiceImport", w.ID)
	if names := unlisted(one.parts); len(names) > 0 {
		w.metadata.annotations[unlistedKey] = strings.Join(names, ",")
	}
	if one.absent != "" {
		w.metadata.annotations[absentKey] = one.absent
	}
	if one.deciding != nil && !one.metadata.keep {
		traffic := one.deciding.export.Service.Traffic.usable()
		w.traffic = &traffic
	}
	if w.kind == headless {
		w.ready = condition("Ready", true, "Ready", "a headless ServiceImport has no IPs")
		if unsupported := m.familyNotSupported(one); unsupported != nil {
			w.ready = *unsupported
		}
		m.out.Imports = append(m.out.Imports, w)
		m.removeService(one.group)
		return
	}
	w.metadata.annotations[derivedKey] = one.target().Name
	for _, p := range one.ports {
		p.Target = ""
		w.ports = append(w.ports, p)
	}
	switch {
	case one.taken != "":
	case derived != nil && m.Marked(derived) && derived.hasIP():
		w.ips = derived.ClusterIPs
	case have != nil && have.Type == clusterSetIP && (derived == nil || m.Marked(derived)):
		w.ips = usableIPs(have.IPs)
	}
	w.families = families(w.ips)
	var service *WantedService
	lost := derived != nil && derived.cannotGetIPs()
	switch {
	case one.taken != "" || held && (derived == nil || lost):
	case lost:
		m.removeService(one.group) // the Service is then created anew
	default:
		service = m.wantDerived(one, have, &w)
	}
	w.ready = m.readyImport(one, &w, service)
	m.out.Imports = append(m.out.Imports, w)
}

// usable returns the fields as the API keeps them in a Service, and in few bytes.
func (t Traffic) usable() Traffic {
	const longest, standard = 86400, 10800 // seconds
	switch t.SessionAffinity {
	case "ClientIP":
		if t.AffinitySeconds < 1 || t.AffinitySeconds > longest {
			t.AffinitySeconds = standard
		}
	case "":
		t.AffinitySeconds = 0
	default:
		t.SessionAffinity = "None"
		t.AffinitySeconds = 0
	}
	if t.InternalTrafficPolicy != "Local" && t.InternalTrafficPolicy != "Cluster" {
		t.InternalTrafficPolicy = ""
	}
	if !validValue(t.TrafficDistribution) {
		t.TrafficDistribution = ""
	}
	return t
}

// usableIPs returns the IPs that a Service can be created with: at most one IP of each family.
func usableIPs(ips []string) (all []string) {
	for _, ip := range ips[:min(len(ips), 2)] {
		if addr, err := netip.ParseAddr(ip); err == nil && addr.Zone() == "" {
			all = append(all, ip)
		}
	}
	return all
}

// families returns those of addresses.
func families(ips []string) (all []string) {
	for _, ip := range ips {
		if strings.Contains(ip, ":") {
			all = append(all, "IPv6")
		} else {
			all = append(all, "IPv4")
		}
	}
	return all
}

// wantDerived adds the derived Service of a ServiceImport, and returns it. owner is that ServiceImport as it exists,
// or nil.
func (m *maker) wantDerived(one *merged, owner *ServiceImport, of *WantedImport) *WantedService {
	w := m.service(one)
	if owner != nil {
		w.owner = owner.UID
	} else {
		w.Waits = true
	}
	w.metadata.labels[importLabel] = one.of.Name
	m.discover(w.metadata.annotations, one)
	w.metadata.copies.labels = of.metadata.copies.labels
	if one.deciding != nil {
		w.metadata.copies.annotations = one.deciding.serviceCopies().annotations
	}
	if local := one.localPart(); local == nil || local.export != nil {
		w.metadata.preference = make(map[string]string)
		if local != nil {
			preference := preferenceOf(local.export.Service)
			w.metadata.preference = preference.annotations
			local.notes = append(local.notes, preference.refused...)
		}
		maps.Copy(w.metadata.copies.annotations, w.metadata.preference)
	}
	for _, p := range of.ports {
		p.Target = fmt.Sprint(p.Number)
		w.ports = append(w.ports, p)
	}
	if of.traffic != nil {
		w.traffic = of.traffic
	}
	w.ips = of.ips
	m.out.Services = append(m.out.Services, w)
	return &m.out.Services[len(m.out.Services)-1]
}

// localPart returns the part of the local cluster; nil: it has none.
func (one *merged) localPart() *part {
	i := slices.IndexFunc(one.parts, func(p *part) bool { return p.cluster == "" })
	if i < 0 {
		return nil
	}
	return one.parts[i]
}

// importType returns the type that an export asks for.
func importType(e *Export) string {
	if e.Service.Headless() {
		return headless
	}
	return clusterSetIP
}

// exporters returns the names of the clusters that export, for the status.
func (m *maker) exporters(one *merged) (names []string) {
	for _, p := range one.parts {
		if name := cmp.Or(p.cluster, m.ClusterName); listable(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// listable reports whether status.clusters may have a name: the API asks for DNS labels. A link may have other
// names, such as eu.west. Each plan asks for each part, so listable does without the regular expression of
// [validation.IsDNS1123Label].
func listable(cluster string) bool {
	const inside = "abcdefghijklmnopqrstuvwxyz0123456789-"
	return cluster != "" && len(cluster) <= validation.DNS1123LabelMaxLength && strings.Trim(cluster, inside) == "" &&
		cluster[0] != '-' && cluster[len(cluster)-1] != '-'
}

// unlisted returns the links with a part that status.clusters can't name, sorted.
func unlisted(parts []*part) (names []string) {
	for _, p := range parts {
		if p.cluster != "" && !listable(p.cluster) {
			names = append(names, p.cluster)
		}
	}
	slices.Sort(names)
	return names
}

// ExportConditions are the conditions that a ServiceExport of the own cluster is to have.
type ExportConditions struct {
	ID
	Have *ServiceExport
	Want []metav1.Condition // of the types that are ours
}

// Content is as that of a WantedService. It differs for another ServiceExport of the same name.
func (w *ExportConditions) Content() string {
	return hash(fmt.Sprintf("%s %#v", w.Have.UID, w.Want), 20)
}

// Over returns the conditions of a ServiceExport that has these, and whether they differ. Those of other types stay.
func (w *ExportConditions) Over(have []metav1.Condition) (next []metav1.Condition, differs bool) {
	next = slices.DeleteFunc(slices.Clone(have), func(c metav1.Condition) bool {
		return c.Type == "Conflict" && len(w.Want) < 3
	})
	differs = len(next) < len(have)
	for _, c := range w.Want {
		differs = meta.SetStatusCondition(&next, c) || differs
	}
	return next, differs
}

// conditions adds those of the own cluster's ServiceExports, but not where the ServiceImport is somebody else's: who
// writes that writes them too.
func (m *maker) conditions() {
	own := m.clusters[""]
	if own == nil || !m.ServiceExports || m.MCSVersion == "" {
		return
	}
	found := make(map[ID][]Conflict)
	for _, c := range m.out.Conflicts {
		if c.Kind == Import && c.concerns("") {
			found[c.Of] = append(found[c.Of], c)
		}
	}
	for i := range own.Exports {
		e := &own.Exports[i]
		if o := m.Imports[e.ID]; e.Exported == nil || o != nil && !m.MarkedImport(o) {
			continue
		}
		g := group{kind: Import, of: e.ID}
		verdict := m.verdicts[gone{g, ""}]
		want := exportConditions(verdict, e, found[e.ID])
		if verdict.State == Written && e.invalid() == "" && !m.readyExport(e, &want[1]) {
			continue
		}
		if slices.ContainsFunc(m.parts[g], func(p *part) bool { return p.export == nil }) {
			keepConflict(want, e.Exported.Conditions)
		}
		for i := range want {
			want[i].ObservedGeneration = e.Exported.Generation
			want[i].Message = strings.ToValidUTF8(text.Truncate(want[i].Message, maxMessage), "")
		}
		m.out.Exports = append(m.out.Exports, ExportConditions{e.ID, e.Exported, want})
	}
	slices.SortFunc(m.out.Exports, func(a, b ExportConditions) int { return compareIDs(a.ID, b.ID) })
}

// keepConflict puts the conflict that there was in place of what is wanted: it may be with an export that is not known.
func keepConflict(want, have []metav1.Condition) {
	for _, c := range have {
		if i := slices.IndexFunc(want, func(o metav1.Condition) bool {
			return o.Type == c.Type
		}); i >= 0 && c.Type == "Conflict" && c.Status == metav1.ConditionTrue {
			want[i] = c
		}
	}
}

// exportConditions follow KEP-1645.
func exportConditions(v Verdict, e *Export, found []Conflict) []metav1.Condition {
	if why := e.invalid(); why != "" { // also while its part is held
		reason := "InvalidServiceType"
		if e.serviceMissing() {
			reason = "NoService"
		}
		return []metav1.Condition{
			condition("Valid", false, reason, why),
			condition("Ready", false, "Pending", "the ServiceExport is not valid"),
		}
	}
	message := "the ServiceImport is " + string(v.State)
	if v.Detail != "" {
		message += ": " + v.Detail
	}
	all := []metav1.Condition{condition("Valid", true, "Valid", ""), condition("Ready", true, "Ready", message)}
	if len(found) == 0 {
		return append(all, condition("Conflict", false, "NoConflicts", ""))
	}
	var reasons, messages []string
	for _, c := range found {
		if !slices.Contains(reasons, c.Reason) {
			reasons = append(reasons, c.Reason)
		}
		messages = append(messages, c.Message)
	}
	return append(all, condition("Conflict", true, strings.Join(reasons, ","), strings.Join(messages, "; ")))
}

// differences returns what the exports of a ServiceImport differ in, besides ports: a reason and a text for each field.
func (m *maker) differences(one *merged) (all []Conflict) {
	add := func(reason, field string, value func(p *part) string) {
		by := make(map[string][]string)
		for _, p := range one.known {
			of := value(p)
			by[of] = append(by[of], shown(p.cluster))
		}
		used := value(one.deciding)
		if field == "type" {
			used = one.importType
		}
		if message := differing(field, cmp.Or(used, "none"), used, by); message != "" {
			all = append(all, Conflict{Reason: reason, Message: message})
		}
	}
	traffic := func(p *part) Traffic { return p.export.Service.Traffic.usable() }
	add("TypeConflict", "type", func(p *part) string { return importType(p.export) })
	add("SessionAffinityConflict", "sessionAffinity", func(p *part) string {
		return cmp.Or(traffic(p).SessionAffinity, "None")
	})
	add("SessionAffinityConfigConflict", "sessionAffinityConfig", func(p *part) string {
		return fmt.Sprint(traffic(p).AffinitySeconds, " s")
	})
	add("InternalTrafficPolicyConflict", "internalTrafficPolicy", func(p *part) string {
		return cmp.Or(traffic(p).InternalTrafficPolicy, "Cluster")
	})
	add("TrafficDistributionConflict", "trafficDistribution", func(p *part) string {
		return traffic(p).TrafficDistribution
	})
	// One link may exclude labels that another copies. A key that is left out of one export is compared in none.
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
	add("LabelsConflict", "exportedLabels", func(p *part) string {
		return shownMap(p.exportedCopies().labels, leftLabels)
	})
	add("AnnotationsConflict", "exportedAnnotations", func(p *part) string {
		return shownMap(p.exportedCopies().annotations, leftAnnotations)
	})
	if only := m.unserved(one); len(only) > 0 && len(only) < len(one.known) {
		all = append(all, Conflict{
			Reason: "IPFamilyConflict", Message: "ipFamilies: " + onlyIPv6Text(only), only: only,
		})
	}
	return all
}

// unserved returns the clusters of the known parts from which clients get no address, because the
// exported Service has only IPv6 and Isthmus does not serve IPv6. Clusters on other networks are
// never among them. Clients get the addresses of their Linkerd gateways, whatever families the
// Service has.
func (m *maker) unserved(one *merged) (clusters []string) {
	if !m.IPv4Only {
		return nil
	}
	for _, p := range one.known {
		if !p.link.OtherNetwork && p.export.Service.onlyIPv6() {
			clusters = append(clusters, p.cluster)
		}
	}
	return clusters
}

// onlyIPv6Text says that the Services of clusters have no family that is served.
func onlyIPv6Text(clusters []string) string {
	var names []string
	for _, name := range clusters {
		names = append(names, shown(name))
	}
	return "IPv6 is not served (--enable-ipv6=false), and the Service has no other family in: " +
		strings.Join(text.First(names, mostRefused), ", ")
}

// familyNotSupported returns the condition Ready of a ServiceImport if all its exports have only
// IPv6, and IPv6 is not served. It returns nil otherwise. While an export is not known, such a
// condition stays unless a known export is served.
func (m *maker) familyNotSupported(one *merged) *metav1.Condition {
	unserved := m.unserved(one)
	if !m.IPv4Only || len(unserved) < len(one.known) {
		return nil
	}
	if len(one.known) == len(one.parts) {
		return new(condition("Ready", false, familyReason, onlyIPv6Text(unserved)))
	}
	have := m.Imports[one.of]
	if have == nil {
		return nil
	}
	now := meta.FindStatusCondition(have.Conditions, "Ready")
	if now == nil || now.Reason != familyReason {
		return nil
	}
	return now
}

// shownMap returns a short text that differs for maps that differ in other keys than those of without.
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

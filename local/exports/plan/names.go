package plan

import (
	"cmp"
	"crypto/sha256"
	"encoding/base32"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Kind is what a member belongs to.
type Kind string

// The kinds, in the order in which they win a name.
const (
	Import    Kind = "import" // a ServiceImport with its derived Service
	Federated Kind = "federated"
	Mirror    Kind = "mirror"
)

// group names what members belong to: exports of one kind and name. Of a mirror that is one cluster's.
type group struct {
	kind    Kind
	of      ID     // the exports
	cluster string // of a mirror
}

// target is the Service that is written for a group.
func (g group) target() ID {
	switch g.kind {
	case Mirror:
		return ID{g.of.Namespace, g.of.Name + "-" + g.cluster}
	case Federated:
		return ID{g.of.Namespace, g.of.Name + "-federated"}
	}
	name := g.of.Name + "-clusterset"
	if len(name) > maxName {
		name = "derived-" + hash(g.of.String(), 20)
	}
	return ID{g.of.Namespace, name}
}

// DerivedService returns the name of the Service that is written for a ServiceImport.
func DerivedService(serviceImport ID) ID {
	return group{kind: Import, of: serviceImport}.target()
}

const maxName = validation.DNS1123LabelMaxLength

// usable reports whether a Service may have that name. API servers accept a leading digit from
// Kubernetes 1.36 on, by default. An older API server refuses the write.
func usableName(name string) bool { return len(validation.IsDNS1123Label(name)) == 0 }

// validKey reports whether the API takes a label or annotation of that key. To judge one in whole that is very long
// takes long.
func validKey(key string) bool { return len(key) < 320 && len(validation.IsQualifiedName(key)) == 0 }

// validValue reports whether the API takes that value of a label.
func validValue(value string) bool {
	return len(value) < 64 && len(validation.IsValidLabelValue(value)) == 0
}

// within reports whether the domain of a key is one of these, or below it.
func inDomain(key string, domains ...string) bool {
	of, _, ok := strings.Cut(key, "/")
	for _, d := range domains {
		if ok && (of == d || strings.HasSuffix(of, "."+d)) {
			return true
		}
	}
	return false
}

// hash returns the first n characters of a hash of a text.
func hash(text string, n int) string {
	sum := sha256.Sum256([]byte(text))
	return strings.ToLower(base32.HexEncoding.EncodeToString(sum[:]))[:n]
}

func compareGroups(a, b group) int {
	return cmp.Or(compareIDs(a.of, b.of), cmp.Compare(rank(a.kind), rank(b.kind)), cmp.Compare(a.cluster, b.cluster))
}

func rank(k Kind) int { return slices.Index([]Kind{Import, Federated, Mirror}, k) }

// ImportOf returns the name of the ServiceImport that a Service was derived from; empty: from none.
func ImportOf(id ID, labels map[string]string) string {
	name := labels[importLabel]
	if (group{kind: Import, of: ID{id.Namespace, name}}).target() != id { // another one may have the label too
		return ""
	}
	return name
}

// WrittenFor returns the exports for which a Service with the mark was written. It returns false if
// the Service does not name them, because somebody has changed it.
func WrittenFor(o *Service) (ID, bool) {
	g, _, ok := identify(o)
	return g.of, ok
}

// identify returns what a Service that is written was written for, and the clusters that have a member in
// it; false: it is no such Service.
func identify(o *Service) (g group, clusters []string, ok bool) {
	if name := ImportOf(o.ID, o.Labels); name != "" {
		return group{kind: Import, of: ID{o.Namespace, name}}, namedIn(o.Annotations, name), true
	}
	if cluster := o.Labels[remoteDiscovery]; cluster != "" {
		g = group{kind: Mirror, of: ID{o.Namespace, o.Labels[remoteService]}, cluster: cluster}
		return g, []string{cluster}, g.target() == o.ID
	}
	name, ok := strings.CutSuffix(o.Name, "-federated")
	return group{kind: Federated, of: ID{o.Namespace, name}}, namedIn(o.Annotations, name), ok
}

// members returns the clusters that annotations name as members, with a Service of that name. It
// returns no more clusters than an object may have.
func namedIn(annotations map[string]string, name string) (clusters []string) {
	if annotations[localDiscovery] == name {
		clusters = append(clusters, "")
	}
	list := firstItems(annotations[remoteDiscovery], maxMembersBytes)
	for item := range strings.SplitSeq(list, ",") {
		of, cluster, ok := strings.Cut(strings.TrimSpace(item), "@")
		if !ok || of != name || cluster == "" {
			continue
		}
		if len(clusters) == maxMembers {
			break
		}
		clusters = append(clusters, cluster)
	}
	return clusters
}

// namesMore reports whether annotations name more members than are read.
func namesTooMany(annotations map[string]string) bool {
	list := annotations[remoteDiscovery]
	return len(list) > maxMembersBytes || strings.Count(list, ",") > maxMembers
}

// firstItems returns as many items of a list, divided by commas, as fit into that many bytes.
func firstItems(list string, most int) string {
	if len(list) <= most {
		return list
	}
	end := strings.LastIndexByte(list[:most+1], ',')
	return list[:max(end, 0)]
}

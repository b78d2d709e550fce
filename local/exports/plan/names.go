package plan

import (
	"cmp"
	"crypto/sha256"
	"encoding/base32"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

type Kind string

// If objects of several kinds need the same name, the kind that is declared first gets the name.
const (
	Import    Kind = "import" // a ServiceImport and its derived Service
	Federated Kind = "federated"
	Mirror    Kind = "mirror"
)

// The exports in a group have the same kind and name. For each group, Isthmus writes one Service,
// or one ServiceImport that may have a derived Service. The group of a mirror contains only the
// exports of one cluster.
type group struct {
	kind    Kind
	of      ID     // the namespace and name of the exports
	cluster string // set for a mirror only
}

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

func DerivedService(serviceImport ID) ID {
	return group{kind: Import, of: serviceImport}.target()
}

const maxName = validation.DNS1123LabelMaxLength

// usableName reports whether a Service may have the given name. Since Kubernetes 1.36, API servers
// accept a leading digit by default. Older API servers reject a Service whose name begins with a
// digit.
func usableName(name string) bool { return len(validation.IsDNS1123Label(name)) == 0 }

// validKey reports whether the API accepts the key of a label or annotation. Very long keys are
// rejected immediately, because their validation would take too long.
func validKey(key string) bool { return len(key) < 320 && len(validation.IsQualifiedName(key)) == 0 }

func validValue(value string) bool {
	return len(value) < 64 && len(validation.IsValidLabelValue(value)) == 0
}

// inDomain reports whether a key belongs to one of the given domains or their subdomains.
func inDomain(key string, domains ...string) bool {
	of, _, ok := strings.Cut(key, "/")
	for _, d := range domains {
		if ok && (of == d || strings.HasSuffix(of, "."+d)) {
			return true
		}
	}
	return false
}

func hash(text string, n int) string {
	sum := sha256.Sum256([]byte(text))
	return strings.ToLower(base32.HexEncoding.EncodeToString(sum[:]))[:n]
}

func compareGroups(a, b group) int {
	return cmp.Or(compareIDs(a.of, b.of), cmp.Compare(rank(a.kind), rank(b.kind)), cmp.Compare(a.cluster, b.cluster))
}

func rank(k Kind) int { return slices.Index([]Kind{Import, Federated, Mirror}, k) }

// ImportOf returns the name of the ServiceImport from which a Service was derived. For any other
// Service, ImportOf returns "".
func ImportOf(id ID, labels map[string]string) string {
	name := labels[importLabel]
	if (group{kind: Import, of: ID{id.Namespace, name}}).target() != id { // other Services may have the label too
		return ""
	}
	return name
}

// WrittenFor returns the exports for which a marked Service was written. If somebody has changed
// the Service so that it no longer identifies its exports, WrittenFor returns false.
func WrittenFor(o *Service) (ID, bool) {
	g, _, ok := identify(o)
	return g.of, ok
}

// identify returns the group for which a Service was written, and the clusters that the Service
// lists as members. For a Service that was not written for a group, the last result is false.
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

// namedIn reads the lists of members in the given annotations, and returns the clusters of the
// members with the given Service name. The result contains at most maxMembers clusters.
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

func namesTooMany(annotations map[string]string) bool {
	list := annotations[remoteDiscovery]
	return len(list) > maxMembersBytes || strings.Count(list, ",") > maxMembers
}

// firstItems returns the longest prefix of a comma-separated list that consists of whole items and
// does not exceed the given number of bytes.
func firstItems(list string, most int) string {
	if len(list) <= most {
		return list
	}
	end := strings.LastIndexByte(list[:most+1], ',')
	return list[:max(end, 0)]
}

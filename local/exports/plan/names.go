package plan

import (
	"crypto/sha256"
	"encoding/base32"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"isthmus/internal/text"
)

// Labels and annotations of what is written. Those of linkerd.io are what Linkerd's service mirror writes.
const (
	markLabel      = "isthmus.io/written-by" // the gateway's namespace
	markAnnotation = "isthmus.io/written-as" // the kind, namespace and name of the object itself
	copiedKey      = "isthmus.io/copied"     // annotation: what was copied
	// SingleStackKey is an annotation of Services that Isthmus has set to SingleStack.
	SingleStackKey = "isthmus.io/single-stack"

	mirroredLabel = "mirror.linkerd.io/mirrored-service"
	clusterLabel  = "mirror.linkerd.io/cluster-name"
	fqNameKey     = "mirror.linkerd.io/remote-svc-fq-name"
	versionKey    = "mirror.linkerd.io/remote-resource-version"

	localDiscovery  = "multicluster.linkerd.io/local-discovery"
	remoteDiscovery = "multicluster.linkerd.io/remote-discovery" // a label of mirrors, an annotation of the others
	remoteService   = "multicluster.linkerd.io/remote-service"

	importLabel = "multicluster.kubernetes.io/service-name"    // of derived Services
	derivedKey  = "multicluster.kubernetes.io/derived-service" // of ServiceImports
	unlistedKey = "isthmus.io/unlisted-clusters"               // of ServiceImports: exporters that are no DNS labels
	absentKey   = "isthmus.io/absent-clusters"                 // of ServiceImports: see settled.go
)

// Kind is what a part belongs to.
type Kind string

// The kinds, in the order in which they win a name.
const (
	Import    Kind = "import" // a ServiceImport with its derived Service
	Federated Kind = "federated"
	Mirror    Kind = "mirror"
)

// group names what parts belong to: exports of one kind and name. Of a mirror that is one cluster's.
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
func usable(name string) bool { return len(validation.IsDNS1123Label(name)) == 0 }

// validKey reports whether the API takes a label or annotation of that key. To judge one in whole that is very long
// takes long.
func validKey(key string) bool { return len(key) < 320 && len(validation.IsQualifiedName(key)) == 0 }

// validValue reports whether the API takes that value of a label.
func validValue(value string) bool {
	return len(value) < 64 && len(validation.IsValidLabelValue(value)) == 0
}

// within reports whether the domain of a key is one of these, or below it.
func within(key string, domains ...string) bool {
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

// IsWritten reports whether a Service with these labels was written by a gateway, this or another one, or by
// Linkerd's service mirror: what it has counts as an object that may be there, and not as something to export.
func IsWritten(labels map[string]string) bool {
	_, marked := labels[markLabel]
	return marked || labels[mirroredLabel] != ""
}

// Marked reports whether an object has the mark of this gateway: it was written by it, and is no copy of such an
// object.
func (s Settings) Marked(o *Service) bool {
	return s.marked("Service", o.ID, o.Labels, o.Annotations) && !o.Selector
}

// MarkedImport reports that of a ServiceImport.
func (s Settings) MarkedImport(o *ServiceImport) bool {
	return s.marked("ServiceImport", o.ID, o.Labels, o.Annotations)
}

func (s Settings) marked(kind string, id ID, labels, annotations map[string]string) bool {
	return s.Controller != "" && labels[markLabel] == s.Controller &&
		annotations[markAnnotation] == kind+" "+id.String()
}

// Strict reports whether a Service has the mark of any gateway, by which its members have nothing at ports that they do
// not declare. A copy of such a Service under another name does not.
func Strict(id ID, labels, annotations map[string]string) bool {
	return Settings{Controller: labels[markLabel]}.marked("Service", id, labels, annotations)
}

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

// identify returns what a Service that is written was written for, and the clusters that have a part in
// it; false: it is no such Service.
func identify(o *Service) (g group, clusters []string, ok bool) {
	if name := ImportOf(o.ID, o.Labels); name != "" {
		return group{kind: Import, of: ID{o.Namespace, name}}, members(o.Annotations, name), true
	}
	if cluster := o.Labels[remoteDiscovery]; cluster != "" {
		g = group{kind: Mirror, of: ID{o.Namespace, o.Labels[remoteService]}, cluster: cluster}
		return g, []string{cluster}, g.target() == o.ID
	}
	name, ok := strings.CutSuffix(o.Name, "-federated")
	return group{kind: Federated, of: ID{o.Namespace, name}}, members(o.Annotations, name), ok
}

// members returns the clusters that annotations name as members, with a Service of that name. It
// returns no more clusters than an object may have.
func members(annotations map[string]string, name string) (clusters []string) {
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
func namesMore(annotations map[string]string) bool {
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

// adoptable reports whether Linkerd's service mirror wrote a Service for the group.
func adoptable(o *Service, g group) bool {
	if o.Labels[mirroredLabel] != "true" || o.Selector || o.Type != "ClusterIP" || o.Headless() || o.OwnerKind != "" ||
		o.Labels[markLabel] != "" {
		return false
	}
	switch g.kind {
	case Mirror:
		return o.Labels[clusterLabel] == g.cluster &&
			strings.HasPrefix(o.Annotations[fqNameKey], g.of.Name+"."+g.of.Namespace+".svc.")
	case Federated:
		n := 0 // a member of another name somebody else wrote
		if o.Annotations[localDiscovery] != "" {
			n++
		}
		if list := o.Annotations[remoteDiscovery]; list != "" {
			n += 1 + strings.Count(list, ",")
		}
		return n > 0 && n == len(members(o.Annotations, g.of.Name))
	}
	return false
}

// otherInstallation names the installation of another namespace whose mark an object has, or returns "".
func (s Settings) otherInstallation(kind string, id ID, labels, annotations map[string]string) string {
	namespace := labels[markLabel]
	if namespace == "" || namespace == s.Controller || annotations[markAnnotation] != kind+" "+id.String() {
		return ""
	}
	return "the installation of Isthmus in namespace " + text.Quoted(text.Truncate(namespace, text.Short))
}

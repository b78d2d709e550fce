package plan

import (
	"cmp"
	"strings"
	"time"

	"isthmus/internal/text"
)

// Settings holds the configuration that affects plans.
type Settings struct {
	Controller   string // the namespace of this installation, which the mark names
	Multicluster string // the namespace of Linkerd's Links; empty if there is none
	ClusterName  string // of the local cluster, for status.clusters of ServiceImports
	// IPv4Only means that Isthmus does not serve IPv6 addresses, and that the Services it writes
	// have only IPv4 addresses.
	IPv4Only bool
	// Labels enables exports by label, and ServiceExports enables exports by ServiceExport.
	Labels, ServiceExports bool
	// UnlinkedAfter is how long members stay after their cluster has been unlinked, or has suddenly
	// lost most of its exports.
	UnlinkedAfter time.Duration
	// MaxPerLink limits the number of objects that list the same link as a member. MaxPerNamespace
	// limits the number of objects in one namespace that list the same cluster as a member. The
	// default of MaxPerLink is DefaultPerLink, and the default of MaxPerNamespace is
	// DefaultPerNamespace.
	MaxPerLink, MaxPerNamespace int
}

func (s *Settings) perLink() int { return cmp.Or(s.MaxPerLink, DefaultPerLink) }

func (s *Settings) perNamespace() int { return cmp.Or(s.MaxPerNamespace, DefaultPerNamespace) }

// Marked reports whether a Service is marked as belonging to this installation. The mark contains
// the Service's name, so the mark is invalid on a copy with a different name. A Service with a
// selector never counts as marked.
func (s Settings) Marked(o *Service) bool {
	return s.marked("Service", o.ID, o.Labels, o.Annotations) && !o.Selector
}

func (s Settings) MarkedImport(o *ServiceImport) bool {
	return s.marked("ServiceImport", o.ID, o.Labels, o.Annotations)
}

func (s Settings) marked(kind string, id ID, labels, annotations map[string]string) bool {
	return s.Controller != "" && labels[markLabel] == s.Controller &&
		annotations[markAnnotation] == kind+" "+id.String()
}

// otherInstallation returns a description of the other Isthmus installation that marked an object,
// or "" if there is none.
func (s Settings) otherInstallation(kind string, id ID, labels, annotations map[string]string) string {
	namespace := labels[markLabel]
	if namespace == "" || namespace == s.Controller || annotations[markAnnotation] != kind+" "+id.String() {
		return ""
	}
	return "the installation of Isthmus in namespace " + text.Quoted(text.Truncate(namespace, text.Short))
}

// Isthmus sets the following labels and annotations on written objects. Linkerd's service mirror
// also writes the keys in the domain linkerd.io.
const (
	markLabel      = "isthmus.io/written-by" // the namespace of the installation
	markAnnotation = "isthmus.io/written-as" // the kind, namespace and name of the object
	copiedKey      = "isthmus.io/copied"     // annotation with a record of the copied labels and annotations
	// SingleStackKey is the annotation on Services for which Isthmus has set the IP family policy
	// to SingleStack.
	SingleStackKey = "isthmus.io/single-stack"

	mirroredLabel = "mirror.linkerd.io/mirrored-service"
	clusterLabel  = "mirror.linkerd.io/cluster-name"
	fqNameKey     = "mirror.linkerd.io/remote-svc-fq-name"
	versionKey    = "mirror.linkerd.io/remote-resource-version"

	localDiscovery  = "multicluster.linkerd.io/local-discovery"
	remoteDiscovery = "multicluster.linkerd.io/remote-discovery" // a label of mirrors, an annotation of other Services
	remoteService   = "multicluster.linkerd.io/remote-service"

	importLabel = "multicluster.kubernetes.io/service-name"    // of derived Services
	derivedKey  = "multicluster.kubernetes.io/derived-service" // of ServiceImports
	unlistedKey = "isthmus.io/unlisted-clusters"               // of ServiceImports: exporters that are not DNS labels
	absentKey   = "isthmus.io/absent-clusters"                 // of ServiceImports: see settled.go
)

// IsWritten reports whether the labels of a Service show that the Service was created by Isthmus or
// by Linkerd's service mirror. A Service with the label isthmus.io/written-by counts as created by
// Isthmus, regardless of the label's value. Isthmus never exports a Service for which IsWritten
// returns true.
func IsWritten(labels map[string]string) bool {
	_, marked := labels[markLabel]
	return marked || labels[mirroredLabel] != ""
}

// Strict reports whether a Service has a valid Isthmus mark, regardless of which installation set
// the mark. A member of a strict Service contributes endpoints only to ports that the member's own
// Service declares. The mark contains the Service's name, so if a strict Service is copied under a
// different name, the copy is not strict.
func Strict(id ID, labels, annotations map[string]string) bool {
	return Settings{Controller: labels[markLabel]}.marked("Service", id, labels, annotations)
}

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
		n := 0 // all members, also members with other names, which somebody else wrote
		if o.Annotations[localDiscovery] != "" {
			n++
		}
		if list := o.Annotations[remoteDiscovery]; list != "" {
			n += 1 + strings.Count(list, ",")
		}
		return n > 0 && n == len(namedIn(o.Annotations, g.of.Name))
	}
	return false
}

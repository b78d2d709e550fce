package plan

import (
	"cmp"
	"strings"
	"time"

	"isthmus/internal/text"
)

// Settings are those of the gateway.
type Settings struct {
	Controller   string // the gateway's namespace, which its mark has, unlike that of another gateway
	Multicluster string // the namespace of Linkerd's Links; empty: none
	ClusterName  string // of the own cluster, in status.clusters of ServiceImports
	// IPv4Only is whether Isthmus serves no IPv6 addresses. The written Services then have IPv4 addresses only.
	IPv4Only bool
	// Labels and ServiceExports are what is exported by.
	Labels, ServiceExports bool
	// UnlinkedAfter is how long the members of a cluster stay that is linked no longer, or that has lost most of
	// its exports at once.
	UnlinkedAfter time.Duration
	// MaxPerLink limits the objects that a link has a member in. MaxPerNamespace limits those of a link, or of the
	// local cluster, in one namespace. Zero means DefaultPerLink and DefaultPerNamespace.
	MaxPerLink, MaxPerNamespace int
}

func (s *Settings) perLink() int { return cmp.Or(s.MaxPerLink, DefaultPerLink) }

func (s *Settings) perNamespace() int { return cmp.Or(s.MaxPerNamespace, DefaultPerNamespace) }

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

// otherInstallation names the installation of another namespace whose mark an object has, or returns "".
func (s Settings) otherInstallation(kind string, id ID, labels, annotations map[string]string) string {
	namespace := labels[markLabel]
	if namespace == "" || namespace == s.Controller || annotations[markAnnotation] != kind+" "+id.String() {
		return ""
	}
	return "the installation of Isthmus in namespace " + text.Quoted(text.Truncate(namespace, text.Short))
}

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

// IsWritten reports whether a Service with these labels was written by a gateway, this or another one, or by
// Linkerd's service mirror: what it has counts as an object that may be there, and not as something to export.
func IsWritten(labels map[string]string) bool {
	_, marked := labels[markLabel]
	return marked || labels[mirroredLabel] != ""
}

// Strict reports whether a Service has the mark of any gateway, by which its members have nothing at ports that they do
// not declare. A copy of such a Service under another name does not.
func Strict(id ID, labels, annotations map[string]string) bool {
	return Settings{Controller: labels[markLabel]}.marked("Service", id, labels, annotations)
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
		return n > 0 && n == len(namedIn(o.Annotations, g.of.Name))
	}
	return false
}

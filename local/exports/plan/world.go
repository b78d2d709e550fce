package plan

import (
	"cmp"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ID names an object within a cluster.
type ID struct{ Namespace, Name string }

func (id ID) String() string { return id.Namespace + "/" + id.Name }

func compareIDs(a, b ID) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// World is all that a plan depends on, besides its Memory.
type World struct {
	Settings
	Now      time.Time
	Clusters []Cluster // the own one and each link, each name once
	// Namespaces are those of the own cluster that are not being deleted.
	Namespaces map[string]bool
	// Services of the own cluster: all that have the mark or Linkerd's label of mirrors. More do no harm.
	Services map[ID]*Service
	// IsTaken reports whether the own cluster has another Service of that name. It returns the same for as long as
	// the plan is made. If it is nil, there are no others.
	IsTaken func(ID) bool
	Imports map[ID]*ServiceImport
	// MCSVersion is that in which the own cluster has ServiceImports; empty: it has none, or, if Imports is nil, they
	// are not known. Then nothing is written of them and for them, nor in ServiceExports; without the kind, the
	// Services that they had go after UnlinkedAfter.
	MCSVersion string
	// LeaseOf is Cluster.Lease of clusters that are not linked. It returns the same for as long as the plan is made;
	// nil: Free.
	LeaseOf func(cluster string) Lease
	// Attempt returns what became of the writes of a "Service" or "ServiceImport". If it is nil, every
	// write counts as done.
	Attempt func(kind string, id ID) Attempt
}

// taken stands for all Services of which plans know no more than that they are there.
var taken = &Service{}

// Service returns the own cluster's Service of that name. If there is none, it is nil. Of a Service that is not in
// Services, all fields are empty.
func (w *World) Service(id ID) *Service {
	if o := w.Services[id]; o != nil {
		return o
	}
	if w.IsTaken != nil && w.IsTaken(id) {
		return taken
	}
	return nil
}

// Settings are those of the gateway.
type Settings struct {
	Controller   string // the gateway's namespace, which its mark has, unlike that of another gateway
	Multicluster string // the namespace of Linkerd's Links; empty: none
	ClusterName  string // of the own cluster, in status.clusters of ServiceImports
	// IPv4Only is whether Isthmus serves no IPv6 addresses. The written Services then have IPv4 addresses only.
	IPv4Only bool
	// Labels and ServiceExports are what is exported by.
	Labels, ServiceExports bool
	// UnlinkedAfter is how long the parts of a cluster stay that is linked no longer, or that has lost most of
	// its exports at once.
	UnlinkedAfter time.Duration
	// MaxPerLink limits the objects that a link has a part in. MaxPerNamespace limits those of a link, or of the local
	// cluster, in one namespace. Zero means DefaultPerLink and DefaultPerNamespace.
	MaxPerLink, MaxPerNamespace int
}

func (s *Settings) perLink() int { return cmp.Or(s.MaxPerLink, DefaultPerLink) }

func (s *Settings) perNamespace() int { return cmp.Or(s.MaxPerNamespace, DefaultPerNamespace) }

// Cluster is the own cluster or a link, with its exports.
type Cluster struct {
	Name   string    // empty: the own one
	Domain string    // of the cluster, such as "cluster.local"
	Age    time.Time // when it was linked; the older link decides
	// Seen is whether the Services that are exported have been read in whole since the writer began, and
	// SeenServiceExports whether the ServiceExports have: without these nothing of a ServiceImport is removed. They
	// may be older than what the cluster has now; while it can't be reached they stay.
	Seen, SeenServiceExports bool
	Exports                  []Export // each ID once
	// Emptied is whether the cluster does not have ServiceExports as a kind of object. What of ServiceImports is
	// missing by that is removed after UnlinkedAfter only.
	Emptied bool
	LinkSettings
	Lease Lease
	// OtherNetwork is whether clients reach the cluster through Linkerd gateways. Its Services may
	// then have other IP families than clients.
	OtherNetwork bool
}

func (c *Cluster) own() bool { return c.Name == "" }

// knows reports whether what the cluster exports for a kind is known.
func (c *Cluster) knows(k Kind) bool {
	return c.Seen && (c.SeenServiceExports || k != Import) && c.Joins != Unreadable
}

// Lease is the state of the Lease of Linkerd's service mirror for a link, or of the local one for the own cluster.
type Lease int

// The states of a Lease.
const (
	Free    Lease = iota // there is none, or nobody has held it for UnlinkedAfter: what it wrote may be adopted
	Unknown              // it can't be read, or was held a while ago: what it wrote is left alone
	Held                 // the service mirror works: all is left to it
)

// Export is one name that a cluster exports.
type Export struct {
	ID
	Service           *Service       // nil: there is no such Service
	Mirror, Federated bool           // the Service matches the selector for these
	Exported          *ServiceExport // nil: there is none
}

// ServiceExport is what is read of a ServiceExport.
type ServiceExport struct {
	UID                 string
	Created             time.Time
	Generation          int64
	Labels, Annotations map[string]string  // exportedLabels and exportedAnnotations
	Conditions          []metav1.Condition // of the own cluster only
}

// Service is what is read of a Service, as an export or as an object that may be written.
type Service struct {
	ID
	UID                  string
	Deleting             bool
	Type                 string // "ClusterIP" and so on
	ClusterIPs           []string
	IPFamilies           []string
	IPFamilyPolicy       string
	Selector             bool   // it has one
	OwnerKind, OwnerName string // of the first one
	OwnerUID             string
	Labels, Annotations  map[string]string
	Ports                []Port
	Traffic
}

// onlyIPv6 reports whether IPv6 is the Service's only IP family. It returns false if the families
// are not known.
func (s *Service) onlyIPv6() bool {
	return slices.Equal(s.IPFamilies, []string{"IPv6"})
}

// hasIP reports whether the Service has a ClusterIP.
func (s *Service) hasIP() bool { return len(s.ClusterIPs) > 0 && !s.Headless() }

// firstFamily returns the IP family of the first ClusterIP.
func (s *Service) firstFamily() string {
	if !s.hasIP() {
		return ""
	}
	return families(s.ClusterIPs[:1])[0]
}

// cannotGetIPs reports whether no update can give a Service the IPs that it had before.
func (s *Service) cannotGetIPs() bool { return s.Headless() || s.Type == "ExternalName" }

// Headless reports whether the Service has no IP.
func (s *Service) Headless() bool { return len(s.ClusterIPs) > 0 && s.ClusterIPs[0] == "None" }

// Traffic are fields that a ServiceImport has of its Services.
type Traffic struct {
	SessionAffinity       string // empty: "None"
	AffinitySeconds       int32
	InternalTrafficPolicy string
	TrafficDistribution   string
}

// Port is a port of a Service or a ServiceImport.
type Port struct {
	Name, Protocol, AppProtocol string
	Number                      uint16
	Target                      string // a number or a name; empty in a ServiceImport
}

// ServiceImport is what is read of a ServiceImport.
type ServiceImport struct {
	ID
	UID                 string
	Created             time.Time
	Deleting            bool
	Labels, Annotations map[string]string
	Type                string
	IPs, IPFamilies     []string
	Ports               []Port
	Traffic
	Clusters             []string // status.clusters
	EndpointSliceObjects string   // status.endpointSliceObjects
	Manager              string   // who wrote it, of one that no gateway wrote; empty: not known
	Conditions           []metav1.Condition
}

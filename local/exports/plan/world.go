package plan

import (
	"cmp"
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

// Service returns the own cluster's Service of that name. If there is none, it is nil. Of a Service that is not in
// Services, all fields are empty.
func (w *World) Service(id ID) *Service {
	if o := w.Services[id]; o != nil {
		return o
	}
	if w.IsTaken != nil && w.IsTaken(id) {
		return unknownService
	}
	return nil
}

// taken stands for all Services of which plans know no more than that they are there.
var unknownService = &Service{}

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

func (c *Cluster) isLocal() bool { return c.Name == "" }

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

package plan

import (
	"cmp"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ID identifies an object within a cluster.
type ID struct{ Namespace, Name string }

func (id ID) String() string { return id.Namespace + "/" + id.Name }

func compareIDs(a, b ID) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// World contains everything that a plan depends on, except the Memory of the previous plan.
type World struct {
	Settings
	Now      time.Time
	Clusters []Cluster // the local cluster and each link; names are unique
	// Namespaces holds the namespaces of the local cluster that are not being deleted.
	Namespaces map[string]bool
	// Services contains every local Service that has Isthmus's mark or the label that Linkerd sets
	// on mirrors. The map may also contain other Services.
	Services map[ID]*Service
	// IsTaken reports whether the local cluster has a Service with the given name that is not in
	// Services. The result must not change while [Make] is running. If IsTaken is nil, Services
	// must contain all Services of the local cluster.
	IsTaken func(ID) bool
	Imports map[ID]*ServiceImport
	// MCSVersion is the API version in which the local cluster serves ServiceImports. MCSVersion is
	// empty if the cluster does not serve ServiceImports. If Imports is nil, an empty MCSVersion
	// means that the version is unknown. Without an MCSVersion, the plan does not write
	// ServiceImports, derived Services or conditions of ServiceExports. If the cluster does not
	// serve ServiceImports, the plan deletes derived Services after UnlinkedAfter.
	MCSVersion string
	// LeaseOf returns the state of the Lease for an unlinked cluster. The result must not change
	// while [Make] is running. If LeaseOf is nil, the Leases for all unlinked clusters count as
	// Free.
	LeaseOf func(cluster string) Lease
	// Attempt returns the outcome of the writes to an object of the kind "Service" or
	// "ServiceImport". If Attempt is nil, every write counts as successful.
	Attempt func(kind string, id ID) Attempt
}

// Service returns the local cluster's Service with the given name, or nil. If the Service exists
// but is not in Services, the result is an empty Service.
func (w *World) Service(id ID) *Service {
	if o := w.Services[id]; o != nil {
		return o
	}
	if w.IsTaken != nil && w.IsTaken(id) {
		return unknownService
	}
	return nil
}

var unknownService = &Service{}

type Cluster struct {
	Name   string    // empty for the local cluster
	Domain string    // of the cluster, such as "cluster.local"
	Age    time.Time // when it was linked; the oldest link decides
	// Synced reports whether this process has synced the exported Services. ServiceExportsSynced
	// reports whether the ServiceExports have synced. The plan removes members of a ServiceImport
	// only if both Synced and ServiceExportsSynced are true. Exports of an unreachable cluster stay
	// unchanged.
	Synced, ServiceExportsSynced bool
	Exports                      []Export // IDs are unique
	// Emptied means that the cluster's API server does not serve the kind ServiceExport. If a
	// cluster stops serving the kind ServiceExport, the cluster remains a member of ServiceImports
	// until UnlinkedAfter has passed.
	Emptied bool
	LinkSettings
	Lease Lease
	// OtherNetwork means that clients reach the cluster through Linkerd gateways. Services of a
	// cluster on another network may have IP families that the clients lack.
	OtherNetwork bool
}

func (c *Cluster) isLocal() bool { return c.Name == "" }

func (c *Cluster) knows(k Kind) bool {
	return c.Synced && (c.ServiceExportsSynced || k != Import) && c.Joins != Unreadable
}

// Lease is the state of the Lease that Linkerd's service mirror holds for a link or for the local
// cluster.
type Lease int

const (
	Free    Lease = iota // no Lease, or not held for UnlinkedAfter: the mirror's Services may be adopted
	Unknown              // not readable, or held recently: the mirror's Services stay as they are
	Held                 // the service mirror is running and manages its Services
)

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
	Manager              string   // of a ServiceImport that Isthmus did not write; empty if not known
	Conditions           []metav1.Condition
}

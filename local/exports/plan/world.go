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

// World is the input of a plan, except for its Memory.
type World struct {
	Settings
	Now      time.Time
	Clusters []Cluster // the local cluster and each link; names are unique
	// Namespaces holds the namespaces of the local cluster that are not being deleted.
	Namespaces map[string]bool
	// Services holds Services of the local cluster. Services contains all Services with the mark,
	// all Services with Linkerd's label for mirrors, and possibly others.
	Services map[ID]*Service
	// IsTaken reports whether the local cluster has a Service with the given name that is not in
	// Services. The result must not change during Make. If IsTaken is nil, Services is complete.
	IsTaken func(ID) bool
	Imports map[ID]*ServiceImport
	// MCSVersion is the API version in which the local cluster serves ServiceImports. An empty
	// MCSVersion means that the cluster does not serve ServiceImports or, if Imports is nil, that
	// the version is not known. If MCSVersion is empty, the plan does not write ServiceImports,
	// their Services or conditions of ServiceExports. If the cluster does not serve ServiceImports,
	// the Services that were derived from ServiceImports are deleted after UnlinkedAfter.
	MCSVersion string
	// LeaseOf returns the state of the Lease for a cluster that is not linked. The result must not
	// change during Make. If LeaseOf is nil, the Leases for all clusters that are not linked are
	// Free.
	LeaseOf func(cluster string) Lease
	// Attempt returns the result of the writes of an object whose kind is "Service" or
	// "ServiceImport". If Attempt is nil, every write counts as successful.
	Attempt func(kind string, id ID) Attempt
}

// Service returns the local cluster's Service with the given name, or nil. If the Service exists
// but is not in Services, all fields of the result are empty.
func (w *World) Service(id ID) *Service {
	if o := w.Services[id]; o != nil {
		return o
	}
	if w.IsTaken != nil && w.IsTaken(id) {
		return unknownService
	}
	return nil
}

// unknownService represents all Services that exist but are not in World.Services.
var unknownService = &Service{}

// Cluster describes the local cluster or a linked cluster, with its exports.
type Cluster struct {
	Name   string    // empty for the local cluster
	Domain string    // of the cluster, such as "cluster.local"
	Age    time.Time // when it was linked; the oldest link decides
	// Synced reports whether the exported Services have synced since the writer began.
	// ServiceExportsSynced reports whether the ServiceExports have synced. The plan does not remove
	// members of a ServiceImport unless both fields are true. Exports of an unreachable cluster
	// stay unchanged.
	Synced, ServiceExportsSynced bool
	Exports                      []Export // IDs are unique
	// Emptied reports whether the cluster does not serve ServiceExports. If Emptied is true, the
	// plan removes the cluster from ServiceImports after UnlinkedAfter.
	Emptied bool
	LinkSettings
	Lease Lease
	// OtherNetwork reports whether clients reach the cluster through Linkerd gateways. If
	// OtherNetwork is true, the IP families of the cluster's Services may differ from those of the
	// clients.
	OtherNetwork bool
}

func (c *Cluster) isLocal() bool { return c.Name == "" }

// knows reports whether the cluster's exports of a kind are known.
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

// ServiceImport holds the fields that a plan reads from a ServiceImport.
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

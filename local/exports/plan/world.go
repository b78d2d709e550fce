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

// World is the input of a plan, besides its Memory.
type World struct {
	Settings
	Now      time.Time
	Clusters []Cluster // the local cluster and each link; names are unique
	// Namespaces holds the namespaces of the local cluster that are not being deleted.
	Namespaces map[string]bool
	// Services holds Services of the local cluster. It has every Service with the mark and every
	// Service with Linkerd's label of mirrors, and may have more.
	Services map[ID]*Service
	// IsTaken reports whether the local cluster has a Service of that name that Services lacks. Its
	// result must not change during Make. If IsTaken is nil, Services is complete.
	IsTaken func(ID) bool
	Imports map[ID]*ServiceImport
	// MCSVersion is the API version in which the local cluster serves ServiceImports. If it is
	// empty, the cluster has no ServiceImports, or Imports is nil and they are not known. The plan
	// then writes no ServiceImports, no Services for them and no conditions of ServiceExports. If
	// the cluster has no ServiceImports, the Services that were derived from them are deleted after
	// UnlinkedAfter.
	MCSVersion string
	// LeaseOf returns the Lease of a cluster that is not linked. Its result must not change during
	// Make. If LeaseOf is nil, such Leases are Free.
	LeaseOf func(cluster string) Lease
	// Attempt returns the outcome of the writes of an object of kind "Service" or "ServiceImport".
	// If Attempt is nil, every write counts as successful.
	Attempt func(kind string, id ID) Attempt
}

// Service returns the local cluster's Service of that name, or nil. If the Service exists but
// Services lacks it, all fields of the result are empty.
func (w *World) Service(id ID) *Service {
	if o := w.Services[id]; o != nil {
		return o
	}
	if w.IsTaken != nil && w.IsTaken(id) {
		return unknownService
	}
	return nil
}

// unknownService represents every Service that exists but that the plan has not read.
var unknownService = &Service{}

// Cluster is the local cluster or a link, with its exports.
type Cluster struct {
	Name   string    // empty for the local cluster
	Domain string    // of the cluster, such as "cluster.local"
	Age    time.Time // when it was linked; the oldest link decides
	// Seen reports whether the exported Services have synced since the writer began.
	// SeenServiceExports reports whether the ServiceExports have synced. Without both, the plan
	// removes nothing of a ServiceImport. Exports of an unreachable cluster stay as they were.
	Seen, SeenServiceExports bool
	Exports                  []Export // IDs are unique
	// Emptied reports whether the cluster does not serve ServiceExports. Its members of
	// ServiceImports are then removed after UnlinkedAfter.
	Emptied bool
	LinkSettings
	Lease Lease
	// OtherNetwork reports whether clients reach the cluster through Linkerd gateways. The
	// cluster's Services may then have other IP families than the clients.
	OtherNetwork bool
}

func (c *Cluster) isLocal() bool { return c.Name == "" }

// knows reports whether the cluster's exports of a kind are known.
func (c *Cluster) knows(k Kind) bool {
	return c.Seen && (c.SeenServiceExports || k != Import) && c.Joins != Unreadable
}

// Lease is the state of the Lease that Linkerd's service mirror holds for a link or for the local
// cluster.
type Lease int

const (
	Free    Lease = iota // no Lease, or not held for UnlinkedAfter: the mirror's Services may be adopted
	Unknown              // not readable, or held recently: the mirror's Services stay as they are
	Held                 // the service mirror is running and manages its Services
)

// ServiceImport holds the fields that a plan reads of a ServiceImport.
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

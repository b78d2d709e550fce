package adminapi

import "time"

// Exports is /debug/exports. The page shows the exports of all clusters, the objects that Isthmus
// writes for them, and the pending changes.
//
// The query parameter service limits the page to exports, or objects written for them, of that
// name. The value is NAME, NAMESPACE/NAME, or NAMESPACE/ for a whole namespace. The parameter can
// be repeated.
type Exports struct {
	Replica Replica       `json:"replica"` // the replica that responds
	Writer  ExportsWriter `json:"writer"`
	// Unread is why the other fields of this page are unknown. Unread is empty if they are known.
	Unread    string           `json:"unread,omitempty"`
	Exports   []Export         `json:"exports"`
	Conflicts []ExportConflict `json:"conflicts"`
	Changes   []ExportChange   `json:"changes"` // pending, or what --exports=on would do
	// Written and WrittenImports are the Services and ServiceImports that have Isthmus's mark.
	Written        []string `json:"written"`
	WrittenImports []string `json:"writtenImports"`
	// MoreExports, MoreConflicts and MoreChanges are the numbers of omitted items.
	MoreExports   int `json:"moreExports,omitempty"`
	MoreConflicts int `json:"moreConflicts,omitempty"`
	MoreChanges   int `json:"moreChanges,omitempty"`
}

// ExportsWriter is the state of the writer of exported Services, as one replica sees it.
type ExportsWriter struct {
	Mode string `json:"mode"` // value of --exports: plan or on
	// Identity and Holder are only set if Mode is on.
	Identity string `json:"identity,omitempty"` // of this replica
	// Holder is the holder of the Lease, as last seen. Holder is empty if there is no holder or the
	// holder is unknown. If there is nothing to write, no replica acquires the Lease.
	Holder  string `json:"holder,omitempty"`
	Leading bool   `json:"leading"` // whether this replica is the leader
	// MCS is the version of the MCS-API for ServiceImports. MCS is "none" if the cluster does not
	// serve the kind, or the kind can't be read. MCS is empty if ServiceExports are not a source,
	// or if the version is unknown.
	MCS string `json:"mcs,omitempty"`
	// LeaseError is why the Lease can't be used. LeaseError is empty if the Lease can be used.
	LeaseError string `json:"leaseError,omitempty"`
	// Notes say which of Linkerd's Links, or Leases of its service mirrors, can't be read, and what
	// applies instead.
	Notes []string `json:"notes,omitempty"`
}

// ExportsSummary summarizes the problems of the writer of exported Services.
type ExportsSummary struct {
	ExportsWriter
	// Unread is why the other fields are unknown. Unread is empty if they are known.
	Unread  string `json:"unread,omitempty"`
	Pending int    `json:"pending"` // number of objects to be written or deleted
	// Unwritten lists exports that are not completely written, by state. Unwritten lists at most
	// five per state.
	Unwritten map[string][]string `json:"unwritten,omitempty"`
}

// Export is a Service that a cluster exports or used to export, as one kind of object.
type Export struct {
	Cluster string `json:"cluster"`
	Export  string `json:"export"` // NAMESPACE/NAME in its cluster
	Kind    string `json:"kind"`   // mirror, federated, or import (a ServiceImport with its Service)
	// Object is the Service that Isthmus writes, or would write, for the export. For a headless
	// ServiceImport, Object is the ServiceImport.
	Object string    `json:"object"`
	State  string    `json:"state"`            // one of the states in docs/exports.md
	Detail string    `json:"detail,omitempty"` // explanation of the state
	Until  time.Time `json:"until,omitzero"`   // when the state ends by itself; zero means never
}

// States of an Export in addition to those of a plan.
const (
	ExportWouldBeWritten = "would be written" // with --exports=on
	ExportBeingWritten   = "being written"
	ExportFailed         = "failed"       // the write failed and is retried
	ExportChangedBack    = "changed back" // others repeatedly revert the change
)

// ExportConflict is a difference between exports of one name.
type ExportConflict struct {
	Object  string `json:"object"` // as in Export
	Kind    string `json:"kind"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// ExportChange is an object that is to be created, updated or deleted.
type ExportChange struct {
	Verb string `json:"verb"` // create, update, status or delete
	// ObjectKind is Service, ServiceImport or ServiceExport. Of a ServiceExport, only conditions
	// change.
	ObjectKind string        `json:"objectKind"`
	Object     string        `json:"object"`
	Kind       string        `json:"kind"`
	Of         string        `json:"of"` // the exports that cause the change
	Fields     []ExportField `json:"fields"`
	// Error is why the change failed. Error is empty if this replica knows of no attempt.
	Error string `json:"error,omitempty"`
}

// ExportField is one changed field. Long values are truncated.
type ExportField struct {
	Field  string `json:"field"`
	Before string `json:"before,omitempty"` // empty if the field does not exist
	After  string `json:"after,omitempty"`  // empty if the field is removed
}

package adminapi

import "time"

// Exports, the JSON document at /debug/exports, describes the exports of all clusters, the objects
// written for them, and the pending changes.
//
// The "service" query parameter limits the page to exports with the given name, and to the objects
// written for these exports. The value of "service" is NAME, NAMESPACE/NAME, or NAMESPACE/ for a
// whole namespace. To request several names, repeat the parameter.
type Exports struct {
	Replica Replica       `json:"replica"` // the replica that responds
	Writer  ExportsWriter `json:"writer"`
	// Unread says why the other fields of this page are unknown, and is empty if they are known.
	Unread    string           `json:"unread,omitempty"`
	Exports   []Export         `json:"exports"`
	Conflicts []ExportConflict `json:"conflicts"`
	Changes   []ExportChange   `json:"changes"` // pending, or what --exports=on would do
	// Written and WrittenImports list the Services and ServiceImports that Isthmus has marked as
	// its own.
	Written        []string `json:"written"`
	WrittenImports []string `json:"writtenImports"`
	MoreExports    int      `json:"moreExports,omitempty"`
	MoreConflicts  int      `json:"moreConflicts,omitempty"`
	MoreChanges    int      `json:"moreChanges,omitempty"`
}

type ExportsWriter struct {
	Mode string `json:"mode"` // value of --exports: plan or on
	// Identity and Holder are set only if Mode is on.
	Identity string `json:"identity,omitempty"` // of this replica
	// Holder is the last known holder of the Lease, or empty if no holder is known. Replicas try to
	// acquire the Lease only if they have something to write.
	Holder  string `json:"holder,omitempty"`
	Leading bool   `json:"leading"` // whether this replica is the leader
	// MCS is the version of the MCS-API that Isthmus uses for ServiceImports. MCS is "none" if the
	// cluster does not serve ServiceImports or Isthmus cannot read them. MCS is empty if Isthmus is
	// not configured to read ServiceExports, or if the version is unknown.
	MCS        string `json:"mcs,omitempty"`
	LeaseError string `json:"leaseError,omitempty"`
	// Notes lists the Links and the service-mirror Leases that Isthmus cannot read, and says what
	// Isthmus assumes instead.
	Notes []string `json:"notes,omitempty"`
}

type ExportsSummary struct {
	ExportsWriter
	Unread  string `json:"unread,omitempty"`
	Pending int    `json:"pending"` // number of objects to be written or deleted
	// Unwritten lists the exports that are not completely written, grouped by state, with at most
	// five exports per state.
	Unwritten map[string][]string `json:"unwritten,omitempty"`
}

// Export describes a Service that a cluster exports, or has exported before. If Isthmus writes
// several kinds of objects for a Service, there is one Export for each kind.
type Export struct {
	Cluster string `json:"cluster"`
	Export  string `json:"export"` // NAMESPACE/NAME in its cluster
	Kind    string `json:"kind"`   // mirror, federated, or import (a ServiceImport with its Service)
	// Object is the Service that Isthmus writes, or would write, for the export. For a headless
	// ServiceImport, Object is the ServiceImport itself.
	Object string    `json:"object"`
	State  string    `json:"state"`            // one of the states in docs/exports.md
	Detail string    `json:"detail,omitempty"` // explanation of the state
	Until  time.Time `json:"until,omitzero"`   // when the state ends by itself; zero means never
}

// An Export has one of the following states, or one of the states in package plan.
const (
	ExportWouldBeWritten = "would be written" // with --exports=on
	ExportBeingWritten   = "being written"
	ExportFailed         = "failed"       // the write failed and is retried
	ExportChangedBack    = "changed back" // others repeatedly revert the change
)

type ExportConflict struct {
	Object  string `json:"object"` // as in Export
	Kind    string `json:"kind"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

type ExportChange struct {
	Verb string `json:"verb"` // create, update, status or delete
	// ObjectKind is Service, ServiceImport or ServiceExport. If ObjectKind is ServiceExport,
	// Isthmus changes only the conditions of the object.
	ObjectKind string        `json:"objectKind"`
	Object     string        `json:"object"`
	Kind       string        `json:"kind"`
	Of         string        `json:"of"` // the exports that cause the change
	Fields     []ExportField `json:"fields"`
	// Error is the reason why this replica's last attempt to write the change failed. If the last
	// attempt did not fail, Error is empty.
	Error string `json:"error,omitempty"`
}

// ExportField describes one changed field. Long field values are truncated.
type ExportField struct {
	Field  string `json:"field"`
	Before string `json:"before,omitempty"` // empty if the field does not exist
	After  string `json:"after,omitempty"`  // empty if the field is removed
}

package adminapi

import "time"

// Exports is /debug/exports: what the own and all linked clusters export, as what it is written,
// and what of that is still to be done. With ?service=NAME, NAMESPACE/NAME or NAMESPACE/ for all of
// a namespace, which may be there more than once, it is only about exports, or what they are
// written as, of these names.
type Exports struct {
	Replica Replica       `json:"replica"` // that answers
	Writer  ExportsWriter `json:"writer"`
	// Unread is why nothing else of this page is known; empty: it is.
	Unread    string           `json:"unread,omitempty"`
	Exports   []Export         `json:"exports"`
	Conflicts []ExportConflict `json:"conflicts"`
	Changes   []ExportChange   `json:"changes"` // that are to be made, or would be with --exports=on
	// Written and WrittenImports are Services and ServiceImports that have the gateway's mark.
	Written        []string `json:"written"`
	WrittenImports []string `json:"writtenImports"`
	// MoreExports, MoreConflicts and MoreChanges are how many are left out.
	MoreExports   int `json:"moreExports,omitempty"`
	MoreConflicts int `json:"moreConflicts,omitempty"`
	MoreChanges   int `json:"moreChanges,omitempty"`
}

// ExportsWriter is who writes Services for exports, as one replica sees it.
type ExportsWriter struct {
	Mode string `json:"mode"` // of --exports: plan or on
	// With mode on only:
	Identity string `json:"identity,omitempty"` // this replica's
	// Holder is that of the Lease, as last seen; empty: none, or not known. Without anything to
	// write no replica takes it.
	Holder  string `json:"holder,omitempty"`
	Leading bool   `json:"leading"` // this replica writes
	// MCS is the version of the MCS-API in which ServiceImports are written, or would be; none: the
	// cluster does not have the kind, or it can't be read; empty: ServiceExports are no source, or
	// nothing is known yet.
	MCS string `json:"mcs,omitempty"`
	// LeaseError is why the Lease can't be used; empty: it can.
	LeaseError string `json:"leaseError,omitempty"`
	// Notes are what can't be read of Linkerd's Links, or of the Leases of its service mirrors, and what holds instead.
	Notes []string `json:"notes,omitempty"`
}

// ExportsSummary is what is wrong with the writing of Services for exports.
type ExportsSummary struct {
	ExportsWriter
	// Unread is why nothing else is known; empty: it is.
	Unread  string `json:"unread,omitempty"`
	Pending int    `json:"pending"` // objects that are to be written or deleted
	// Unwritten are exports of which something is not written, by the state; five of each at most.
	Unwritten map[string][]string `json:"unwritten,omitempty"`
}

// Export is a Service that a cluster exports, or did, as one kind of object.
type Export struct {
	Cluster string `json:"cluster"`
	Export  string `json:"export"` // its name, in its cluster
	Kind    string `json:"kind"`   // mirror, federated, or import: a ServiceImport with its Service
	// Object is the Service that the export is written as, or would be. For a headless
	// ServiceImport, it is the ServiceImport.
	Object string    `json:"object"`
	State  string    `json:"state"`            // one of those that docs/exports.md lists
	Detail string    `json:"detail,omitempty"` // in words
	Until  time.Time `json:"until,omitzero"`   // when the state ends by itself; zero: never
}

// States of an Export besides those that the plan of what is to be written has.
const (
	ExportWouldBeWritten = "would be written" // with --exports=on
	ExportBeingWritten   = "being written"
	ExportFailed         = "failed"       // to be written; it is tried again
	ExportChangedBack    = "changed back" // by others, again and again
)

// ExportConflict is what exports of one name differ in.
type ExportConflict struct {
	Object  string `json:"object"` // as of an Export
	Kind    string `json:"kind"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// ExportChange is an object that is to be created, updated or deleted.
type ExportChange struct {
	Verb string `json:"verb"` // create, update, status or delete
	// ObjectKind is Service, ServiceImport or ServiceExport, of which nothing but conditions changes.
	ObjectKind string        `json:"objectKind"`
	Object     string        `json:"object"`
	Kind       string        `json:"kind"`
	Of         string        `json:"of"` // the exports
	Fields     []ExportField `json:"fields"`
	// Error is why it could not be made; empty: it was not tried, as far as this replica knows.
	Error string `json:"error,omitempty"`
}

// ExportField is one field that changes. Long values are cut.
type ExportField struct {
	Field  string `json:"field"`
	Before string `json:"before,omitempty"` // empty: it is not there
	After  string `json:"after,omitempty"`  // empty: it goes
}

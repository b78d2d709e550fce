package plan

import (
	"slices"
	"time"
)

// Plan lists the objects to write and to delete, and the verdict on each export. Its lists are
// sorted.
type Plan struct {
	Services []WantedService
	Imports  []WantedImport
	// Delete and DeleteImports list objects that are marked as belonging to this installation, but
	// are not needed for any export.
	Delete, DeleteImports []Unwanted
	// Exports lists the planned conditions of the local cluster's ServiceExports.
	Exports   []ExportConditions
	Verdicts  []Verdict
	Conflicts []Conflict
	// For each limit, Fullest contains the link or namespace that is closest to the limit.
	Fullest []Fullness
	// Due is the next time at which the plan changes merely because time has passed. Zero means
	// never.
	Due time.Time
}

type Unwanted struct {
	ID
	Of   ID // the exports for which it was written
	Kind Kind
	Turn string // see [WantedService.Turn]
	UID  string
}

// Mine reports whether the plan is allowed to delete a Service that the caller has just read from
// the API server.
func (u Unwanted) Mine(s Settings, have *Service) bool {
	return have.UID == u.UID && s.Marked(have) && !have.Deleting
}

func (u Unwanted) MineImport(s Settings, have *ServiceImport) bool {
	return have.UID == u.UID && s.MarkedImport(have) && !have.Deleting
}

// Verdict is the plan's decision on an export.
type Verdict struct {
	Cluster string // empty for the local cluster
	Export  ID
	Kind    Kind
	// Object is the Service that is written for the export. For a headless ServiceImport, Object is
	// the ServiceImport itself, because the plan contains no derived Service.
	Object ID
	State  State
	Detail string    // may be empty
	Until  time.Time // when the state ends without other changes; zero means never
}

type State string

// If the state of a verdict is Written, Kept or OnHold, the verdict's cluster is a member of the
// planned object.
const (
	Written       State = "written"
	Kept          State = "kept"            // the exports of its cluster are not known
	OnHold        State = "held"            // no longer exported, and removed later
	LeftToLinkerd State = "left to linkerd" // Linkerd's service mirror writes the Service
	Taken         State = "taken"           // another object has the name
	Waiting       State = "waiting"         // the namespace is missing, or the previous object is still being deleted
	NotAllowed    State = "not allowed"     // rejected by the settings of the link
	// NameRefused means that the object's name is invalid for a Service or reserved for another
	// link. A ServiceExport also has the state NameRefused if its link has the same name as the
	// local cluster.
	NameRefused   State = "name refused"
	NoPort        State = "no usable port"    // a Service needs at least one
	OverNumber    State = "over the number"   // beyond a limit of objects or members
	HeadlessJoins State = "headless"          // a headless Service can't join a federated Service
	Unset         State = "setting unusable"  // an annotation of the link is invalid, so nothing is added
	Invalid       State = "not valid"         // the Service of the ServiceExport is missing or can't be exported
	NoImports     State = "no serviceimports" // the local cluster has no ServiceImports, or they can't be read
)

// Conflict describes a field in which exports with the same name differ.
type Conflict struct {
	Of      ID // the name of the exports
	Object  ID // see [Verdict.Object]
	Kind    Kind
	Reason  string
	Message string
	// A non-nil list limits the conflict to the ServiceExports in the listed clusters.
	only []string
}

func (c *Conflict) concerns(cluster string) bool {
	return c.only == nil || slices.Contains(c.only, cluster)
}

// Fullness compares a limit with the number of objects that are requested by exports. If Per is
// "link", the limit applies to all exports of one link. If Per is "namespace", the limit applies to
// the exports of one cluster in one namespace.
type Fullness struct {
	Per       string // "link" or "namespace"
	Cluster   string // empty for the local cluster
	Namespace string // empty if Per is "link"
	Asked     int    // number of objects that the exports request; may exceed Most
	Most      int    // the limit
}

// Ratio returns a value above 1 if the exports exceed the limit.
func (f Fullness) Ratio() float64 { return float64(f.Asked) / float64(f.Most) }

package plan

import (
	"slices"
	"time"
)

// Plan is what is to be written, and what becomes of each export. Lists are sorted.
type Plan struct {
	Services []WantedService
	Imports  []WantedImport
	// Delete and DeleteImports are objects with the mark that nothing is exported for.
	Delete, DeleteImports []Unwanted
	// Exports are the conditions of the own cluster's ServiceExports.
	Exports  []ExportConditions
	Verdicts []Verdict
	// Conflicts are what exports of one name differ in.
	Conflicts []Conflict
	// Fullest has, for each limit, the link or the namespace that uses most of the limit.
	Fullest []Fullness
	// Due is when time alone changes the plan; zero: never.
	Due time.Time
}

// Unwanted is an object that is to be deleted.
type Unwanted struct {
	ID
	Of   ID // what it was written for
	Kind Kind
	Turn string // by which writes take turns
	UID  string
}

// Mine reports whether a Service of that name, as it has just been read, may be deleted.
func (u Unwanted) Mine(s Settings, have *Service) bool {
	return have.UID == u.UID && s.Marked(have) && !have.Deleting
}

// MineImport reports that of a ServiceImport.
func (u Unwanted) MineImport(s Settings, have *ServiceImport) bool {
	return have.UID == u.UID && s.MarkedImport(have) && !have.Deleting
}

// Verdict is what becomes of an export.
type Verdict struct {
	Cluster string // empty: the own one
	Export  ID
	Kind    Kind
	// Object is the Service that the export is written as. For a headless ServiceImport, which has
	// no Service, Object is the ServiceImport.
	Object ID
	State  State
	Detail string    // may be empty
	Until  time.Time // when the state ends by itself; zero: never
}

// State is one of a fixed set of words.
type State string

// The states. Only a member that is Written or Kept has one in an object.
const (
	Written       State = "written"
	Kept          State = "kept"            // its cluster's exports are not known
	OnHold        State = "held"            // it is gone, and is removed later
	LeftToLinkerd State = "left to linkerd" // its service mirror writes it
	Taken         State = "taken"           // the name is another object's
	Waiting       State = "waiting"         // the namespace is missing, or the object of before still goes
	NotAllowed    State = "not allowed"     // by what is set for the link
	// NameRefused means that no Service may have the name, that the name belongs to another link,
	// or that the link has the own cluster's name.
	NameRefused   State = "name refused"
	NoPort        State = "no usable port"    // a Service has to have one
	OverNumber    State = "over the number"   // of objects or members
	HeadlessJoins State = "headless"          // it can't join a federated Service
	Unset         State = "setting unusable"  // an annotation of the link can't be read, so nothing is added
	Invalid       State = "not valid"         // a ServiceExport without a Service, or of one that can't be exported
	NoImports     State = "no serviceimports" // the own cluster does not have the kind, or it can't be read
)

// Conflict is what exports of one name differ in.
type Conflict struct {
	Of      ID // the exports
	Object  ID // as of a Verdict
	Kind    Kind
	Reason  string
	Message string
	// only are the clusters whose ServiceExports have the conflict. If it is nil, all of them do.
	only []string
}

// concerns reports whether a cluster's ServiceExport has the conflict.
func (c *Conflict) concerns(cluster string) bool {
	return c.only == nil || slices.Contains(c.only, cluster)
}

// Fullness compares a limit with the exports that need the most objects: of one link,
// or of one cluster in one namespace.
type Fullness struct {
	Per       string // "link" or "namespace"
	Cluster   string // empty for the local cluster
	Namespace string // empty if Per is "link"
	Asked     int    // objects that the exports need, beyond the limit too
	Most      int    // the limit
}

// Ratio returns which part of the limit is used. It is above 1 if exports are beyond the limit.
func (f Fullness) Ratio() float64 { return float64(f.Asked) / float64(f.Most) }

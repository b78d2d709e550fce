package adminapi

import (
	"time"
)

// List is one page of a list that was requested with view=list. Lines contains only matching lines,
// in the requested order. [ClusterList], [ServiceList], [StreamList] and [EventList] embed List and
// add totals.
type List[T any] struct {
	All      int `json:"all"`      // number of lines
	Matching int `json:"matching"` // number of lines that match
	Page     int `json:"page"`     // number of this page, from 1
	Pages    int `json:"pages"`    // number of pages with the requested limit; at least 1
	Lines    []T `json:"lines"`
}

// Severity specifies how urgent a line is. Higher values are more urgent.
type Severity int

const (
	Fine    Severity = iota
	Notable          // it works, but not in the usual way
	Partial          // a part of it does not work, or not yet
	Broken
)

type ClusterList struct {
	Replica  Replica              `json:"replica"`  // the replica that responds
	States   map[ClusterState]int `json:"states"`   // number of clusters by state
	TakenOut int                  `json:"takenOut"` // number of clusters that are not in service
	List[ClusterLine]
}

type Replica struct {
	Name    string `json:"name"` // name of its Pod or machine
	Version string `json:"version"`
	Ready   bool   `json:"ready"`
	Domain  string `json:"domain"` // cluster domain
	// Format is the constant [Format], or zero if the replica's version predates this field.
	Format int `json:"format,omitempty"`
}

// ClusterLine describes a cluster, but does not include the cluster's resources or memory. Long
// strings are truncated.
type ClusterLine struct {
	Cluster
	Severity Severity `json:"severity"`
}

type ServiceList struct {
	Troubled int `json:"troubled"` // number of services that are Partial or Broken
	Unserved int `json:"unserved"` // number of services that are Broken
	List[ServiceLine]
}

// ServiceLine summarizes a service. Long strings are truncated.
type ServiceLine struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Kind is "import", "federated", "mirrored" or "plain", or "undefined" if the Service does not
	// exist.
	Kind        string       `json:"kind"`
	Port        uint16       `json:"port,omitempty"`        // the port of Endpoints; zero if no port is known
	Ports       []uint16     `json:"ports,omitempty"`       // known ports, at most 20
	Watched     bool         `json:"watched"`               // watched by proxies; otherwise the endpoints are unknown
	Members     []MemberLine `json:"members"`               // at most 12, those that do not serve first
	MoreMembers int          `json:"moreMembers,omitempty"` // number of omitted members
	Serving     int          `json:"serving"`               // number of members that serve
	Endpoints   int          `json:"endpoints"`             // number of endpoints of all members
	Streams     int          `json:"streams"`
	Problems    []string     `json:"problems,omitempty"` // of its annotations and labels
	Prefer      string       `json:"prefer,omitempty"`   // tiers of its preference; empty if clients get all endpoints
	// Tiers lists up to 6 tiers that clients use, or is empty if clients receive all endpoints.
	Tiers    []ZoneTiers `json:"tiers,omitempty"`
	Severity Severity    `json:"severity"`
}

type MemberLine struct {
	Cluster   string `json:"cluster"`
	Service   string `json:"service,omitempty"` // name of the Service in that cluster, if it differs
	Endpoints int    `json:"endpoints"`
	Reason    string `json:"reason,omitempty"`   // why the member does not serve; empty if it serves
	Standing  string `json:"standing,omitempty"` // standing of the cluster; empty if it is in service
}

type ZoneTiers struct {
	Zone  string `json:"zone,omitempty"` // empty if unknown
	InUse string `json:"inUse"`          // names of the tiers
	Count int    `json:"count"`
}

// StreamList omits views without streams, and truncates long strings.
type StreamList struct {
	Streams int `json:"streams"` // of all views
	List[View]
}

type EventList struct {
	Most int `json:"most"` // maximum number of events in the log
	List[Event]
}

// Streams, the JSON document at /debug/streams, lists the destinations that proxies watch, with the
// number of streams for each view.
type Streams struct {
	Streams int    `json:"streams"`
	Views   []View `json:"views"` // most streams first
}

// View describes a group of streams whose clients all receive the same endpoints or the same
// profile.
type View struct {
	Method      string `json:"method"`      // Get or GetProfile
	Destination string `json:"destination"` // as requested
	Node        string `json:"node,omitempty"`
	Zone        string `json:"zone,omitempty"`
	Namespace   string `json:"namespace,omitempty"` // namespace of the clients, if it affects their endpoints
	Streams     int    `json:"streams"`             // zero means that the view is idle
	Endpoints   int    `json:"endpoints"`           // endpoints sent to each stream
}

type Events struct {
	Most   int     `json:"most"`   // maximum number of events in the log
	Events []Event `json:"events"` // newest first
}

// Event describes a change that the replica has observed one or more times.
type Event struct {
	Kind    EventKind `json:"kind"`
	Object  string    `json:"object"` // cluster, service or destination
	Text    string    `json:"text"`
	Problem bool      `json:"problem"` // false if the object is normal or has recovered
	At      time.Time `json:"at"`      // last occurrence
	First   time.Time `json:"first"`   // first occurrence, if known
	Count   int       `json:"count"`   // number of occurrences
}

type EventKind string

const (
	EventCluster  EventKind = "cluster"  // state of a cluster
	EventStanding EventKind = "standing" // standing of a cluster
	EventRotation EventKind = "rotation" // rotation of a link's credentials
	EventGateway  EventKind = "gateway"  // a gateway of a cluster on another network died or recovered
	EventTier     EventKind = "tier"     // tiers that the clients of a service use
	EventStall    EventKind = "stall"    // a stream ended because its proxy read nothing
)

package adminapi

import (
	"time"
)

// List is what a page answers to view=list: lines that match, in the order that was asked for, from
// one page of them. It is embedded in [ClusterList], [ServiceList], [StreamList] and [EventList],
// which add totals.
type List[T any] struct {
	All      int `json:"all"`      // lines that there are
	Matching int `json:"matching"` // of these, that match
	Page     int `json:"page"`     // from 1
	Pages    int `json:"pages"`    // with so many lines each as was asked for; 1 or more
	Lines    []T `json:"lines"`
}

// Severity is how urgent it is to look at a line.
type Severity int

// The severities.
const (
	Fine    Severity = iota
	Notable          // it works, otherwise than usual
	Partial          // part of it does not work, or not yet
	Broken
)

// ClusterList is /debug/clusters?view=list.
type ClusterList struct {
	Replica  Replica              `json:"replica"`  // that answers
	States   map[ClusterState]int `json:"states"`   // how many clusters have which
	TakenOut int                  `json:"takenOut"` // clusters that are not in service
	List[ClusterLine]
}

// Replica is the replica of the gateway that answers.
type Replica struct {
	Name    string `json:"name"` // of its Pod or machine
	Version string `json:"version"`
	Ready   bool   `json:"ready"`
	Domain  string `json:"domain"` // of the cluster's names
	// Format is [Format]. Zero means that the replica is older than this field.
	Format int `json:"format,omitempty"`
}

// ClusterLine is a cluster, without its resources and memory. The own one has the name "local". Texts are shortened.
type ClusterLine struct {
	Cluster
	Severity Severity `json:"severity"`
}

// ServiceList is /debug/services?view=list.
type ServiceList struct {
	Troubled int `json:"troubled"` // services that are Partial or Broken
	Unserved int `json:"unserved"` // of these, that are Broken
	List[ServiceLine]
}

// ServiceLine is a service in short. Texts are shortened.
type ServiceLine struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Kind is import, federated, mirrored, plain, or undefined: there is no such Service.
	Kind        string       `json:"kind"`
	Port        uint16       `json:"port,omitempty"`        // the one that Endpoints are about; 0: no port is known
	Ports       []uint16     `json:"ports,omitempty"`       // those that are known, at most 20
	Watched     bool         `json:"watched"`               // by proxies: only then the endpoints are known
	Members     []MemberLine `json:"members"`               // at most 12, then those that do not serve first
	MoreMembers int          `json:"moreMembers,omitempty"` // that are not listed
	Serving     int          `json:"serving"`               // how many of all members do
	Endpoints   int          `json:"endpoints"`             // of all members
	Streams     int          `json:"streams"`
	Problems    []string     `json:"problems,omitempty"` // of its annotations and labels
	Prefer      string       `json:"prefer,omitempty"`   // its tiers; empty: clients simply get everything
	// Tiers are those that clients use, if they don't simply get everything; at most 6.
	Tiers    []ZoneTiers `json:"tiers,omitempty"`
	Severity Severity    `json:"severity"`
}

// MemberLine is what a cluster has for a service.
type MemberLine struct {
	Cluster   string `json:"cluster"`
	Service   string `json:"service,omitempty"` // its name there, if it is another
	Endpoints int    `json:"endpoints"`
	Reason    string `json:"reason,omitempty"`   // why it does not serve; empty: it does
	Standing  string `json:"standing,omitempty"` // of the cluster; empty: it is in service
}

// ZoneTiers are the tiers that clients of a zone use.
type ZoneTiers struct {
	Zone  string `json:"zone,omitempty"` // empty: not known
	InUse string `json:"inUse"`          // their names
	Count int    `json:"count"`
}

// StreamList is /debug/streams?view=list. Views that no stream uses are left out, and texts are shortened.
type StreamList struct {
	Streams int `json:"streams"` // of all views
	List[View]
}

// EventList is /debug/events?view=list.
type EventList struct {
	Most int `json:"most"` // that are kept
	List[Event]
}

// Streams is /debug/streams: what proxies watch, and how many streams share it.
type Streams struct {
	Streams int    `json:"streams"`
	Views   []View `json:"views"` // those with the most streams first
}

// View is what the streams of clients that get the same have in common.
type View struct {
	Method      string `json:"method"`      // Get or GetProfile
	Destination string `json:"destination"` // as in the requests
	Node        string `json:"node,omitempty"`
	Zone        string `json:"zone,omitempty"`
	Namespace   string `json:"namespace,omitempty"` // of clients, where it matters
	Streams     int    `json:"streams"`             // 0: it is idle
	Endpoints   int    `json:"endpoints"`           // that its streams are sent
}

// Events is /debug/events: the newest events.
type Events struct {
	Most   int     `json:"most"`   // that are kept
	Events []Event `json:"events"` // the newest first
}

// Event is a change that the gateway has noticed, once or several times.
type Event struct {
	Kind    EventKind `json:"kind"`
	Object  string    `json:"object"` // the cluster, service or destination that it is about
	Text    string    `json:"text"`
	Problem bool      `json:"problem"` // or else it is as it should be, or back to that
	At      time.Time `json:"at"`      // the last time
	First   time.Time `json:"first"`   // the first time, as far as that is known
	Count   int       `json:"count"`   // how often
}

// EventKind is what an event is about.
type EventKind string

// The kinds of events.
const (
	EventCluster  EventKind = "cluster"  // the state of a cluster
	EventStanding EventKind = "standing" // how far a cluster is taken out of all services
	EventRotation EventKind = "rotation" // of a link's credentials
	EventGateway  EventKind = "gateway"  // of a cluster on another network: it has died, or answers again
	EventTier     EventKind = "tier"     // which tiers the clients of a service use
	EventStall    EventKind = "stall"    // of a stream whose proxy takes nothing
)

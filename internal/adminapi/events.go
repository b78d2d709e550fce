package adminapi

import "time"

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

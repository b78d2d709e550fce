package adminapi

import "time"

// Service is one service of the gateway's cluster, of those that are federated or mirrored, that
// proxies watch, or that have problems.
type Service struct {
	Service   string   `json:"service"`
	Federated bool     `json:"federated"`
	Imported  bool     `json:"imported,omitempty"` // it is the Service of a ServiceImport
	Members   []Member `json:"members"`            // in order of precedence
	Ports     []Port   `json:"ports"`              // that proxies watch
	Streams   int      `json:"streams"`

	Problems   []string    `json:"problems,omitempty"`   // of its annotations and labels
	Failures   []Failure   `json:"failures,omitempty"`   // why Isthmus can't update it
	Preference *Preference `json:"preference,omitempty"` // that is asked for, whether or not it makes a difference
	Clients    []Clients   `json:"clients,omitempty"`    // what they use, if they don't simply get everything
	// MoreClients is how many kinds of clients are left out.
	MoreClients int `json:"moreClients,omitempty"`
}

// Member is a Service of one cluster, of those that make up a service.
type Member struct {
	Cluster string `json:"cluster"`
	Service string `json:"service"`          // its name in that cluster
	Reason  string `json:"reason,omitempty"` // why it does not serve; empty: it does
	// LacksPorts are the ports of the service that the member's Service does not have, and what it
	// has instead: clients of these are sent to its Pods at that very port.
	LacksPorts []string `json:"lacksPorts,omitempty"`
}

// Port is a port of a service that proxies watch.
type Port struct {
	Port       uint16       `json:"port"`
	Undeclared bool         `json:"undeclared,omitempty"` // no cluster's Service declares it
	Members    []PortMember `json:"members"`
}

// PortMember is what one member offers to a port.
type PortMember struct {
	Cluster   string `json:"cluster"`
	Service   string `json:"service"`
	Endpoints int    `json:"endpoints"`           // on offer
	Conflicts int    `json:"conflicts,omitempty"` // addresses that another member wins
	Refused   int    `json:"refused,omitempty"`   // addresses that are not taken from its cluster
	Updates   uint64 `json:"updates"`             // how often what it offers has changed while it is watched

	ConflictsWith []string `json:"conflictsWith,omitempty"` // which member wins them, the first ten
	Refusals      []string `json:"refusals,omitempty"`      // why they are not taken, the first ten
}

// Preference is which endpoints of a service clients get, as users write it.
type Preference struct {
	Prefer      string `json:"prefer"`
	MinReady    string `json:"minReady"`
	ReturnAfter string `json:"returnAfter"`
	ReturnOver  string `json:"returnOver"`
	// Unlinked are the clusters that the service's own annotation names and that are not linked:
	// their tiers are always empty.
	Unlinked []string `json:"unlinked,omitempty"`
}

// Clients is what one kind of client uses of a service port.
type Clients struct {
	Port     uint16    `json:"port"`
	Zone     string    `json:"zone"` // empty: not known
	Instance string    `json:"instance,omitempty"`
	Node     string    `json:"node,omitempty"` // where it matters
	Tiers    []Tier    `json:"tiers"`          // in order; the last may be that of clusters of last resort
	Since    time.Time `json:"since"`          // since when those in use are
	Why      string    `json:"why"`            // why they were taken into use then
	// WaitsFor is what must come before clients use fewer tiers; empty: nothing, since
	// they use one, or some of the endpoints leave at Next.
	WaitsFor string     `json:"returnWaitsFor,omitempty"`
	Next     *time.Time `json:"nextStep,omitempty"` // when endpoints leave, unless something changes before
}

// Tier is what one tier has.
type Tier struct {
	Tier  string `json:"tier"`
	InUse bool   `json:"inUse"`
	Ready int    `json:"ready"`
	Known int    `json:"known,omitempty"` // ready or not, where min-ready is a percentage
	Sent  int    `json:"sent"`            // to these clients
}

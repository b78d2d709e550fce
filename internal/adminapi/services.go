package adminapi

import (
	"fmt"
	"time"
)

// Service describes a service of the local cluster. Services are listed if they are federated or
// mirrored, have problems, or are watched by proxies.
type Service struct {
	Service   string   `json:"service"`
	Federated bool     `json:"federated"`
	Imported  bool     `json:"imported,omitempty"` // it is the Service of a ServiceImport
	Members   []Member `json:"members"`            // in order of precedence
	Ports     []Port   `json:"ports"`              // watched by proxies
	Streams   int      `json:"streams"`

	Problems    []string    `json:"problems,omitempty"`   // of its annotations and labels
	Failures    []Failure   `json:"failures,omitempty"`   // why Isthmus can't update it
	Preference  *Preference `json:"preference,omitempty"` // as requested, even if it has no effect
	Clients     []Clients   `json:"clients,omitempty"`    // by kind of client; empty if clients get all endpoints
	MoreClients int         `json:"moreClients,omitempty"`
}

// Member describes a Service that contributes endpoints to a service of the local cluster.
type Member struct {
	Cluster string `json:"cluster"`
	Service string `json:"service"`          // name of the Service in that cluster
	Reason  string `json:"reason,omitempty"` // why the member does not serve; empty if it serves
	// LacksPorts lists the ports that the local Service declares but the member's Service does not.
	// If the member's Service declares a port with the same name but a different number, the entry
	// contains both numbers. If a port is undeclared, its clients use the same port number on the
	// member's Pods.
	LacksPorts []string `json:"lacksPorts,omitempty"`
}

type Port struct {
	Port       uint16       `json:"port"`
	Undeclared bool         `json:"undeclared,omitempty"` // no cluster's Service declares the port
	Members    []PortMember `json:"members"`
}

type PortMember struct {
	Cluster   string `json:"cluster"`
	Service   string `json:"service"`
	Endpoints int    `json:"endpoints"`           // number of offered endpoints
	Conflicts int    `json:"conflicts,omitempty"` // number of addresses for which another member takes precedence
	Refused   int    `json:"refused,omitempty"`   // number of addresses that Isthmus rejects from the cluster
	Updates   uint64 `json:"updates"`             // number of changes to the offered endpoints while watched

	ConflictsWith []string `json:"conflictsWith,omitempty"` // members that win the addresses, at most ten
	Refusals      []string `json:"refusals,omitempty"`      // why addresses are rejected, at most ten
}

// Preference specifies which endpoints of a service are sent to clients. The fields Prefer,
// MinReady, ReturnAfter and ReturnOver have the same syntax as the corresponding annotations, such
// as isthmus.io/min-ready.
type Preference struct {
	Prefer      string `json:"prefer"`
	MinReady    string `json:"minReady"`
	ReturnAfter string `json:"returnAfter"`
	ReturnOver  string `json:"returnOver"`
	// Unlinked lists the clusters that are named in the service's own annotation but are not
	// linked. If a tier names only clusters that are not linked, the tier has no endpoints.
	Unlinked []string `json:"unlinked,omitempty"`
}

// Clients describes which tiers one kind of client uses for a service port.
type Clients struct {
	Port     uint16    `json:"port"`
	Zone     string    `json:"zone"` // empty if unknown
	Instance string    `json:"instance,omitempty"`
	Node     string    `json:"node,omitempty"` // set if it affects the clients' endpoints
	Tiers    []Tier    `json:"tiers"`          // in order; clusters of last resort may form the last tier
	Since    time.Time `json:"since"`          // when the current tiers came into use
	Why      string    `json:"why"`            // why the current tiers came into use
	// WaitsFor describes the condition under which clients will use fewer tiers. If clients use
	// only one tier, or if Next contains the time of the next step, WaitsFor is empty.
	WaitsFor string     `json:"returnWaitsFor,omitempty"`
	Next     *time.Time `json:"nextStep,omitempty"` // when endpoints are dropped, unless something changes first
}

type Tier struct {
	Tier  string `json:"tier"`
	InUse bool   `json:"inUse"`
	Ready int    `json:"ready"`
	Known int    `json:"known,omitempty"` // ready or not; set if min-ready is a percentage
	Sent  int    `json:"sent"`            // number sent to these clients
}

// Failure describes a task that ended with a panic because of a bug in Isthmus and has not
// succeeded since. Clients keep the endpoints that they received before the failure.
type Failure struct {
	Where  string    `json:"where"`   // kind of work, as in isthmus_panics_total
	Since  time.Time `json:"since"`   // time of the first panic
	Panics int       `json:"panics"`  // number of panics since then
	Panic  string    `json:"panic"`   // most recent panic
	Next   time.Time `json:"nextTry"` // next retry; in the past while the retry runs
}

func (f Failure) String() string {
	times := "once"
	if f.Panics != 1 {
		times = fmt.Sprintf("%d times", f.Panics)
	}
	return fmt.Sprintf(
		"because of a bug in Isthmus, the code that processes updates has panicked %s since %s (%s: %s); "+
			"clients keep the data that they received before the first panic",
		times, f.Since.UTC().Format(time.RFC3339), f.Where, f.Panic)
}

// Impact is the JSON document at /debug/impact?cluster=NAME&standing=STANDING. The page shows which
// endpoints would remain in the cluster's services if the cluster had the requested standing. NAME
// is the name of a linked cluster, or "local" for the local cluster. STANDING is [Withdrawn],
// [LastResort] or [InService]. Isthmus computes the impact with the same code that chooses
// endpoints for clients.
type Impact struct {
	Cluster  string          `json:"cluster"`
	Standing string          `json:"standing"`
	Services []ServiceImpact `json:"services"` // sorted by name and port
}

// ServiceImpact compares two sets of endpoints for one service port: those that clients receive
// now, and those that clients would receive with the requested standing.
type ServiceImpact struct {
	Service string `json:"service"`
	// Watched is true if proxies watch the port. If proxies do not watch the port, each cluster
	// that serves the service counts as one endpoint.
	Watched bool   `json:"watched"`
	Port    uint16 `json:"port"` // set if Watched
	// Zone is the zone whose clients would have the fewest endpoints left. The fields Now and Then
	// describe the clients in the zone. Zone is empty if all clients are affected equally.
	Zone    string `json:"zone,omitempty"`
	Node    string `json:"node,omitempty"`    // of these clients, if it affects their endpoints
	Streams int    `json:"streams,omitempty"` // of the whole service
	// The Now field counts the endpoints that the clients currently receive. The Then field counts
	// the endpoints that the clients would receive with the requested standing, after any resulting
	// change of tiers.
	Now  []ImpactCount `json:"now"`
	Then []ImpactCount `json:"then"`
}

// ImpactCount is the number of endpoints or members that one cluster contributes. The Watched field
// of ServiceImpact determines what is counted.
type ImpactCount struct {
	Cluster string `json:"cluster"`
	Count   int    `json:"count"`
}

// Bare is true if clients have endpoints now but would have none after the change.
func (i *ServiceImpact) Bare() bool { return Total(i.Now) > 0 && Total(i.Then) == 0 }

func Total(list []ImpactCount) (n int) {
	for _, c := range list {
		n += c.Count
	}
	return n
}

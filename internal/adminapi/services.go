package adminapi

import (
	"fmt"
	"time"
)

// Service is a service of the local cluster that is federated or mirrored, is watched by proxies,
// or has problems.
type Service struct {
	Service   string   `json:"service"`
	Federated bool     `json:"federated"`
	Imported  bool     `json:"imported,omitempty"` // it is the Service of a ServiceImport
	Members   []Member `json:"members"`            // in order of precedence
	Ports     []Port   `json:"ports"`              // watched by proxies
	Streams   int      `json:"streams"`

	Problems   []string    `json:"problems,omitempty"`   // of its annotations and labels
	Failures   []Failure   `json:"failures,omitempty"`   // why Isthmus can't update it
	Preference *Preference `json:"preference,omitempty"` // as requested, even if it has no effect
	Clients    []Clients   `json:"clients,omitempty"`    // by kind of client; empty if clients get all endpoints
	// MoreClients is the number of omitted kinds of clients.
	MoreClients int `json:"moreClients,omitempty"`
}

// Member is a Service of one cluster that contributes to a service.
type Member struct {
	Cluster string `json:"cluster"`
	Service string `json:"service"`          // name of the Service in that cluster
	Reason  string `json:"reason,omitempty"` // why the member does not serve; empty if it serves
	// LacksPorts are the ports of the service that the member's Service does not declare, each with
	// the ports that it declares. Clients of such a port are sent to the same port number of the
	// member's Pods.
	LacksPorts []string `json:"lacksPorts,omitempty"`
}

// Port is a port of a service that proxies watch.
type Port struct {
	Port       uint16       `json:"port"`
	Undeclared bool         `json:"undeclared,omitempty"` // no cluster's Service declares the port
	Members    []PortMember `json:"members"`
}

// PortMember is what one member offers to a port.
type PortMember struct {
	Cluster   string `json:"cluster"`
	Service   string `json:"service"`
	Endpoints int    `json:"endpoints"`           // number of offered endpoints
	Conflicts int    `json:"conflicts,omitempty"` // number of addresses that another member wins
	Refused   int    `json:"refused,omitempty"`   // number of addresses that Isthmus rejects from the cluster
	Updates   uint64 `json:"updates"`             // number of changes to the offered endpoints while watched

	ConflictsWith []string `json:"conflictsWith,omitempty"` // members that win the addresses, at most ten
	Refusals      []string `json:"refusals,omitempty"`      // why addresses are rejected, at most ten
}

// Preference says which endpoints of a service clients get, in the notation of the annotations.
type Preference struct {
	Prefer      string `json:"prefer"`
	MinReady    string `json:"minReady"`
	ReturnAfter string `json:"returnAfter"`
	ReturnOver  string `json:"returnOver"`
	// Unlinked are clusters that the service's own annotation names and that are not linked. The
	// tiers of these clusters are always empty.
	Unlinked []string `json:"unlinked,omitempty"`
}

// Clients are the tiers that one kind of client uses of a service port.
type Clients struct {
	Port     uint16    `json:"port"`
	Zone     string    `json:"zone"` // empty if unknown
	Instance string    `json:"instance,omitempty"`
	Node     string    `json:"node,omitempty"` // set if it affects the clients' endpoints
	Tiers    []Tier    `json:"tiers"`          // in order; clusters of last resort may form the last tier
	Since    time.Time `json:"since"`          // when the current tiers came into use
	Why      string    `json:"why"`            // why the current tiers came into use
	// WaitsFor is the condition for clients to use fewer tiers. WaitsFor is empty if clients use
	// one tier, or if endpoints are to be dropped at Next.
	WaitsFor string     `json:"returnWaitsFor,omitempty"`
	Next     *time.Time `json:"nextStep,omitempty"` // when endpoints are dropped, unless something changes first
}

// Tier counts the endpoints of one tier.
type Tier struct {
	Tier  string `json:"tier"`
	InUse bool   `json:"inUse"`
	Ready int    `json:"ready"`
	Known int    `json:"known,omitempty"` // ready or not; set if min-ready is a percentage
	Sent  int    `json:"sent"`            // number sent to these clients
}

// Failure is work that panicked because of a bug in Isthmus and has not succeeded since. Clients
// keep what they were sent before.
type Failure struct {
	Where  string    `json:"where"`   // kind of work, as in isthmus_panics_total
	Since  time.Time `json:"since"`   // time of the first panic
	Panics int       `json:"panics"`  // number of panics since then
	Panic  string    `json:"panic"`   // newest panic
	Next   time.Time `json:"nextTry"` // next retry; in the past while the retry runs
}

// String returns a description of the failure for people.
func (f Failure) String() string {
	times := "once"
	if f.Panics != 1 {
		times = fmt.Sprintf("%d times", f.Panics)
	}
	return fmt.Sprintf("Isthmus can't update it, because of a bug: it has panicked %s since %s (%s: %s); "+
		"clients keep what they were sent before",
		times, f.Since.UTC().Format(time.RFC3339), f.Where, f.Panic)
}

// Impact is /debug/impact?cluster=NAME&standing=STANDING. The page shows what the cluster's
// services would have left if the cluster had that standing. STANDING is Withdrawn, LastResort or
// InService. NAME can be local. Isthmus computes the impact with the same code that chooses
// endpoints for clients.
type Impact struct {
	Cluster  string          `json:"cluster"`
	Standing string          `json:"standing"`
	Services []ServiceImpact `json:"services"` // sorted by name and port
}

// ServiceImpact compares what clients of a service port get now with what they would get.
type ServiceImpact struct {
	Service string `json:"service"`
	// Watched reports whether proxies watch the port. If Watched is true, endpoints are counted.
	// Otherwise no port of the service is watched, and each cluster that serves it counts as 1.
	Watched bool   `json:"watched"`
	Port    uint16 `json:"port"` // set if Watched
	// Zone is the zone of the clients that would have the least left. Now and Then are about these
	// clients. Zone is also empty if all clients are affected equally.
	Zone    string `json:"zone,omitempty"`
	Node    string `json:"node,omitempty"`    // of these clients, if it affects their endpoints
	Streams int    `json:"streams,omitempty"` // of the whole service
	// Now counts what these clients get. Then counts what they would get after the change and any
	// resulting change of tiers.
	Now  []ImpactCount `json:"now"`
	Then []ImpactCount `json:"then"`
}

// ImpactCount counts what clients get from one cluster. ServiceImpact.Watched says what is counted.
type ImpactCount struct {
	Cluster string `json:"cluster"`
	Count   int    `json:"count"`
}

// Bare reports whether clients get something now and would get nothing after the change.
func (i *ServiceImpact) Bare() bool { return Total(i.Now) > 0 && Total(i.Then) == 0 }

// Total returns the sum over all clusters.
func Total(list []ImpactCount) (n int) {
	for _, c := range list {
		n += c.Count
	}
	return n
}

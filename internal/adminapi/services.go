package adminapi

import (
	"fmt"
	"time"
)

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

// Failure is work that has panicked because of a bug in Isthmus, and has not succeeded since. What clients were sent
// before stays in use.
type Failure struct {
	Where  string    `json:"where"`   // the kind of work, as in isthmus_panics_total
	Since  time.Time `json:"since"`   // the first panic
	Panics int       `json:"panics"`  // since then
	Panic  string    `json:"panic"`   // the newest one
	Next   time.Time `json:"nextTry"` // when the work is retried; in the past while the retry is under way
}

// String describes the failure for people.
func (f Failure) String() string {
	times := "once"
	if f.Panics != 1 {
		times = fmt.Sprintf("%d times", f.Panics)
	}
	return fmt.Sprintf("Isthmus can't update it, because of a bug: it has panicked %s since %s (%s: %s); "+
		"clients keep what they were sent before",
		times, f.Since.UTC().Format(time.RFC3339), f.Where, f.Panic)
}

// Impact is /debug/impact?cluster=NAME&standing=STANDING: what the services that a cluster is a
// member of would be left with if it had that standing, which is Withdrawn, LastResort or
// InService; NAME may be local. The gateway finds out by what chooses endpoints for clients.
type Impact struct {
	Cluster  string          `json:"cluster"`
	Standing string          `json:"standing"`
	Services []ServiceImpact `json:"services"` // by name and port
}

// ServiceImpact is what clients of a service port have, and would be left with.
type ServiceImpact struct {
	Service string `json:"service"`
	// Watched: proxies watch the port, and endpoints are counted. Otherwise no port of the service
	// is watched, and each cluster that serves it counts 1.
	Watched bool   `json:"watched"`
	Port    uint16 `json:"port"` // if Watched
	// Zone is that of the clients that are left with least, which Now and Then are about; empty
	// also if all are alike.
	Zone    string `json:"zone,omitempty"`
	Node    string `json:"node,omitempty"`    // of these clients, where it matters
	Streams int    `json:"streams,omitempty"` // of the whole service
	// Now is what these clients get, and Then what they get once the change is over, and any change
	// of tiers that follows from it.
	Now  []ImpactCount `json:"now"`
	Then []ImpactCount `json:"then"`
}

// ImpactCount is how much clients get of a cluster.
type ImpactCount struct {
	Cluster string `json:"cluster"`
	Count   int    `json:"count"`
}

// Bare reports whether clients have something now, and would be left with nothing.
func (i *ServiceImpact) Bare() bool { return Total(i.Now) > 0 && Total(i.Then) == 0 }

// Total sums up what clients get of all clusters.
func Total(list []ImpactCount) (n int) {
	for _, c := range list {
		n += c.Count
	}
	return n
}

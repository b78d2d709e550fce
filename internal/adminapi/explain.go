package adminapi

import "time"

// Explanation, the JSON document at /debug/explain, explains how Isthmus treats each address of a
// service for one client.
type Explanation struct {
	Authority string   `json:"authority"` // NAME:PORT of the service
	Client    Client   `json:"client"`
	Defined   bool     `json:"defined"` // the local cluster has such a Service
	Federated bool     `json:"federated"`
	Imported  bool     `json:"imported,omitempty"` // it is the Service of a ServiceImport
	Problems  []string `json:"problems"`           // of the Service's annotations and labels
	// Failures contains the reasons why Isthmus cannot update the service. As long as Isthmus
	// cannot update the service, the page does not explain addresses.
	Failures []Failure `json:"failures,omitempty"`
	// Refused is the error that a new stream would receive, or empty if Isthmus would accept the
	// stream.
	Refused    string             `json:"refused,omitempty"`
	Set        Set                `json:"set"`
	Preference *Preference        `json:"preference,omitempty"`
	Tiers      *Clients           `json:"tiers,omitempty"` // of the client, if the service has a preference
	Members    []ExplainedMember  `json:"members"`         // in order of precedence
	Verdicts   map[string]int     `json:"verdicts"`        // number of addresses by verdict, listed or not
	Addresses  []ExplainedAddress `json:"addresses"`
	More       int                `json:"moreAddresses,omitempty"` // number of addresses that are not listed
	// Held describes the endpoints that proxies currently have for the service. Held covers all
	// clients, not only the one in the Client field.
	Held     []HeldView `json:"streams"`
	MoreHeld int        `json:"moreStreamViews,omitempty"` // number of views that are not listed
}

// Client contains the properties of a client's location that affect the client's endpoints.
type Client struct {
	Namespace string `json:"namespace,omitempty"`
	Node      string `json:"node,omitempty"`
	Zone      string `json:"zone,omitempty"`
	Instance  string `json:"instance,omitempty"` // hostname of the instance that the client requests
}

type Set struct {
	Version   uint64    `json:"version"`
	Endpoints int       `json:"endpoints"`
	Complete  bool      `json:"complete"`         // no cluster of a member is pending
	Changed   time.Time `json:"changed,omitzero"` // time of the last change, if known
	Origin    string    `json:"origin,omitempty"` // cluster that caused the last change
}

type ExplainedMember struct {
	Cluster        string    `json:"cluster"`
	Service        string    `json:"service"` // name of the Service in that cluster
	State          string    `json:"state"`   // state of the cluster
	Since          time.Time `json:"since,omitzero"`
	CopyOf         time.Time `json:"copyOf,omitzero"`  // as in ClusterStatus
	Reason         string    `json:"reason,omitempty"` // why the member is not serving; empty if it is serving
	Standing       string    `json:"standing"`
	StandingReason string    `json:"standingReason,omitempty"`
	NodeLocal      bool      `json:"nodeLocal,omitempty"` // internalTrafficPolicy is Local
	Ports          []uint16  `json:"ports"`               // ports of its slices that the port resolves to
	// Changed is the time when the member's endpoints last changed while the service was watched.
	Changed time.Time `json:"changed,omitzero"`
	Updates uint64    `json:"updates"` // number of such changes
}

type ExplainedAddress struct {
	Cluster   string    `json:"cluster"`
	Service   string    `json:"service"`
	Slice     string    `json:"slice"`
	Address   string    `json:"address"` // without a port if the slice does not have the port
	Verdict   string    `json:"verdict"` // such as served: a federation.Verdict
	Detail    string    `json:"detail,omitempty"`
	Changed   time.Time `json:"changed,omitzero"` // when the replica last saw its slice change, or first read the slice
	Target    string    `json:"target,omitempty"` // object that the address is assigned to
	Tier      string    `json:"tier,omitempty"`
	Zone      string    `json:"zone,omitempty"`
	Node      string    `json:"node,omitempty"`
	Hostname  string    `json:"hostname,omitempty"`
	Hints     []string  `json:"hints,omitempty"`     // zones
	NodeHints []string  `json:"nodeHints,omitempty"` // Nodes; local cluster only
	Identity  string    `json:"identity,omitempty"`
}

// HeldView describes the endpoints received by the streams of one view. All clients of a view
// receive the same endpoints.
type HeldView struct {
	Destination string    `json:"destination"`
	Node        string    `json:"node,omitempty"`
	Zone        string    `json:"zone,omitempty"`
	Streams     int       `json:"streams"`
	Version     uint64    `json:"version"`              // of the newest set
	Endpoints   int       `json:"endpoints"`            // of the newest set
	UpToDate    int       `json:"upToDate"`             // streams that have the newest set or are receiving it
	Waiting     int       `json:"waiting,omitempty"`    // streams that have received nothing yet
	Slow        int       `json:"slow,omitempty"`       // streams whose proxy has read no message for a second
	LastMessage time.Time `json:"lastMessage,omitzero"` // time of the last message to any of the streams
}

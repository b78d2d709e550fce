package adminapi

import "time"

// Explanation is /debug/explain: what becomes of each address of a service for one client.
type Explanation struct {
	Authority string   `json:"authority"` // of the service, with the port
	Client    Client   `json:"client"`
	Defined   bool     `json:"defined"` // the own cluster has such a Service
	Federated bool     `json:"federated"`
	Imported  bool     `json:"imported,omitempty"` // it is the Service of a ServiceImport
	Problems  []string `json:"problems"`           // of the Service's annotations and labels
	// Failures is why Isthmus can't update the service. While there are failures, no address is
	// explained.
	Failures []Failure `json:"failures,omitempty"`
	// Refused is how a new stream would be refused. If a new stream would be served, Refused is
	// empty.
	Refused    string             `json:"refused,omitempty"`
	Set        Set                `json:"set"`
	Preference *Preference        `json:"preference,omitempty"`
	Tiers      *Clients           `json:"tiers,omitempty"` // that the client uses, if it does not simply get everything
	Members    []ExplainedMember  `json:"members"`         // in order of precedence
	Verdicts   map[string]int     `json:"verdicts"`        // how many addresses have which, listed or not
	Addresses  []ExplainedAddress `json:"addresses"`
	More       int                `json:"moreAddresses,omitempty"` // that are not listed
	// Held is what proxies have of the service, whatever client the page is about.
	Held     []HeldView `json:"streams"`
	MoreHeld int        `json:"moreStreamViews,omitempty"` // that are not listed
}

// Client is where a client is, as far as that decides what it gets.
type Client struct {
	Namespace string `json:"namespace,omitempty"`
	Node      string `json:"node,omitempty"`
	Zone      string `json:"zone,omitempty"`
	Instance  string `json:"instance,omitempty"` // that it asks for
}

// Set is what a client gets.
type Set struct {
	Version   uint64    `json:"version"`
	Endpoints int       `json:"endpoints"`
	Complete  bool      `json:"complete"`         // no member's cluster is pending
	Changed   time.Time `json:"changed,omitzero"` // when it last changed, as far as known
	Origin    string    `json:"origin,omitempty"` // with changed: the cluster
}

// ExplainedMember is a member of the service, and how far it contributes.
type ExplainedMember struct {
	Cluster        string    `json:"cluster"`
	Service        string    `json:"service"` // its name in that cluster
	State          string    `json:"state"`   // of the cluster
	Since          time.Time `json:"since,omitzero"`
	Reason         string    `json:"reason,omitempty"` // why it does not serve; empty: it does
	Standing       string    `json:"standing"`
	StandingReason string    `json:"standingReason,omitempty"`
	NodeLocal      bool      `json:"nodeLocal,omitempty"` // internalTrafficPolicy is Local
	Ports          []uint16  `json:"ports"`               // that the port resolves to in its slices
	// Changed is when what it offers changed last, while the service is watched.
	Changed time.Time `json:"changed,omitzero"`
	Updates uint64    `json:"updates"` // how often it has
}

// ExplainedAddress is one address of one slice of a member.
type ExplainedAddress struct {
	Cluster   string    `json:"cluster"`
	Service   string    `json:"service"`
	Slice     string    `json:"slice"`
	Address   string    `json:"address"` // without a port if the slice does not have it
	Verdict   string    `json:"verdict"` // such as served: federation.Verdict has all
	Detail    string    `json:"detail,omitempty"`
	Changed   time.Time `json:"changed,omitzero"` // when its slice did last in the gateway, or was first read there
	Target    string    `json:"target,omitempty"` // what it stands for
	Tier      string    `json:"tier,omitempty"`
	Zone      string    `json:"zone,omitempty"`
	Node      string    `json:"node,omitempty"`
	Hostname  string    `json:"hostname,omitempty"`
	Hints     []string  `json:"hints,omitempty"`     // zones
	NodeHints []string  `json:"nodeHints,omitempty"` // nodes; of the local cluster only
	Identity  string    `json:"identity,omitempty"`
}

// HeldView is what the streams of one view have, of clients that get the same.
type HeldView struct {
	Destination string    `json:"destination"`
	Node        string    `json:"node,omitempty"`
	Zone        string    `json:"zone,omitempty"`
	Streams     int       `json:"streams"`
	Version     uint64    `json:"version"`              // of the newest set
	Endpoints   int       `json:"endpoints"`            // of the newest set
	UpToDate    int       `json:"upToDate"`             // streams that have it, or are being sent it
	Waiting     int       `json:"waiting,omitempty"`    // streams that have been sent nothing yet
	Slow        int       `json:"slow,omitempty"`       // streams whose proxy has not taken a message for a second
	LastMessage time.Time `json:"lastMessage,omitzero"` // to any of them
}

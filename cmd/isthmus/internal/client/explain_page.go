package client

import "time"

// explainPage is /debug/explain of a gateway, and most of what "isthmus explain -o json"
// prints.
type explainPage struct {
	Authority  string            `json:"authority"`
	Client     explainedClient   `json:"client"`
	Defined    bool              `json:"defined"`
	Federated  bool              `json:"federated"`
	Problems   []string          `json:"problems"`
	Refused    string            `json:"refused,omitempty"`
	Set        explainedSet      `json:"set"`
	Preference *preferenceEntry  `json:"preference,omitempty"`
	Tiers      *clientsEntry     `json:"tiers,omitempty"`
	Members    []explainedMember `json:"members"`
	Verdicts   map[string]int    `json:"verdicts"`
	Addresses  []explainedEntry  `json:"addresses"`
	More       int               `json:"moreAddresses,omitempty"`
	Held       []heldEntry       `json:"streams"`
	MoreHeld   int               `json:"moreStreamViews,omitempty"`
}

type explainedClient struct {
	Namespace string `json:"namespace,omitempty"`
	Node      string `json:"node,omitempty"`
	Zone      string `json:"zone,omitempty"`
	Instance  string `json:"instance,omitempty"`
}

type explainedSet struct {
	Version   uint64    `json:"version"`
	Endpoints int       `json:"endpoints"`
	Complete  bool      `json:"complete"`
	Changed   time.Time `json:"changed,omitzero"`
	Origin    string    `json:"origin,omitempty"`
}

type explainedMember struct {
	Cluster        string    `json:"cluster"`
	Service        string    `json:"service"`
	State          string    `json:"state"`
	Since          time.Time `json:"since,omitzero"`
	Reason         string    `json:"reason,omitempty"`
	Standing       string    `json:"standing"`
	StandingReason string    `json:"standingReason,omitempty"`
	NodeLocal      bool      `json:"nodeLocal,omitempty"`
	Ports          []uint16  `json:"ports"`
	Changed        time.Time `json:"changed,omitzero"`
	Updates        uint64    `json:"updates"`
}

type explainedEntry struct {
	Cluster  string    `json:"cluster"`
	Service  string    `json:"service"`
	Slice    string    `json:"slice"`
	Address  string    `json:"address"`
	Verdict  string    `json:"verdict"`
	Detail   string    `json:"detail,omitempty"`
	Changed  time.Time `json:"changed,omitzero"`
	Target   string    `json:"target,omitempty"`
	Tier     string    `json:"tier,omitempty"`
	Zone     string    `json:"zone,omitempty"`
	Node     string    `json:"node,omitempty"`
	Hostname string    `json:"hostname,omitempty"`
	Hints    []string  `json:"hints,omitempty"`
	Identity string    `json:"identity,omitempty"`
}

type heldEntry struct {
	Destination string    `json:"destination"`
	Node        string    `json:"node,omitempty"`
	Zone        string    `json:"zone,omitempty"`
	Streams     int       `json:"streams"`
	Version     uint64    `json:"version"`
	Endpoints   int       `json:"endpoints"`
	UpToDate    int       `json:"upToDate"`
	Waiting     int       `json:"waiting,omitempty"`
	Slow        int       `json:"slow,omitempty"`
	LastMessage time.Time `json:"lastMessage,omitzero"`
}

package client

import "time"

// clustersPage is /debug/clusters of a gateway, and most of what "isthmus clusters
// -o json" prints.
type clustersPage struct {
	Local    clusterEntry    `json:"local"`
	Secrets  secretsEntry    `json:"linkSecrets"`
	Clusters []clusterEntry  `json:"clusters"`
	Unserved []unservedEntry `json:"unservedMembers"`
	Refused  []refusedEntry  `json:"refusedEndpoints"`
	Problems []problemEntry  `json:"problems"`
	Writer   *writerEntry    `json:"endpointSliceWriter,omitempty"`
}

type clusterEntry struct {
	Cluster        string          `json:"cluster,omitempty"`
	Secret         string          `json:"secret,omitempty"`
	SecretVersion  string          `json:"secretVersion,omitempty"`
	State          string          `json:"state"`
	Since          time.Time       `json:"since"`
	LastEvent      time.Time       `json:"lastEvent,omitzero"`
	Server         string          `json:"server,omitempty"`
	Reason         string          `json:"reason,omitempty"`
	Memory         memoryEntry     `json:"memory,omitzero"`
	Standing       string          `json:"standing,omitempty"`
	StandingReason string          `json:"standingReason,omitempty"`
	Region         string          `json:"region,omitempty"`
	Network        string          `json:"network,omitempty"`
	Gateways       []throughEntry  `json:"gateways,omitempty"`
	Warnings       []string        `json:"warnings,omitempty"`
	Resources      []resourceEntry `json:"resources,omitempty"`
}

// throughEntry is an address of a gateway through which a cluster is reached.
type throughEntry struct {
	Address  string    `json:"address"`
	Name     string    `json:"name,omitempty"`
	Identity string    `json:"identity"`
	State    string    `json:"state"`
	Since    time.Time `json:"since,omitzero"`
	Reason   string    `json:"reason,omitempty"`
}

type memoryEntry struct {
	Used  int64 `json:"used"`
	Limit int64 `json:"limit"`
}

type resourceEntry struct {
	Resource string `json:"resource"`
	Needed   bool   `json:"needed"`
	Synced   bool   `json:"synced"`
	Objects  int    `json:"objects"`
	Err      string `json:"err,omitempty"`
	Trouble  string `json:"trouble,omitempty"`
}

type secretsEntry struct {
	Listed bool   `json:"listed"`
	Reason string `json:"reason,omitempty"`
}

type unservedEntry struct {
	Service string `json:"service"`
	Cluster string `json:"cluster"`
	Member  string `json:"member"`
	Reason  string `json:"reason"`
}

type refusedEntry struct {
	Cluster  string   `json:"cluster"`
	Outside  int      `json:"outsideRanges"`
	Owned    int      `json:"localAddresses"`
	Examples []string `json:"examples"`
}

type problemEntry struct {
	Service  string   `json:"service"`
	Problems []string `json:"problems"`
}

type writerEntry struct {
	Identity   string    `json:"identity"`
	Holder     string    `json:"holder"`
	Leading    bool      `json:"leading"`
	Since      time.Time `json:"since"`
	LeaseError string    `json:"leaseError,omitempty"`
	Synced     bool      `json:"synced"`
	Services   int       `json:"services"`
	Slices     int       `json:"slices"`
	Error      string    `json:"error,omitempty"`
	ErrorAt    time.Time `json:"errorAt,omitzero"`

	Problems []problemEntry    `json:"problems"`
	Unread   map[string]string `json:"unread,omitempty"`
}

package adminapi

import (
	"time"
)

// Clusters is /debug/clusters: where endpoints come from, and everything that keeps some from being served.
type Clusters struct {
	Replica  Replica     `json:"replica"` // that answers
	Local    Cluster     `json:"local"`
	Secrets  LinkSecrets `json:"linkSecrets"`
	Clusters []Cluster   `json:"clusters"` // one for every link Secret, used or not, the oldest first
	// MemoryLimit is the replica's GOMEMLIMIT, in bytes. Zero means that it has none.
	MemoryLimit int64 `json:"memoryLimit,omitempty"`

	Unserved []Unserved `json:"unservedMembers"`  // of federated and mirrored services
	Refused  []Refused  `json:"refusedEndpoints"` // by cluster
	Problems []Problem  `json:"problems"`         // of Services' annotations and labels
	// Conflicts are the oldest ones, at most 100. MoreConflicts is how many are left out.
	Conflicts     []AddressConflict `json:"addressConflicts"`
	MoreConflicts int               `json:"moreAddressConflicts,omitempty"`

	Writer *SliceWriter `json:"endpointSliceWriter,omitempty"`
	// Exports is nil without --exports.
	Exports *ExportsSummary `json:"exports,omitempty"`
	// Leftovers are only looked for with [FreshParameter].
	Leftovers []LeftoverMirrors `json:"leftoverMirrors,omitempty"`
}

// LeftoverMirrors are Services that Linkerd's service mirror has written for a cluster that neither a link Secret nor a
// Link names now.
type LeftoverMirrors struct {
	Cluster  string   `json:"cluster"`
	Number   int      `json:"number"`
	Services []string `json:"services"` // the first ten by name
	// Unknown is why it is not known whether a service mirror still owns them. If it is empty, none does.
	Unknown string `json:"unknown,omitempty"`
}

// LinkSecrets shows whether the gateway can read the link Secrets at all.
type LinkSecrets struct {
	Namespace string `json:"namespace"`
	Listed    bool   `json:"listed"`
	Reason    string `json:"reason,omitempty"` // why they can't be read now
}

// Cluster is the gateway's own cluster, or one link Secret and the state of its cluster.
type Cluster struct {
	Cluster string `json:"cluster,omitempty"` // empty: the Secret's label is missing or invalid
	Secret  string `json:"secret,omitempty"`  // its name; empty: the own cluster
	// SecretVersion is the Secret's resourceVersion that the cluster is read with; empty:
	// it has not been read, or is read with another Secret.
	SecretVersion string `json:"secretVersion,omitempty"`
	// SecretRefused is why the Secret as it is now can't be used; empty: it can. UsedInstead is the
	// older one that is used for the cluster.
	SecretRefused string   `json:"secretRefused,omitempty"`
	UsedInstead   string   `json:"usedInstead,omitempty"`
	Insecure      []string `json:"insecure,omitempty"` // what is insecure about the kubeconfig that is used
	// Ignored has an entry for each unknown field of the kubeconfig that is used: its line, and its
	// name if that can't be a secret.
	Ignored []string `json:"ignored,omitempty"`
	// Unread has an entry for each annotation of the Secret as it is now that can't be read: why,
	// and what holds in its place.
	Unread []string `json:"unread,omitempty"`
	// NewCredentials is why the newest credentials do not work while older ones are in use; empty:
	// they do, or are being tried.
	NewCredentials string `json:"newCredentials,omitempty"`
	// Awaited are the kinds of objects, such as servers.policy.linkerd.io, that the newest
	// credentials have to list before they replace the older ones, since the cluster has such
	// objects.
	Awaited []string `json:"awaited,omitempty"`
	ClusterStatus
}

// ClusterState is whether a cluster's API can be read.
type ClusterState string

// A cluster's states.
const (
	// Rejected: its link Secret can't be used, or an older one is used.
	Rejected ClusterState = "rejected"
	// Pending: started, not yet synced.
	Pending ClusterState = "pending"
	// Unreachable: it has not synced yet, and has failed or taken too long. It is
	// retried.
	Unreachable ClusterState = "unreachable"
	// Ready: it has synced, and its endpoints are served.
	Ready ClusterState = "ready"
	// Stale: it was ready, and its API can't be read now. The endpoints that were
	// read before are served.
	Stale ClusterState = "stale"
)

// How far a cluster's endpoints are taken out of all services.
const (
	InService  = "in-service"
	LastResort = "last-resort" // they are used where a service has no other
	Withdrawn  = "withdrawn"
)

// ClusterStatus is a cluster's state.
type ClusterStatus struct {
	State     ClusterState `json:"state"`
	Since     time.Time    `json:"since"`              // since when it has that state
	LastEvent time.Time    `json:"lastEvent,omitzero"` // when anything last came from its API
	Server    string       `json:"server,omitempty"`   // its API's host, port and path
	Reason    string       `json:"reason,omitempty"`   // why it is not ready, as far as known
	Memory    Memory       `json:"memory,omitzero"`    // of linked clusters
	// Standing is InService, LastResort or Withdrawn. StandingReason is why; empty: it is
	// in service.
	Standing       string `json:"standing,omitempty"`
	StandingReason string `json:"standingReason,omitempty"`
	Region         string `json:"region,omitempty"` // where it is; empty: not known
	// Network is set if it is another than the gateway's: the cluster is reached through
	// Gateways then.
	Network  string           `json:"network,omitempty"`
	Gateways []ClusterGateway `json:"gateways,omitempty"`
	// GatewayProblems and ObjectWarnings are those of the Warnings that are about gateways, and
	// about the cluster's other objects.
	GatewayProblems []string   `json:"gatewayProblems,omitempty"`
	ObjectWarnings  []string   `json:"objectWarnings,omitempty"`
	Warnings        []string   `json:"warnings,omitempty"`
	Resources       []Resource `json:"resources,omitempty"`
	API             *APIServer `json:"api,omitempty"` // nil: the cluster is not read
}

// NeverRead returns the kinds of objects that can't be listed and have never been, though the cluster is served.
func (s *ClusterStatus) NeverRead() (list []Resource) {
	if s.State != Ready && s.State != Stale {
		return nil
	}
	for _, r := range s.Resources {
		if r.NeverRead() {
			list = append(list, r)
		}
	}
	return list
}

// NoGatewayAnswers is the StandingReason of a cluster on another network all of whose gateways are dead.
const NoGatewayAnswers = "none of its Linkerd gateways answers"

// Memory is what a cluster makes the gateway use, by estimate, and what it may, in bytes.
type Memory struct {
	Used  int64 `json:"used"`
	Limit int64 `json:"limit"`
}

// nearPercent is what Near means.
const nearPercent = 80

// Near reports whether the cluster uses so much of what it may use that it is worth a look.
func (m Memory) Near() bool { return m.Limit > 0 && m.Used >= m.Limit/100*nearPercent }

// LinkedMemory returns what all linked clusters together count against their memory caps, and the replica's GOMEMLIMIT.
func (c *Clusters) LinkedMemory() Memory {
	all := Memory{Limit: c.MemoryLimit}
	for i := range c.Clusters {
		all.Used += c.Clusters[i].Memory.Used
	}
	return all
}

// States of gateways.
const (
	GatewayAlive     = "alive"
	GatewayDead      = "dead"
	GatewayUnknown   = "not-probed-yet"
	GatewayNotProbed = "not-probed"     // it is not known how, or for its Reason: it is used also when it is dead
	GatewayOutside   = "outside-ranges" // of the link: it is neither probed nor used
	GatewayIPv6Off   = "ipv6-off"       // clients get no IPv6 addresses: it is neither probed nor used
)

// ClusterGateway is one address of the gateways through which a cluster on another network is reached.
type ClusterGateway struct {
	Address  string    `json:"address"`        // IP:PORT
	Name     string    `json:"name,omitempty"` // that was resolved to it
	Identity string    `json:"identity"`       // that the gateway has in TLS
	State    string    `json:"state"`          // such as GatewayAlive
	Since    time.Time `json:"since,omitzero"` // since when it is alive or dead
	Reason   string    `json:"reason,omitempty"`
}

// Resource is one kind of object that the gateway reads of a cluster.
type Resource struct {
	Resource string `json:"resource"`          // such as pods
	Needed   bool   `json:"needed"`            // without it the cluster is not ready
	Synced   bool   `json:"synced"`            // it has been listed
	Objects  int    `json:"objects"`           // that the gateway keeps
	Refused  int    `json:"refused,omitempty"` // that can't be decoded: what was read of them before stays
	Err      string `json:"err,omitempty"`     // newest failure, if it still lasts: unreachable, forbidden, absent, …
	// Failure classifies Err. It is empty if Err is.
	Failure ReadFailure `json:"failure,omitempty"`
	// Lasts reports whether the API server has answered with the same Failure again after 10 s or more.
	Lasts bool `json:"-"`
	// Trouble is what the API server does that is no failure and yet makes the
	// resource be requested again and again, once a second at most.
	Trouble string `json:"trouble,omitempty"`
	// ThrottledUntil is the end of a pause that the API server asked for by Retry-After. Until then
	// the resource is not requested.
	ThrottledUntil time.Time `json:"throttledUntil,omitzero"`
}

// NeverRead reports whether the kind can't be listed, has never been listed, and may have objects.
// If NeverRead is true, the cluster looks as if it had no objects of the kind.
func (r *Resource) NeverRead() bool { return !r.Synced && r.Err != "" && r.Failure != Absent }

// Unread describes, for people, that the kind has never been read.
func (r *Resource) Unread() string {
	return r.Resource + " have never been read, so the cluster looks as if it had none: " + r.Err
}

// ReadFailure classifies why a kind of object can't be listed or watched.
type ReadFailure string

// The failures.
const (
	Forbidden    ReadFailure = "forbidden"    // the credentials do not permit it
	Unauthorized ReadFailure = "unauthorized" // the API server does not accept the credentials
	Absent       ReadFailure = "absent"       // the API server does not have the kind, which API discovery confirms
	OverBudget   ReadFailure = "over budget"  // the objects take more memory than the cluster may take
	Failing      ReadFailure = "failing"      // anything else
)

// Unserved is a member of a service that does not serve, or can't be reached.
type Unserved struct {
	Service string `json:"service"`
	Cluster string `json:"cluster"`
	Member  string `json:"member"` // the Service's name in that cluster
	Reason  string `json:"reason"`
}

// Refused is what a linked cluster offers to ports that proxies watch, and what is not taken
// from it.
type Refused struct {
	Cluster  string   `json:"cluster"`
	Outside  int      `json:"outsideRanges"`  // addresses outside the ranges that the link Secret allows
	Owned    int      `json:"localAddresses"` // at addresses of the own cluster's Services and Pods
	Examples []string `json:"examples"`       // two at most
}

// Problem is what can't be used of one Service, wholly or in part.
type Problem struct {
	Service  string   `json:"service"`
	Problems []string `json:"problems"`
}

// AddressConflict is an address that several objects of the own cluster claim, so that it belongs to
// none of them. GetProfile answers Unavailable for it.
type AddressConflict struct {
	Address string    `json:"address"` // IP, or IP:PORT if only that port is claimed
	Claimed string    `json:"claimed"` // by what, such as "2 Pods with IP 10.0.0.1"
	Objects []string  `json:"objects"` // that claim it, such as "Pod shop/web-1"; the first three by name
	Since   time.Time `json:"since"`   // since when, as far as this replica knows
}

// SliceWriter is who writes EndpointSlices for ExternalWorkloads, and what fails.
type SliceWriter struct {
	Identity string    `json:"identity"` // this replica's
	Holder   string    `json:"holder"`   // of the Lease, as last seen; empty: none, or not known
	Leading  bool      `json:"leading"`  // this replica writes
	Since    time.Time `json:"since"`    // when it began, or stopped, to lead
	// LeaseError is why the Lease can't be used; empty: it can.
	LeaseError string `json:"leaseError,omitempty"`

	// Only while it leads:
	Synced   bool      `json:"synced"`   // ExternalWorkloads can be read
	Services int       `json:"services"` // with slices that are marked as its own
	Slices   int       `json:"slices"`   // that are marked as its own
	Error    string    `json:"error,omitempty"`
	ErrorAt  time.Time `json:"errorAt,omitzero"`

	Problems []Problem `json:"problems"` // what can't be written, and is left out
	// Unread has why resources can't be read, by resource; it keeps trying.
	Unread map[string]string `json:"unread,omitempty"`
}

// Format is the number of the format of all pages. It grows with each change by which a program of an older version
// would misjudge a page: the meaning of a field changes, or a field is removed. A new field alone does not change it.
const Format = 1

// Headers of all answers under /debug. A gateway that sends none of them is older than they are.
const (
	FormatHeader  = "Isthmus-Format"
	VersionHeader = "Isthmus-Version" // Version of a Build
	CommitHeader  = "Isthmus-Commit"  // Commit of a Build
)

// Build is /debug/version: what a gateway was built from.
type Build struct {
	Version string `json:"version"` // such as v0.1.0, or unknown
	Commit  string `json:"commit"`
	Go      string `json:"go"` // the version of Go
	// Format is [Format]. Zero means that the gateway is older than this field.
	Format int `json:"format,omitempty"`
}

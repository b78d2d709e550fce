package adminapi

import (
	"time"
)

// Clusters is /debug/clusters. The page shows the clusters that endpoints come from, and everything
// that prevents endpoints from being served.
type Clusters struct {
	Replica  Replica     `json:"replica"` // the replica that responds
	Local    Cluster     `json:"local"`
	Secrets  LinkSecrets `json:"linkSecrets"`
	Clusters []Cluster   `json:"clusters"` // one for every link Secret, used or not, oldest first
	// MemoryLimit is the replica's GOMEMLIMIT, in bytes. Zero means no limit.
	MemoryLimit int64 `json:"memoryLimit,omitempty"`

	Unserved []Unserved `json:"unservedMembers"`  // of federated and mirrored services
	Refused  []Refused  `json:"refusedEndpoints"` // by cluster
	Problems []Problem  `json:"problems"`         // in annotations and labels of Services
	// Conflicts are the oldest conflicts, at most 100. MoreConflicts is the number of omitted ones.
	Conflicts     []AddressConflict `json:"addressConflicts"`
	MoreConflicts int               `json:"moreAddressConflicts,omitempty"`

	Writer *SliceWriter `json:"endpointSliceWriter,omitempty"`
	// Exports is nil if --exports is off.
	Exports *ExportsSummary `json:"exports,omitempty"`
	// Leftovers are only searched for if the page is requested with [FreshParameter].
	Leftovers []LeftoverMirrors `json:"leftoverMirrors,omitempty"`
}

// LeftoverMirrors are Services that Linkerd's service mirror wrote for a cluster that no link
// Secret and no Link names now.
type LeftoverMirrors struct {
	Cluster  string   `json:"cluster"`
	Number   int      `json:"number"`
	Services []string `json:"services"` // the first ten by name
	// Unknown is why Isthmus can't tell whether a service mirror still manages these Services. If
	// Unknown is empty, no service mirror manages them.
	Unknown string `json:"unknown,omitempty"`
}

// LinkSecrets shows whether the replica can list the link Secrets.
type LinkSecrets struct {
	Namespace string `json:"namespace"`
	Listed    bool   `json:"listed"`
	Reason    string `json:"reason,omitempty"` // why the Secrets can't be listed now
}

// Cluster is either the local cluster, or one link Secret and the state of its cluster.
type Cluster struct {
	Cluster string `json:"cluster,omitempty"` // empty if the Secret's label is missing or invalid
	Secret  string `json:"secret,omitempty"`  // name of the link Secret; empty for the local cluster
	// SecretVersion is the resourceVersion of the Secret that is in use for the cluster.
	// SecretVersion is empty if the cluster has not been read yet, or is read with another Secret.
	SecretVersion string `json:"secretVersion,omitempty"`
	// SecretRefused is why the current version of the Secret can't be used. If SecretRefused is
	// empty, the Secret can be used. UsedInstead is the older version that is in use instead.
	SecretRefused string   `json:"secretRefused,omitempty"`
	UsedInstead   string   `json:"usedInstead,omitempty"`
	Insecure      []string `json:"insecure,omitempty"` // what is insecure about the kubeconfig in use
	// Ignored has an entry for each unknown field of the kubeconfig in use. An entry is the field's
	// line, and its name if the name can't be a secret.
	Ignored []string `json:"ignored,omitempty"`
	// Unread has an entry for each invalid annotation of the current version of the Secret. An
	// entry says what is wrong and which value is used instead.
	Unread []string `json:"unread,omitempty"`
	// NewCredentials is why the newest credentials do not work while older ones are in use. If
	// NewCredentials is empty, the newest credentials work or are being tried.
	NewCredentials string `json:"newCredentials,omitempty"`
	// Awaited are the kinds, such as servers.policy.linkerd.io, that the newest credentials must
	// list before they replace the older ones. Each of these kinds has objects in the cluster.
	Awaited []string `json:"awaited,omitempty"`
	ClusterStatus
}

// ClusterState says whether a cluster's API can be read.
type ClusterState string

// States of a cluster.
const (
	// Rejected means that the link Secret can't be used, or that an older version of it is in use.
	Rejected ClusterState = "rejected"
	// Pending means that the cluster has been started and has not synced yet.
	Pending ClusterState = "pending"
	// Unreachable means that the first sync has failed or takes too long. Isthmus retries the sync.
	Unreachable ClusterState = "unreachable"
	// Ready means that the cluster has synced and its endpoints are served.
	Ready ClusterState = "ready"
	// Stale means that the cluster was ready and its API can't be read now. Isthmus serves the
	// endpoints in its cache.
	Stale ClusterState = "stale"
)

// Standings of a cluster: how far its endpoints are withdrawn from all services.
const (
	InService  = "in-service"
	LastResort = "last-resort" // used if a service has no other endpoint
	Withdrawn  = "withdrawn"
)

// ClusterStatus is the state of one cluster.
type ClusterStatus struct {
	State     ClusterState `json:"state"`
	Since     time.Time    `json:"since"`              // start of the current state
	LastEvent time.Time    `json:"lastEvent,omitzero"` // time of the last event from the cluster's API
	Server    string       `json:"server,omitempty"`   // host, port and path of the cluster's API
	Reason    string       `json:"reason,omitempty"`   // why the cluster is not ready, if known
	Memory    Memory       `json:"memory,omitzero"`    // of linked clusters only
	// Standing is InService, LastResort or Withdrawn. StandingReason is why. StandingReason is
	// empty if the cluster is in service.
	Standing       string `json:"standing,omitempty"`
	StandingReason string `json:"standingReason,omitempty"`
	Region         string `json:"region,omitempty"` // region of the cluster; empty if unknown
	// Network is set if the cluster is on another network than the local cluster. Isthmus then
	// reaches the cluster through Gateways.
	Network  string           `json:"network,omitempty"`
	Gateways []ClusterGateway `json:"gateways,omitempty"`
	// GatewayProblems are the Warnings about gateways. ObjectWarnings are the Warnings about other
	// objects of the cluster.
	GatewayProblems []string   `json:"gatewayProblems,omitempty"`
	ObjectWarnings  []string   `json:"objectWarnings,omitempty"`
	Warnings        []string   `json:"warnings,omitempty"`
	Resources       []Resource `json:"resources,omitempty"`
	API             *APIServer `json:"api,omitempty"` // nil if the cluster is not read
}

// NeverRead returns the kinds that have never been listed although the cluster is served.
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

// NoGatewayAnswers is the StandingReason of a cluster on another network if all its gateways are
// dead.
const NoGatewayAnswers = "none of its Linkerd gateways answers"

// Memory is the memory that a cluster uses in the replica and its memory cap. Both are in bytes,
// and the use is an estimate.
type Memory struct {
	Used  int64 `json:"used"`
	Limit int64 `json:"limit"`
}

// nearPercent is the share of the memory cap from which Memory.Near reports true.
const nearPercent = 80

// Near reports whether the cluster uses at least 80 % of its memory cap.
func (m Memory) Near() bool { return m.Limit > 0 && m.Used >= m.Limit/100*nearPercent }

// LinkedMemory returns the memory use of all linked clusters together, and the replica's GOMEMLIMIT
// as the limit.
func (c *Clusters) LinkedMemory() Memory {
	all := Memory{Limit: c.MemoryLimit}
	for i := range c.Clusters {
		all.Used += c.Clusters[i].Memory.Used
	}
	return all
}

// States of a Linkerd gateway.
const (
	GatewayAlive     = "alive"
	GatewayDead      = "dead"
	GatewayUnknown   = "not-probed-yet"
	GatewayNotProbed = "not-probed"     // no probe is configured, or see Reason; used even if dead
	GatewayOutside   = "outside-ranges" // outside the ranges of the link: neither probed nor used
	GatewayIPv6Off   = "ipv6-off"       // clients get no IPv6 addresses: neither probed nor used
)

// ClusterGateway is one address of the Linkerd gateways through which a cluster on another network
// is reached.
type ClusterGateway struct {
	Address  string    `json:"address"`        // IP:PORT
	Name     string    `json:"name,omitempty"` // DNS name that resolved to the address
	Identity string    `json:"identity"`       // TLS identity of the gateway
	State    string    `json:"state"`          // such as GatewayAlive
	Since    time.Time `json:"since,omitzero"` // start of the state, if alive or dead
	Reason   string    `json:"reason,omitempty"`
}

// Resource is one kind of object that Isthmus reads from a cluster.
type Resource struct {
	Resource string `json:"resource"`          // such as pods
	Needed   bool   `json:"needed"`            // the cluster is not ready without it
	Synced   bool   `json:"synced"`            // it has been listed
	Objects  int    `json:"objects"`           // number of cached objects
	Refused  int    `json:"refused,omitempty"` // objects that can't be decoded; their last valid version is used
	Err      string `json:"err,omitempty"`     // newest failure, if it persists
	// Failure classifies Err. Failure is empty if Err is.
	Failure ReadFailure `json:"failure,omitempty"`
	// Lasts reports whether the API server has returned the same Failure again after at least 10 s.
	Lasts bool `json:"-"`
	// Trouble is a behaviour of the API server that is no failure but forces Isthmus to repeat
	// requests, at most once a second.
	Trouble string `json:"trouble,omitempty"`
	// ThrottledUntil is the end of a pause that the API server requested with Retry-After. The
	// resource is not requested before that time.
	ThrottledUntil time.Time `json:"throttledUntil,omitzero"`
}

// NeverRead reports whether the kind can't be listed, has never been listed, and may have objects.
// If NeverRead is true, the cluster looks as if it had no objects of the kind.
func (r *Resource) NeverRead() bool { return !r.Synced && r.Err != "" && r.Failure != Absent }

// Unread returns a message for people which says that the kind has never been read.
func (r *Resource) Unread() string {
	return r.Resource + " have never been read, so the cluster looks as if it had none: " + r.Err
}

// ReadFailure classifies why a kind of object can't be listed or watched.
type ReadFailure string

// Classes of read failures.
const (
	Forbidden    ReadFailure = "forbidden"    // the credentials lack the permission
	Unauthorized ReadFailure = "unauthorized" // the API server rejects the credentials
	Absent       ReadFailure = "absent"       // the API server does not serve the kind, as API discovery confirms
	OverBudget   ReadFailure = "over budget"  // the objects exceed the cluster's memory cap
	Failing      ReadFailure = "failing"      // anything else
)

// Unserved is a member of a service that does not serve or can't be reached.
type Unserved struct {
	Service string `json:"service"`
	Cluster string `json:"cluster"`
	Member  string `json:"member"` // name of the Service in that cluster
	Reason  string `json:"reason"`
}

// Refused counts the endpoints of watched ports that Isthmus rejects from one linked cluster.
type Refused struct {
	Cluster  string   `json:"cluster"`
	Outside  int      `json:"outsideRanges"`  // addresses outside the ranges that the link Secret allows
	Owned    int      `json:"localAddresses"` // addresses assigned to Services and Pods of the local cluster
	Examples []string `json:"examples"`       // at most two
}

// Problem lists what is invalid about one Service.
type Problem struct {
	Service  string   `json:"service"`
	Problems []string `json:"problems"`
}

// AddressConflict is an address that several objects of the local cluster claim. Such an address is
// assigned to none of the objects, and GetProfile returns Unavailable for it.
type AddressConflict struct {
	Address string    `json:"address"` // IP, or IP:PORT if only that port is claimed
	Claimed string    `json:"claimed"` // the claim, such as "2 Pods with IP 10.0.0.1"
	Objects []string  `json:"objects"` // the claimants, such as "Pod shop/web-1"; the first three by name
	Since   time.Time `json:"since"`   // when this replica first saw the conflict
}

// SliceWriter is the state of the writer of EndpointSlices for ExternalWorkloads.
type SliceWriter struct {
	Identity string    `json:"identity"` // of this replica
	Holder   string    `json:"holder"`   // of the Lease, as last seen; empty if none or unknown
	Leading  bool      `json:"leading"`  // whether this replica is the leader
	Since    time.Time `json:"since"`    // when this replica gained or lost leadership
	// LeaseError is why the Lease can't be used. LeaseError is empty if the Lease can be used.
	LeaseError string `json:"leaseError,omitempty"`

	// The following fields are only set on the leader.
	Synced   bool      `json:"synced"`   // ExternalWorkloads have been listed
	Services int       `json:"services"` // number of Services with slices that Isthmus manages
	Slices   int       `json:"slices"`   // number of slices that Isthmus manages
	Error    string    `json:"error,omitempty"`
	ErrorAt  time.Time `json:"errorAt,omitzero"`

	Problems []Problem `json:"problems"` // what can't be written and is omitted
	// Unread is why each resource in the map can't be read. Isthmus retries.
	Unread map[string]string `json:"unread,omitempty"`
}

// Format is the version of the format of all pages. Format increases with each change that would
// make an older program misread a page. Examples are a removed field and a field with a new
// meaning. A new field alone does not increase it.
const Format = 1

// Headers of all responses under /debug. A replica that does not send them is older than the
// headers.
const (
	FormatHeader  = "Isthmus-Format"
	VersionHeader = "Isthmus-Version" // Version of a Build
	CommitHeader  = "Isthmus-Commit"  // Commit of a Build
)

// Build is /debug/version. The page describes the build of a replica.
type Build struct {
	Version string `json:"version"` // such as v0.1.0, or unknown
	Commit  string `json:"commit"`
	Go      string `json:"go"` // Go version
	// Format is [Format]. Zero means that the replica is older than this field.
	Format int `json:"format,omitempty"`
}

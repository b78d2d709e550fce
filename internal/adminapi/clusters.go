package adminapi

import (
	"time"
)

// Clusters is the JSON document at /debug/clusters. The page describes the clusters, and every
// problem that prevents Isthmus from serving endpoints.
type Clusters struct {
	Replica  Replica     `json:"replica"` // the replica that responds
	Local    Cluster     `json:"local"`
	Secrets  LinkSecrets `json:"linkSecrets"`
	Clusters []Cluster   `json:"clusters"` // one for every link Secret, used or not, oldest first
	// MemoryLimit is the replica's GOMEMLIMIT in bytes. Zero means no limit.
	MemoryLimit int64 `json:"memoryLimit,omitempty"`

	Unserved []Unserved `json:"unservedMembers"`  // of federated and mirrored services
	Refused  []Refused  `json:"refusedEndpoints"` // by cluster
	Problems []Problem  `json:"problems"`         // in annotations and labels of Services
	// Conflicts contains up to 100 conflicts, oldest first. MoreConflicts is the number of
	// conflicts that Conflicts omits.
	Conflicts     []AddressConflict `json:"addressConflicts"`
	MoreConflicts int               `json:"moreAddressConflicts,omitempty"`

	Writer *SliceWriter `json:"endpointSliceWriter,omitempty"`
	Copies *CacheCopies `json:"cacheCopies,omitempty"` // nil if the replica is older than this field
	// Exports is nil if --exports is off.
	Exports *ExportsSummary `json:"exports,omitempty"`
	// Leftovers is set only if the page is requested with [FreshParameter].
	Leftovers []LeftoverMirrors `json:"leftoverMirrors,omitempty"`
}

// LeftoverMirrors describes Services that Linkerd's service mirror created for a cluster that now
// has neither a link Secret nor a Link.
type LeftoverMirrors struct {
	Cluster  string   `json:"cluster"`
	Number   int      `json:"number"`
	Services []string `json:"services"` // the first ten by name
	// If Isthmus cannot determine whether a service mirror still manages the Services, Unknown says
	// why; otherwise, Unknown is empty.
	Unknown string `json:"unknown,omitempty"`
}

type LinkSecrets struct {
	Namespace string `json:"namespace"`
	Listed    bool   `json:"listed"`
	Reason    string `json:"reason,omitempty"` // why the Secrets can't be listed now
}

// Cluster describes either the local cluster, or one link Secret and the state of its cluster.
type Cluster struct {
	Cluster string `json:"cluster,omitempty"` // empty if the Secret's label is missing or invalid
	Secret  string `json:"secret,omitempty"`  // name of the link Secret; empty for the local cluster
	// SecretVersion is the resourceVersion of the link Secret that is in use for the cluster.
	// SecretVersion is empty if the cluster has not been read yet, or if the replica uses a
	// different Secret for the cluster.
	SecretVersion string `json:"secretVersion,omitempty"`
	// SecretRefused says why the current version of the link Secret cannot be used. If the current
	// version can be used, SecretRefused is empty. If the current version of this link Secret can
	// be used, but Isthmus uses another link Secret for the same cluster, UsedInstead is the name
	// of the other Secret.
	SecretRefused string   `json:"secretRefused,omitempty"`
	UsedInstead   string   `json:"usedInstead,omitempty"`
	Insecure      []string `json:"insecure,omitempty"` // what is insecure about the kubeconfig in use
	// Ignored describes the unknown fields of the kubeconfig in use, with the line number of each
	// field. If the name of a field could itself be a secret, the name is omitted.
	Ignored []string `json:"ignored,omitempty"`
	// Unread describes each invalid annotation of the current version of the link Secret, with the
	// value that is used instead.
	Unread []string `json:"unread,omitempty"`
	// NewCredentials says why the newest credentials do not work, if older credentials are in use
	// instead. While Isthmus is still trying the newest credentials, NewCredentials is empty.
	NewCredentials string `json:"newCredentials,omitempty"`
	// The newest credentials replace the older ones once Isthmus has listed all objects of the
	// kinds in Awaited, such as servers.policy.linkerd.io. Awaited contains only kinds that have
	// objects in the cluster.
	Awaited []string `json:"awaited,omitempty"`
	ClusterStatus
}

type ClusterState string

const (
	// Rejected means that the link Secret cannot be used, or that Isthmus uses another link Secret
	// for the same cluster.
	Rejected ClusterState = "rejected"
	// Pending means that Isthmus has begun to read the cluster, but the cluster has not synced yet.
	Pending ClusterState = "pending"
	// Unreachable means that the first sync has failed or is taking too long. Isthmus retries it.
	Unreachable ClusterState = "unreachable"
	// Ready means that the cluster has synced and its endpoints are served.
	Ready ClusterState = "ready"
	// Stale means that the cluster was ready earlier, but its API currently cannot be read. Isthmus
	// continues to serve the endpoints in its cache.
	Stale ClusterState = "stale"
)

// The standing of a cluster determines whether services use its endpoints normally, only as a last
// resort, or not at all.
const (
	InService  = "in-service"
	LastResort = "last-resort" // used if a service has no other endpoint
	Withdrawn  = "withdrawn"
)

type ClusterStatus struct {
	State     ClusterState `json:"state"`
	Since     time.Time    `json:"since"`              // start of the current state
	LastEvent time.Time    `json:"lastEvent,omitzero"` // time of the last event from the cluster's API
	Server    string       `json:"server,omitempty"`   // host, port and path of the cluster's API
	Reason    string       `json:"reason,omitempty"`   // why the cluster is not ready, if known
	Memory    Memory       `json:"memory,omitzero"`    // of linked clusters only
	// If the replica serves a copy of the cluster's cache, CopyOf is the time at which the
	// cluster's API became unreachable. A replica serves the copy until it has reached the cluster
	// for the first time.
	CopyOf time.Time `json:"copyOf,omitzero"`
	// Standing is InService, LastResort or Withdrawn. StandingReason explains any standing except
	// InService.
	Standing       string `json:"standing,omitempty"`
	StandingReason string `json:"standingReason,omitempty"`
	Region         string `json:"region,omitempty"` // region of the cluster; empty if unknown
	// Network is the name of the cluster's network, or empty if the cluster is on the local
	// cluster's network. Isthmus reaches a cluster on another network through the addresses in
	// Gateways.
	Network  string           `json:"network,omitempty"`
	Gateways []ClusterGateway `json:"gateways,omitempty"`
	// GatewayProblems contains warnings about Linkerd gateways, and ObjectWarnings contains
	// warnings about other objects of the cluster.
	GatewayProblems []string   `json:"gatewayProblems,omitempty"`
	ObjectWarnings  []string   `json:"objectWarnings,omitempty"`
	Warnings        []string   `json:"warnings,omitempty"`
	Resources       []Resource `json:"resources,omitempty"`
	API             *APIServer `json:"api,omitempty"` // nil if the cluster is not read
}

// If the cluster is ready or stale, NeverRead returns the kinds of objects that have never been
// listed and cannot be listed now. For a cluster in any other state, the result is empty.
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

// NoGatewayAnswers is the StandingReason of a cluster on another network whose Linkerd gateways are
// all dead.
const NoGatewayAnswers = "none of its Linkerd gateways answers"

// Memory contains the estimated memory that Isthmus uses for a cluster, and the cluster's memory
// cap, both in bytes.
type Memory struct {
	Used  int64 `json:"used"`
	Limit int64 `json:"limit"`
}

const nearPercent = 80

// Near reports whether the cluster uses at least 80% of its memory cap.
func (m Memory) Near() bool { return m.Limit > 0 && m.Used >= m.Limit/100*nearPercent }

// LinkedMemory returns the total memory that Isthmus uses for linked clusters. The Limit in the
// result is the replica's GOMEMLIMIT.
func (c *Clusters) LinkedMemory() Memory {
	all := Memory{Limit: c.MemoryLimit}
	for i := range c.Clusters {
		all.Used += c.Clusters[i].Memory.Used
	}
	return all
}

const (
	GatewayAlive     = "alive"
	GatewayDead      = "dead"
	GatewayUnknown   = "not-probed-yet"
	GatewayNotProbed = "not-probed"     // no probe is configured, or see Reason; used even if dead
	GatewayOutside   = "outside-ranges" // outside the ranges of the link: neither probed nor used
	GatewayIPv6Off   = "ipv6-off"       // clients get no IPv6 addresses: neither probed nor used
)

// ClusterGateway describes one address of a Linkerd gateway in a cluster on another network.
type ClusterGateway struct {
	Address  string    `json:"address"`        // IP:PORT
	Name     string    `json:"name,omitempty"` // DNS name that resolved to the address
	Identity string    `json:"identity"`       // TLS identity of the gateway
	State    string    `json:"state"`          // such as GatewayAlive
	Since    time.Time `json:"since,omitzero"` // start of the state, if alive or dead
	Reason   string    `json:"reason,omitempty"`
}

type Resource struct {
	Resource string `json:"resource"`          // such as pods
	Needed   bool   `json:"needed"`            // the cluster is not ready without it
	Synced   bool   `json:"synced"`            // it has been listed
	Objects  int    `json:"objects"`           // number of cached objects
	Refused  int    `json:"refused,omitempty"` // objects that can't be decoded; their last valid version is used
	Err      string `json:"err,omitempty"`     // most recent failure, if it persists
	// Failure is the class of the error in Err, and is empty if Err is empty.
	Failure ReadFailure `json:"failure,omitempty"`
	// Lasts reports whether the API server has returned the same Failure for at least 10 s.
	Lasts bool `json:"-"`
	// Trouble describes behavior of the API server that is not a failure, but forces Isthmus to
	// send up to one request per second.
	Trouble string `json:"trouble,omitempty"`
	// ThrottledUntil is the end of a pause that the API server requested with a Retry-After header.
	// Isthmus does not request the resource before the end of the pause.
	ThrottledUntil time.Time `json:"throttledUntil,omitzero"`
}

// NeverRead reports whether the kind has never been listed and cannot be listed now. If the API
// server does not serve the kind, the result is false. Until a kind has been listed, the cluster
// appears to have no objects of that kind.
func (r *Resource) NeverRead() bool { return !r.Synced && r.Err != "" && r.Failure != Absent }

func (r *Resource) Unread() string {
	return r.Resource + " have never been read, so the cluster appears to have none: " + r.Err
}

type ReadFailure string

const (
	Forbidden    ReadFailure = "forbidden"    // the credentials lack the permission
	Unauthorized ReadFailure = "unauthorized" // the API server rejects the credentials
	Absent       ReadFailure = "absent"       // the API server does not serve the kind, as API discovery confirms
	OverBudget   ReadFailure = "over budget"  // the objects exceed the cluster's memory cap
	Failing      ReadFailure = "failing"      // anything else
)

// Unserved describes a member that does not contribute endpoints to its service, or whose cluster
// is unreachable.
type Unserved struct {
	Service string `json:"service"`
	Cluster string `json:"cluster"`
	Member  string `json:"member"` // name of the Service in that cluster
	Reason  string `json:"reason"`
}

// Refused counts the rejected endpoints of one linked cluster. The counts include all ports that
// clients watch.
type Refused struct {
	Cluster  string   `json:"cluster"`
	Outside  int      `json:"outsideRanges"`  // addresses outside the ranges that the link Secret allows
	Owned    int      `json:"localAddresses"` // addresses assigned to Services and Pods of the local cluster
	Examples []string `json:"examples"`       // at most two
}

type Problem struct {
	Service  string   `json:"service"`
	Problems []string `json:"problems"`
}

// AddressConflict describes an address that several objects in the local cluster claim. While
// several objects claim an address, Isthmus does not assign the address to any of them, and
// GetProfile returns Unavailable for the address.
type AddressConflict struct {
	Address string    `json:"address"` // IP, or IP:PORT if only that port is claimed
	Claimed string    `json:"claimed"` // the claim, such as "2 Pods with IP 10.0.0.1"
	Objects []string  `json:"objects"` // the claimants, such as "Pod shop/web-1"; the first three by name
	Since   time.Time `json:"since"`   // when this replica first saw the conflict
}

type SliceWriter struct {
	Identity   string    `json:"identity"` // of this replica
	Holder     string    `json:"holder"`   // of the Lease, as last seen; empty if none or unknown
	Leading    bool      `json:"leading"`  // whether this replica is the leader
	Since      time.Time `json:"since"`    // when this replica gained or lost leadership
	LeaseError string    `json:"leaseError,omitempty"`

	// The following fields of SliceWriter are set only on the leader.
	Synced   bool      `json:"synced"`   // ExternalWorkloads have been listed
	Services int       `json:"services"` // number of Services with slices that Isthmus manages
	Slices   int       `json:"slices"`   // number of slices that Isthmus manages
	Error    string    `json:"error,omitempty"`
	ErrorAt  time.Time `json:"errorAt,omitzero"`

	Problems []Problem `json:"problems"` // what can't be written and is omitted
	// For each resource that cannot be read, Unread contains the reason.
	Unread map[string]string `json:"unread,omitempty"`
}

type CacheCopies struct {
	Off        bool   `json:"off,omitempty"`        // --cache-max-age is 0
	Error      string `json:"error,omitempty"`      // why the copies can't be listed
	LeaseError string `json:"leaseError,omitempty"` // why the Lease can't be used
	// Missing lists the stale clusters for which copying has failed and no complete copy exists.
	// Stale clusters that this replica has not cached are omitted.
	Missing []MissingCopy `json:"missing,omitempty"`
}

type MissingCopy struct {
	Cluster string `json:"cluster"`
	Reason  string `json:"reason"`
}

// Format is the version of the format that all pages share. The version must be incremented when a
// change would cause older programs to misread a page. For example, the version is incremented when
// a field is removed or gets a new meaning, but not when a field is added.
const Format = 1

// All responses under /debug contain the following headers, unless the replica's version predates
// them.
const (
	FormatHeader  = "Isthmus-Format"
	VersionHeader = "Isthmus-Version" // Version of a Build
	CommitHeader  = "Isthmus-Commit"  // Commit of a Build
)

// Build is the JSON document at /debug/version, which describes the build of a replica.
type Build struct {
	Version string `json:"version"` // such as v0.1.0, or unknown
	Commit  string `json:"commit"`
	Go      string `json:"go"` // Go version
	// Format is the constant [Format], or zero if the replica's version predates this field.
	Format int `json:"format,omitempty"`
}

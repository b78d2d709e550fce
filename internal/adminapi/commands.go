package adminapi

import (
	"encoding/json"
	"net/netip"
	"time"
)

// ClustersOutput is the output of "isthmus clusters -o json", with one object per line.
type ClustersOutput struct {
	Time    time.Time `json:"time"`    // when the replica sent the page, by the replica's clock
	Gateway string    `json:"gateway"` // NAMESPACE/POD, or HOST:PORT
	Clusters
	Others []OtherReplica `json:"otherGateways,omitempty"`
	// Unchecked says why the command cannot interpret a page from a different version of Isthmus.
	// If the command can interpret the page, Unchecked is empty.
	Unchecked string `json:"unchecked,omitempty"`
}

type ServicesOutput struct {
	Time     time.Time      `json:"time"`
	Gateway  string         `json:"gateway"`
	Services []Service      `json:"services"` // the requested services; never null
	Others   []OtherReplica `json:"otherGateways,omitempty"`
	// See ClustersOutput.Unchecked.
	Unchecked string `json:"unchecked,omitempty"`
}

type ExportsOutput struct {
	Time    time.Time `json:"time"`
	Gateway string    `json:"gateway"`
	Exports
	// See ClustersOutput.Unchecked.
	Unchecked string `json:"unchecked,omitempty"`
}

type ExplainOutput struct {
	Time    time.Time `json:"time"`
	Gateway string    `json:"gateway"`
	Explanation
	// See ClustersOutput.Unchecked.
	Unchecked string `json:"unchecked,omitempty"`
}

// OtherReplica describes how the page of another replica differs from the displayed page.
type OtherReplica struct {
	Gateway     string   `json:"gateway"`
	Error       string   `json:"error,omitempty"`     // why the replica can't be queried
	Unchecked   string   `json:"unchecked,omitempty"` // why the page, which is of another version, is not compared
	Differences []string `json:"differences,omitempty"`
}

type VersionOutput struct {
	Client   Build          `json:"client"` // the program that prints the output
	Gateways []ReplicaBuild `json:"gateways,omitempty"`
	Error    string         `json:"error,omitempty"` // why no replica can be queried
}

type ReplicaBuild struct {
	Gateway string `json:"gateway"`
	*Build
	Error string `json:"error,omitempty"`
}

type CheckOutput struct {
	Time      time.Time        `json:"time"`
	From      string           `json:"from"`             // CheckedReplicas or CheckedHere
	Gateways  []CheckedReplica `json:"gateways"`         // never null
	Client    string           `json:"client,omitempty"` // version of the program that prints the output
	Failures  int              `json:"failures"`         // number of results with this level
	Warnings  int              `json:"warnings"`
	Unchecked int              `json:"unchecked"`
	Results   []CheckResult    `json:"results"` // never null
}

const (
	CheckedReplicas = "gateway"
	CheckedHere     = "here" // on the machine of the command, with --pre or if there is no replica
)

type CheckedReplica struct {
	Gateway string `json:"gateway"`           // NAMESPACE/POD, or HOST:PORT
	Version string `json:"version,omitempty"` // empty if the replica did not respond
	Commit  string `json:"commit,omitempty"`  // empty if the replica does not report it
	Replica string `json:"replica,omitempty"` // the replica's name in the election of the EndpointSlice writer
	Leading bool   `json:"leading"`           // whether the replica is the EndpointSlice writer
	Error   string `json:"error,omitempty"`   // why the replica did not respond
}

// GetOutput is the JSON document that "isthmus get -o json" prints for each update that it
// receives. GetOutput contains the endpoints that a proxy has after the update.
type GetOutput struct {
	Time      time.Time  `json:"time"`
	Authority string     `json:"authority"` // as requested
	Exists    bool       `json:"exists"`    // whether the service exists
	Endpoints []Endpoint `json:"endpoints"` // sorted by address; never null
}

// Endpoint contains all the information that a proxy receives about one address.
type Endpoint struct {
	Address netip.AddrPort `json:"address"`
	Cluster string         `json:"cluster"` // local, unless the replica labels the endpoint with another cluster
	// Sent is the WeightedAddr message of linkerd2-proxy-api that the proxy receives, in protobuf's
	// JSON format. The field metricLabels also contains the labels that apply to the whole update,
	// and two labels that proxies do not receive: isthmus_tier (the endpoint's tier) and
	// isthmus_standing (the standing of the endpoint's cluster).
	Sent json.RawMessage `json:"sent"`
}

// ProfileOutput is the JSON document that "isthmus profile -o json" prints for each profile that it
// receives.
type ProfileOutput struct {
	Time      time.Time `json:"time"`
	Authority string    `json:"authority"` // as requested
	// Address is the address of the endpoint that the profile describes. Address is set only if the
	// authority is an address that is not assigned to a Service.
	Address netip.AddrPort `json:"address,omitzero"`
	// Sent is the DestinationProfile message of linkerd2-proxy-api that the proxy receives, in
	// protobuf's JSON format.
	Sent json.RawMessage `json:"sent"`
}

// CheckResult is the result of one check on one object, as printed by "isthmus check".
type CheckResult struct {
	Section string     `json:"section"`
	Check   string     `json:"check"`            // stable name of the check
	Object  string     `json:"object,omitempty"` // a cluster, a Secret or a service
	Level   CheckLevel `json:"level"`
	Text    string     `json:"text"`
	Hint    string     `json:"hint,omitempty"`    // how to fix the problem; empty if Level is CheckOK
	Gateway string     `json:"gateway,omitempty"` // the replica that found it, if other replicas did not
}

type CheckLevel string

// The levels are listed from best to worst.
const (
	CheckOK        CheckLevel = "ok"
	CheckUnchecked CheckLevel = "unchecked" // unknown: not permitted to read it, or no time
	CheckWarning   CheckLevel = "warning"   // it works, but a part does not or will soon stop
	CheckFailure   CheckLevel = "failure"
)

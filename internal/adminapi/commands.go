package adminapi

import (
	"encoding/json"
	"net/netip"
	"time"
)

// ClustersOutput is what "isthmus clusters -o json" prints, as one object in a line.
type ClustersOutput struct {
	Time    time.Time `json:"time"`    // when the replica sent the page, by its clock
	Gateway string    `json:"gateway"` // NAMESPACE/POD, or HOST:PORT
	Clusters
	Others []OtherReplica `json:"otherGateways,omitempty"`
	// Unchecked is why the program can't judge the page, which is of another version. It is empty if the program can.
	Unchecked string `json:"unchecked,omitempty"`
}

// ServicesOutput is what "isthmus services -o json" prints.
type ServicesOutput struct {
	Time     time.Time      `json:"time"`
	Gateway  string         `json:"gateway"`
	Services []Service      `json:"services"` // that were asked for; never null
	Others   []OtherReplica `json:"otherGateways,omitempty"`
	// Unchecked is why the program can't judge the page, which is of another version. It is empty if the program can.
	Unchecked string `json:"unchecked,omitempty"`
}

// ExportsOutput is what "isthmus exports -o json" prints.
type ExportsOutput struct {
	Time    time.Time `json:"time"`
	Gateway string    `json:"gateway"`
	Exports
	// Unchecked is why the program can't judge the page, which is of another version. It is empty if the program can.
	Unchecked string `json:"unchecked,omitempty"`
}

// ExplainOutput is what "isthmus explain -o json" prints.
type ExplainOutput struct {
	Time    time.Time `json:"time"`
	Gateway string    `json:"gateway"`
	Explanation
	// Unchecked is why the program can't judge the page, which is of another version. It is empty if the program can.
	Unchecked string `json:"unchecked,omitempty"`
}

// OtherReplica is what another replica has that the one which is shown does not have, and the other way round.
type OtherReplica struct {
	Gateway     string   `json:"gateway"`
	Error       string   `json:"error,omitempty"`     // why it can't be asked
	Unchecked   string   `json:"unchecked,omitempty"` // why its page, which is of another version, is not compared
	Differences []string `json:"differences,omitempty"`
}

// VersionOutput is what "isthmus version -o json" prints.
type VersionOutput struct {
	Client   Build          `json:"client"` // of the program that prints it
	Gateways []ReplicaBuild `json:"gateways,omitempty"`
	Error    string         `json:"error,omitempty"` // why no replica can be asked
}

// ReplicaBuild is what one replica was built from, or why that is not known.
type ReplicaBuild struct {
	Gateway string `json:"gateway"`
	*Build
	Error string `json:"error,omitempty"`
}

// CheckOutput is what "isthmus check -o json" prints.
type CheckOutput struct {
	Time      time.Time        `json:"time"`
	From      string           `json:"from"`             // CheckedReplicas or CheckedHere
	Gateways  []CheckedReplica `json:"gateways"`         // never null
	Client    string           `json:"client,omitempty"` // the version of the program that prints it
	Failures  int              `json:"failures"`         // how many results have this level
	Warnings  int              `json:"warnings"`
	Unchecked int              `json:"unchecked"`
	Results   []CheckResult    `json:"results"` // never null
}

// Where checks were done.
const (
	CheckedReplicas = "gateway"
	CheckedHere     = "here" // where the command runs, since there is no replica, or with --pre
)

// CheckedReplica is a replica that was to be asked.
type CheckedReplica struct {
	Gateway string `json:"gateway"`           // NAMESPACE/POD, or HOST:PORT
	Version string `json:"version,omitempty"` // empty: it has not answered
	Commit  string `json:"commit,omitempty"`  // empty if the replica does not say
	Replica string `json:"replica,omitempty"` // its name among those that write EndpointSlices
	Leading bool   `json:"leading"`           // it writes them
	Error   string `json:"error,omitempty"`   // why it has not answered
}

// GetOutput is what "isthmus get -o json" prints for each state: what a proxy holds then.
type GetOutput struct {
	Time      time.Time  `json:"time"`
	Authority string     `json:"authority"` // that was asked for
	Exists    bool       `json:"exists"`    // the service does
	Endpoints []Endpoint `json:"endpoints"` // by address; never null
}

// Endpoint is what a proxy knows about one address.
type Endpoint struct {
	Address netip.AddrPort `json:"address"`
	Cluster string         `json:"cluster"` // local, unless the replica labels it as of another
	// Sent is what was sent: a WeightedAddr of linkerd2-proxy-api in protobuf's JSON. Its
	// metricLabels have those of the whole message too, and isthmus_tier, the tier of the service's
	// preference, and isthmus_standing, that of the endpoint's cluster: proxies are not sent these
	// two.
	Sent json.RawMessage `json:"sent"`
}

// ProfileOutput is what "isthmus profile -o json" prints for each profile.
type ProfileOutput struct {
	Time      time.Time `json:"time"`
	Authority string    `json:"authority"` // that was asked for
	// Address is that of its endpoint, if the authority is an address that is no Service's.
	Address netip.AddrPort `json:"address,omitzero"`
	// Sent is what was sent: a DestinationProfile of linkerd2-proxy-api in protobuf's JSON.
	Sent json.RawMessage `json:"sent"`
}

// CheckResult is how one check of one object ended, as "isthmus check" prints it.
type CheckResult struct {
	Section string     `json:"section"`
	Check   string     `json:"check"`            // the check's name, which is stable
	Object  string     `json:"object,omitempty"` // a cluster, a Secret or a service
	Level   CheckLevel `json:"level"`
	Text    string     `json:"text"`
	Hint    string     `json:"hint,omitempty"`    // what to do; of what is OK there is none
	Gateway string     `json:"gateway,omitempty"` // the one that finds it, if others do not
}

// CheckLevel is how good a result is.
type CheckLevel string

// The levels of results, from best to worst.
const (
	CheckOK        CheckLevel = "ok"
	CheckUnchecked CheckLevel = "unchecked" // it is not known: it may not be read, or there was no time
	CheckWarning   CheckLevel = "warning"   // it works, and part of it does not or will soon not
	CheckFailure   CheckLevel = "failure"
)

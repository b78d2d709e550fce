package adminapi

import (
	"encoding/json"
	"net/netip"
	"time"
)

// ClustersOutput is what "isthmus clusters -o json" prints, as one object in a line.
type ClustersOutput struct {
	Time    time.Time `json:"time"`    // when the gateway sent the page, by its clock
	Gateway string    `json:"gateway"` // NAMESPACE/POD, or HOST:PORT
	Clusters
	Others []OtherGateway `json:"otherGateways,omitempty"`
}

// ServicesOutput is what "isthmus services -o json" prints.
type ServicesOutput struct {
	Time     time.Time      `json:"time"`
	Gateway  string         `json:"gateway"`
	Services []Service      `json:"services"` // that were asked for; never null
	Others   []OtherGateway `json:"otherGateways,omitempty"`
}

// ExportsOutput is what "isthmus exports -o json" prints.
type ExportsOutput struct {
	Time    time.Time `json:"time"`
	Gateway string    `json:"gateway"`
	Exports
}

// ExplainOutput is what "isthmus explain -o json" prints.
type ExplainOutput struct {
	Time    time.Time `json:"time"`
	Gateway string    `json:"gateway"`
	Explanation
}

// OtherGateway is what another gateway has that the one which is shown does not have, and the other way round.
type OtherGateway struct {
	Gateway     string   `json:"gateway"`
	Error       string   `json:"error,omitempty"` // why it can't be asked
	Differences []string `json:"differences,omitempty"`
}

// VersionOutput is what "isthmus version -o json" prints.
type VersionOutput struct {
	Client   Build          `json:"client"` // of the program that prints it
	Gateways []GatewayBuild `json:"gateways,omitempty"`
	Error    string         `json:"error,omitempty"` // why no gateway can be asked
}

// GatewayBuild is what one gateway was built from, or why that is not known.
type GatewayBuild struct {
	Gateway string `json:"gateway"`
	*Build
	Error string `json:"error,omitempty"`
}

// CheckOutput is what "isthmus check -o json" prints.
type CheckOutput struct {
	Time      time.Time        `json:"time"`
	From      string           `json:"from"`             // CheckedGateway or CheckedHere
	Gateways  []CheckedReplica `json:"gateways"`         // never null
	Client    string           `json:"client,omitempty"` // the version of the program that prints it
	Failures  int              `json:"failures"`         // how many results have this level
	Warnings  int              `json:"warnings"`
	Unchecked int              `json:"unchecked"`
	Results   []CheckResult    `json:"results"` // never null
}

// Where checks were done.
const (
	CheckedGateway = "gateway"
	CheckedHere    = "here" // where the verb runs, since there is no gateway, or with --pre
)

// CheckedReplica is a gateway that was to be asked.
type CheckedReplica struct {
	Gateway string `json:"gateway"`           // NAMESPACE/POD, or HOST:PORT
	Version string `json:"version,omitempty"` // empty: it has not answered
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
	Address     netip.AddrPort    `json:"address"`
	Weight      uint32            `json:"weight"`
	Labels      map[string]string `json:"labels,omitempty"` // its own, and those of the whole message
	Identity    *PeerIdentity     `json:"identity,omitempty"`
	Protocol    string            `json:"protocol,omitempty"`    // h2 or opaque
	InboundPort uint32            `json:"inboundPort,omitempty"` // of the peer's proxy, through which it is reached; 0: straight
	Authority   string            `json:"authority,omitempty"`   // to use in place of the request's
	HTTP2       json.RawMessage   `json:"http2,omitempty"`       // Http2ClientParams, as protobuf has them in JSON

	// Tier is that of the service's preference, and Standing that of the endpoint's cluster. Proxies are not sent these.
	Tier     string `json:"tier,omitempty"`
	Standing string `json:"standing,omitempty"`
}

// PeerIdentity is what the TLS certificate of a peer must have, and the name to ask it by.
type PeerIdentity struct {
	DNS        string `json:"dns,omitempty"`
	URI        string `json:"uri,omitempty"`
	ServerName string `json:"serverName,omitempty"`
}

// ProfileOutput is what "isthmus profile -o json" prints for each profile.
type ProfileOutput struct {
	Time      time.Time `json:"time"`
	Authority string    `json:"authority"` // that was asked for
	Profile
}

// Profile is what a proxy knows about a destination.
type Profile struct {
	Name      string           `json:"name,omitempty"`
	Opaque    bool             `json:"opaque"` // the protocol is not detected
	Routes    []Route          `json:"routes,omitempty"`
	Budget    *RetryBudget     `json:"retryBudget,omitempty"`
	Overrides []Override       `json:"overrides,omitempty"` // where requests go instead
	Service   *ObjectReference `json:"service,omitempty"`
	Profile   *ObjectReference `json:"profile,omitempty"`  // nil: defaults apply
	Endpoint  *Endpoint        `json:"endpoint,omitempty"` // of an address that is no Service's
}

// Route is for the requests that meet its condition, unless a route before it is.
type Route struct {
	Name      string          `json:"name"`
	Condition string          `json:"condition"` // in words
	Responses []ResponseClass `json:"responses,omitempty"`
	Retryable bool            `json:"retryable"`
	Timeout   string          `json:"timeout,omitempty"`
}

// ResponseClass is for the responses that meet its condition, unless a class before it is.
type ResponseClass struct {
	Condition string `json:"condition"` // in words
	Failure   bool   `json:"failure"`
}

// RetryBudget is how many requests may be retries.
type RetryBudget struct {
	Ratio        float32 `json:"ratio"` // of the requests of the last TTL
	MinPerSecond uint32  `json:"minPerSecond"`
	TTL          string  `json:"ttl"`
}

// Override is a destination, and its share of the requests.
type Override struct {
	Authority string `json:"authority"`
	Weight    uint32 `json:"weight"`
}

// ObjectReference names an object of Kubernetes.
type ObjectReference struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	Port      uint32 `json:"port,omitempty"` // that was asked for
}

package adminapi

import "time"

// APIServer is the state of a cluster's API server as one replica sees it. The replica fills it
// from the requests that it makes to list and watch the cluster. In addition, the replica reads the
// version, trust anchors and Pod networks when the server first responds, and again every hour.
// Reading the page causes no request, unless the page is requested with [FreshParameter].
type APIServer struct {
	Answered time.Time `json:"answered,omitzero"` // time of the server's last response; zero if there was none
	// Error is why the newest request got no response. If Error is empty, the request got one.
	Error string `json:"error,omitempty"`
	// Certificate is what is wrong with the server's certificate, if that is the Error.
	// OtherAuthority reports whether another authority than that of the credentials issued the
	// certificate.
	Certificate    string `json:"certificate,omitempty"`
	OtherAuthority bool   `json:"otherAuthority,omitempty"`
	// ClientCertificate is why the server rejects the client certificate of the credentials, such
	// as "expired certificate", if that is the Error.
	ClientCertificate string           `json:"clientCertificate,omitempty"`
	Refused           []RefusedRequest `json:"refusedRequests,omitempty"` // by resource and verb
	Clock             *Clock           `json:"clock,omitempty"`           // nil if no response had a date

	Version      string        `json:"version,omitempty"`      // such as v1.36.3; empty if unknown
	VersionError string        `json:"versionError,omitempty"` // why the version could not be read
	Anchors      *TrustAnchors `json:"trustAnchors,omitempty"` // nil if not read yet
	Networks     *PodNetworks  `json:"podNetworks,omitempty"`  // nil if not read yet
	// Expiry is when the credentials of a link expire. If Expiry is nil, they do not expire.
	Expiry *Expiry `json:"expiry,omitempty"`
}

// FreshParameter is the query parameter with which "isthmus check" requests /debug/clusters. The
// value of the parameter is true. Before the replica responds, it again reads trust anchors that
// are at least 10 s old, and Pod networks that are at least a minute old. The replica waits up to 2
// s for both.
const FreshParameter = "fresh"

// RefusedRequest is a kind of request whose newest response was an error.
type RefusedRequest struct {
	Verb     string `json:"verb"`     // an RBAC verb, such as list
	Resource string `json:"resource"` // such as jobs.batch or configmaps/NAME, or a path such as /version
	Status   int    `json:"status"`   // HTTP status code
}

// Clock compares an API server's clock with the replica's, using the Date of its newest response.
type Clock struct {
	Ahead float64 `json:"aheadSeconds"` // negative if the server's clock is behind
	// Within is the precision of Ahead. Within covers the duration of the request and the missing
	// fraction of a second in the Date.
	Within float64 `json:"withinSeconds"`
}

// TrustAnchors are the certificates that the proxies of a cluster trust. TrustAnchors come from the
// ConfigMap linkerd-identity-trust-roots in the namespace of the control plane.
type TrustAnchors struct {
	Error string   `json:"error,omitempty"` // why the trust anchors are unknown; empty if they are known
	List  []Anchor `json:"list,omitempty"`  // without duplicates
	// AgeSeconds is the time since the trust anchors were read.
	AgeSeconds int `json:"ageSeconds,omitempty"`
}

// Anchor is one trusted certificate.
type Anchor struct {
	SHA256  string    `json:"sha256"` // SHA-256 fingerprint of the certificate, in hexadecimal
	Expires time.Time `json:"expires"`
}

// PodNetworks are the Pod CIDRs of a cluster's Nodes.
type PodNetworks struct {
	Error  string   `json:"error,omitempty"`  // why the CIDRs are unknown; empty if they are known
	Nodes  int      `json:"nodes"`            // number of Nodes that were read
	Partly bool     `json:"partly,omitempty"` // the cluster has more Nodes than were read
	CIDRs  []string `json:"cidrs,omitempty"`  // sorted; adjacent ranges are merged
	// AgeSeconds is the time since the Nodes were read.
	AgeSeconds int `json:"ageSeconds,omitempty"`
}

// Expiry is the expiry time of a credential.
type Expiry struct {
	What string    `json:"what"` // "token" or "client certificate"
	At   time.Time `json:"at"`
}

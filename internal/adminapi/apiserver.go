package adminapi

import "time"

// APIServer is what a gateway has learned of a cluster's API server: by the requests that it makes
// to follow the cluster, and by what it reads once it has an answer, and again every hour. Reading
// the page causes no request, unless it has [FreshParameter].
type APIServer struct {
	Answered time.Time `json:"answered,omitzero"` // when it last answered anything; the zero time if it has not yet
	// Error is why the newest request had no answer; empty: it had one.
	Error string `json:"error,omitempty"`
	// Certificate is what is wrong with the server's certificate, if that is the Error.
	// OtherAuthority: it was issued by another authority than those of the credentials.
	Certificate    string `json:"certificate,omitempty"`
	OtherAuthority bool   `json:"otherAuthority,omitempty"`
	// ClientCertificate is why the server refuses that of the credentials, such as expired
	// certificate, if that is the Error.
	ClientCertificate string           `json:"clientCertificate,omitempty"`
	Refused           []RefusedRequest `json:"refusedRequests,omitempty"` // by resource and verb
	Clock             *Clock           `json:"clock,omitempty"`           // nil: no answer had a date

	Version      string        `json:"version,omitempty"`      // such as v1.36.3; empty: not known
	VersionError string        `json:"versionError,omitempty"` // why it could not be read
	Anchors      *TrustAnchors `json:"trustAnchors,omitempty"` // nil: not read yet
	Networks     *PodNetworks  `json:"podNetworks,omitempty"`  // nil: not read yet
	// Expiry is when the credentials of a link expire; nil: they have no such time.
	Expiry *Expiry `json:"expiry,omitempty"`
}

// FreshParameter is the query parameter by which "isthmus check" reads /debug/clusters, with the value true. Before the
// replica answers, it reads trust anchors again that are 10 s old or more,
// and Pod networks that are a minute old or more. It waits 2 s for them.
const FreshParameter = "fresh"

// RefusedRequest is a kind of request that was answered by an error the last time that it was made.
type RefusedRequest struct {
	Verb     string `json:"verb"`     // as rights have it, such as list
	Resource string `json:"resource"` // such as jobs.batch or configmaps/NAME, or a path such as /version
	Status   int    `json:"status"`   // of HTTP
}

// Clock is how an API server's clock differs from the gateway's, by the Date of its newest answer.
type Clock struct {
	Ahead float64 `json:"aheadSeconds"` // negative: it is behind
	// Within is how much the two may seem to differ if they agree: the answer took so long, and its
	// Date has no fractions.
	Within float64 `json:"withinSeconds"`
}

// TrustAnchors are the certificates that the proxies of a cluster trust: ConfigMap
// linkerd-identity-trust-roots of the control plane's namespace.
type TrustAnchors struct {
	Error string   `json:"error,omitempty"` // why they are not known; empty: they are
	List  []Anchor `json:"list,omitempty"`  // none twice
	// AgeSeconds is how long ago they were read.
	AgeSeconds int `json:"ageSeconds,omitempty"`
}

// Anchor is one certificate.
type Anchor struct {
	SHA256  string    `json:"sha256"` // of the certificate, in hexadecimal digits
	Expires time.Time `json:"expires"`
}

// PodNetworks are the Pod CIDRs of a cluster's Nodes.
type PodNetworks struct {
	Error  string   `json:"error,omitempty"`  // why they are not known; empty: they are
	Nodes  int      `json:"nodes"`            // that were read
	Partly bool     `json:"partly,omitempty"` // there are more Nodes than are read
	CIDRs  []string `json:"cidrs,omitempty"`  // sorted; ranges that make up a larger one are joined
	// AgeSeconds is how long ago they were read.
	AgeSeconds int `json:"ageSeconds,omitempty"`
}

// Expiry is when something expires.
type Expiry struct {
	What string    `json:"what"` // token, or client certificate
	At   time.Time `json:"at"`
}

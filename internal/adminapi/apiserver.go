package adminapi

import "time"

// APIServer contains what one replica knows about a cluster's API server. The replica learns most
// values when it lists and watches the cluster's objects. The replica reads the version, the trust
// anchors and the Pod networks when the server first responds, and then every hour. A request to
// /debug/clusters causes requests to the API server only if [FreshParameter] is set.
type APIServer struct {
	Answered time.Time `json:"answered,omitzero"` // time of the server's last response; zero if there was none
	// Error says why the most recent request received no response. If that request received a
	// response, Error is empty.
	Error string `json:"error,omitempty"`
	// Certificate says what is wrong with the server's certificate, and is empty if Error has a
	// different cause. OtherAuthority reports whether the certificate's issuer differs from the
	// certificate authority in the credentials.
	Certificate    string `json:"certificate,omitempty"`
	OtherAuthority bool   `json:"otherAuthority,omitempty"`
	// ClientCertificate says why the server rejects the client certificate, for example "expired
	// certificate".
	ClientCertificate string           `json:"clientCertificate,omitempty"`
	Refused           []RefusedRequest `json:"refusedRequests,omitempty"` // by resource and verb
	Clock             *Clock           `json:"clock,omitempty"`           // nil if no response had a date

	Version      string        `json:"version,omitempty"`      // such as v1.36.3; empty if unknown
	VersionError string        `json:"versionError,omitempty"` // why the version could not be read
	Anchors      *TrustAnchors `json:"trustAnchors,omitempty"` // nil if not read yet
	Networks     *PodNetworks  `json:"podNetworks,omitempty"`  // nil if not read yet
	// Expiry says when the credentials of a link expire, or is nil if they do not expire.
	Expiry *Expiry `json:"expiry,omitempty"`
}

// FreshParameter is the query parameter that "isthmus check" sets to true in requests to
// /debug/clusters. If the parameter is true, the replica rereads trust anchors that are at least
// 10 s old, and Pod networks that are at least 1 min old. The replica waits up to 2 s for the new
// data before responding.
const FreshParameter = "fresh"

// RefusedRequest describes a kind of request for which the most recent response was an error.
type RefusedRequest struct {
	Verb     string `json:"verb"`     // an RBAC verb, such as list
	Resource string `json:"resource"` // such as jobs.batch or configmaps/NAME, or a path such as /version
	Status   int    `json:"status"`   // HTTP status code
}

// Clock compares an API server's clock with the replica's clock, based on the most recent response
// that has a Date header.
type Clock struct {
	Ahead float64 `json:"aheadSeconds"` // negative if the server's clock is behind
	// Within is the precision of the Ahead field, in seconds. The precision is limited by the
	// duration of the request and by the Date header, which has a resolution of one second.
	Within float64 `json:"withinSeconds"`
}

// TrustAnchors describes the certificates that the proxies of a cluster trust. The certificates
// come from the ConfigMap linkerd-identity-trust-roots in the namespace of the control plane.
type TrustAnchors struct {
	Error      string   `json:"error,omitempty"` // why the trust anchors are unknown; empty if they are known
	List       []Anchor `json:"list,omitempty"`  // without duplicates
	AgeSeconds int      `json:"ageSeconds,omitempty"`
}

type Anchor struct {
	SHA256  string    `json:"sha256"` // SHA-256 fingerprint of the certificate, in hexadecimal
	Expires time.Time `json:"expires"`
}

type PodNetworks struct {
	Error      string   `json:"error,omitempty"`  // why the CIDRs are unknown; empty if they are known
	Nodes      int      `json:"nodes"`            // number of Nodes that were read
	Partly     bool     `json:"partly,omitempty"` // the cluster has more Nodes than were read
	CIDRs      []string `json:"cidrs,omitempty"`  // sorted; adjacent ranges are merged
	AgeSeconds int      `json:"ageSeconds,omitempty"`
}

type Expiry struct {
	What string    `json:"what"` // "token" or "client certificate"
	At   time.Time `json:"at"`
}

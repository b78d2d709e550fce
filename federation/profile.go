package federation

import (
	"net/netip"
	"time"
)

// ProfileKey identifies a destination for the clients in one namespace. The destination is one of:
//
//   - an address, if Addr is set
//   - one endpoint of a service, if Instance is set
//   - a service port, if neither Addr nor Instance is set
type ProfileKey struct {
	Service  ServiceID
	Instance string // hostname of an endpoint, as in <hostname>.<service>.<namespace>; empty for the service
	// Addr is the cluster IP of a service, the address of a Pod, or any other address. Addr must
	// not be an IPv4-mapped IPv6 address, and must not have an IPv6 zone.
	Addr netip.AddrPort
	Port uint16 // port of the service; zero if Addr is set
	// Namespace is the namespace of the client. ServiceProfiles in this namespace override those in
	// the service's namespace. The namespace need not exist, because clients choose it freely.
	//
	// Namespace is empty if the client's namespace is unknown or is the same as the service's, or
	// if Instance is set.
	Namespace string
}

// ProfileReason says why a destination does not have a profile.
type ProfileReason uint8

const (
	Resolved ProfileReason = iota
	NoService
	// NoPort means that the service does not declare the port.
	NoPort
	// NoAddress means that the service declares the port, but is of type ExternalName.
	NoAddress
	// NoInstance means that no endpoint of the service has the requested hostname, or that the Pod
	// of the endpoint with this hostname is not cached yet.
	NoInstance
	// Ambiguous means that several objects claim the address.
	Ambiguous
)

// Profile describes a destination to a proxy: either a service port or a single endpoint. A Profile
// is immutable.
type Profile struct {
	Reason ProfileReason // if it is not Resolved, all fields below except Claimed are zero
	// If Reason is Ambiguous, Claimed describes the objects that claim the address, for example "2
	// Services with cluster IP 10.0.0.1".
	Claimed string

	// Service and Port are set in the profile of a service port.
	Service ServiceID
	Port    uint16
	Name    string          // fully qualified name of the service; empty in the profile of an endpoint
	Routes  *ServiceProfile // nil means the default
	// If Rejected is true, the service's ServiceProfile is invalid, and Routes is nil. Proxies keep
	// the routes that they have already received for the service.
	Rejected bool
	Opaque   bool // whether proxies must skip protocol detection for the service port

	// Endpoint describes the endpoint at the address. In the profile of a service, Endpoint is nil.
	// Common.Labels contains all labels of the endpoint, and Common.Group is empty.
	//
	// For an address without a known object, Kind is Address, and Opaque says whether the port is
	// opaque by default.
	Endpoint *Endpoint
}

// Equal reports whether the two profiles have the same content. ServiceProfiles are compared by
// pointer.
func (p *Profile) Equal(o *Profile) bool {
	if p == o || p == nil || o == nil {
		return p == o
	}
	a, b := *p, *o
	a.Endpoint = nil
	b.Endpoint = nil
	if a != b {
		return false
	}
	if p.Endpoint == nil || o.Endpoint == nil {
		return p.Endpoint == o.Endpoint
	}
	return p.Endpoint.Equal(o.Endpoint)
}

// ServiceProfile describes how proxies handle requests to a service: routes, retries and traffic
// splits. A ServiceProfile is immutable. The pointer to a ServiceProfile stays the same until the
// content of the Kubernetes object changes, so callers can detect changes by comparing pointers.
type ServiceProfile struct {
	Namespace, Name string // namespace and name of the object
	Routes          []Route
	Budget          *RetryBudget // nil means the default
	Overrides       []Override
}

// Route describes one kind of request. If several routes match a request, the first of them is
// used.
type Route struct {
	Name      string
	Condition Match
	Classes   []ResponseClass
	Retryable bool
	Timeout   time.Duration // zero means no timeout
}

// MatchKind is the kind of a Match, and determines which of its fields are used.
type MatchKind uint8

const (
	MatchAll    MatchKind = iota // all conditions in Sub; if Sub is empty, everything matches
	MatchAny                     // any condition in Sub
	MatchNot                     // not the single condition in Sub
	MatchMethod                  // requests whose method is Text
	MatchPath                    // requests whose path matches the regular expression Text
	MatchStatus                  // responses with a status from Min to Max, inclusive; both are zero if unset
)

// Match is a condition on requests or responses.
type Match struct {
	Kind     MatchKind
	Sub      []Match
	Text     string
	Min, Max uint32
}

// ResponseClass describes one kind of response. If several classes match a response, the first of
// them is used.
type ResponseClass struct {
	Condition Match
	Failure   bool
}

// RetryBudget limits the number of retries.
type RetryBudget struct {
	Ratio        float32
	MinPerSecond uint32
	TTL          time.Duration
}

// Override is a destination that receives some of the service's requests in place of the service.
type Override struct {
	Authority string // if it has no port, the service's port is used
	Weight    uint32
}

package federation

import (
	"net/netip"
	"time"
)

// ProfileKey names one destination, as the clients of one namespace see it:
// a service port (Addr is zero), one endpoint of a service by its hostname
// (Instance is set), or an address (Service is zero). Watches of equal keys get
// the same profiles.
type ProfileKey struct {
	Service  ServiceID
	Instance string // hostname of an endpoint, as in <hostname>.<service>.<namespace>; empty: the service
	// Addr is a service's cluster IP, a Pod's address, or any other. It is never an IPv4-mapped IPv6 address, and
	// has no zone.
	Addr netip.AddrPort
	Port uint16 // of the service; zero with Addr, which has its own
	// Namespace is the client's, whose own ServiceProfiles come first. Empty: it is
	// not known, or it makes no difference, because it is the service's own or
	// because Instance is set. Clients choose it freely: it need not exist.
	Namespace string
}

// ProfileReason is why a destination has no profile.
type ProfileReason uint8

const (
	// Resolved: the destination has a profile.
	Resolved ProfileReason = iota
	// NoService: there is no such service.
	NoService
	// NoPort: the service does not declare the port.
	NoPort
	// NoAddress: the service is of type ExternalName, and declares the port.
	NoAddress
	// NoInstance: no endpoint of the service has that hostname, or the Pod of that
	// endpoint is not known yet.
	NoInstance
	// Ambiguous: several objects claim the address, so its owner is not known.
	Ambiguous
)

// Profile describes one destination to a proxy: a service port or one endpoint.
// It is immutable.
type Profile struct {
	Reason ProfileReason // unless Resolved, all fields below but Claimed are zero
	// Claimed names the objects that claim the address, if Reason is Ambiguous ("2 Services with cluster IP
	// 10.0.0.1").
	Claimed string

	// Of a service port.
	Service ServiceID
	Port    uint16
	Name    string          // the service's, fully qualified; empty: it is an endpoint's profile
	Routes  *ServiceProfile // nil: the default
	// Rejected: the ServiceProfile that applies is invalid, and Routes is nil. A
	// proxy that has received routes of this service keeps them.
	Rejected bool
	Opaque   bool // the service port's protocol must not be detected

	// Endpoint is what has the address; nil: it is a service's profile. It has no
	// Group: all labels are its own. For an address without a known owner it is an
	// Endpoint of kind Address, whose Opaque follows the default opaque ports.
	Endpoint *Endpoint
}

// Equal reports whether the two have the same content. ServiceProfiles are
// compared by pointer.
func (p *Profile) Equal(o *Profile) bool {
	if p == o || p == nil || o == nil {
		return p == o
	}
	a, b := *p, *o
	a.Endpoint, b.Endpoint = nil, nil
	if a != b {
		return false
	}
	if p.Endpoint == nil || o.Endpoint == nil {
		return p.Endpoint == o.Endpoint
	}
	return p.Endpoint.Equal(o.Endpoint)
}

// ServiceProfile describes the requests to a service: routes, retries, traffic
// splits. It is immutable, and the same pointer for as long as the Kubernetes
// object has the same content.
type ServiceProfile struct {
	Namespace, Name string // of the object
	Routes          []Route
	Budget          *RetryBudget // nil: the default
	Overrides       []Override
}

// Route is one kind of requests. The first Route that matches a request applies.
type Route struct {
	Name      string
	Condition Match
	Classes   []ResponseClass
	Retryable bool
	Timeout   time.Duration // zero: none
}

// MatchKind is the kind of condition, and with it which field of a Match is used.
type MatchKind uint8

const (
	MatchAll    MatchKind = iota // of Sub; without Sub everything matches
	MatchAny                     // of Sub
	MatchNot                     // the one Sub
	MatchMethod                  // of a request: Text
	MatchPath                    // of a request: Text is a regular expression
	MatchStatus                  // of a response: Min to Max, both included; both are zero if the object has neither
)

// Match is a condition on requests, or on responses.
type Match struct {
	Kind     MatchKind
	Sub      []Match
	Text     string
	Min, Max uint32
}

// ResponseClass is one kind of responses. The first that matches applies.
type ResponseClass struct {
	Condition Match
	Failure   bool
}

// RetryBudget limits retries.
type RetryBudget struct {
	Ratio        float32
	MinPerSecond uint32
	TTL          time.Duration
}

// Override is a destination that gets a part of the requests instead of the service.
type Override struct {
	Authority string // without a port it means the service's
	Weight    uint32
}

package federation

import (
	"net/netip"
	"time"
)

// ProfileKey names one destination, as the clients of one namespace know it:
// a service port (Addr is zero), one endpoint of a service by its hostname
// (Instance is set), or an address (Service is zero). Equal keys see the same
// profiles.
type ProfileKey struct {
	Service  ServiceID
	Instance string         // hostname of an endpoint, as in <hostname>.<service>.<namespace>; empty: the service
	Addr     netip.AddrPort // a service's cluster IP, a Pod's address, or anybody's; never an IPv4-mapped IPv6 address, never with a zone
	Port     uint16         // of the service; that of Addr stands there
	// Namespace is the client's, whose own ServiceProfiles come first. Empty: it is
	// not known, or it makes no difference, as the service's own, or with Instance.
	// Clients say what they like: there need be no such namespace.
	Namespace string
}

// ProfileReason says why there is nothing to tell of a destination.
type ProfileReason uint8

const (
	// Told: there is a profile.
	Told ProfileReason = iota
	// NoService: there is no such service.
	NoService
	// NoPort: the service does not declare the port.
	NoPort
	// NoAddress: the service is of type ExternalName, and declares the port.
	NoAddress
	// NoInstance: no endpoint of the service has that hostname, or nothing is
	// known yet of what that endpoint is.
	NoInstance
	// Ambiguous: several claim the address. It is not known who has it.
	Ambiguous
)

// Profile is what is told of one destination: a service port or one endpoint. It
// is immutable.
type Profile struct {
	Reason  ProfileReason // Told, or else all below but Claimed is zero
	Claimed string        // with Ambiguous: by what, for people ("2 Services with cluster IP 10.0.0.1")

	// Of a service port.
	Service ServiceID
	Port    uint16
	Name    string          // the service's, fully qualified; empty: it is an endpoint's profile
	Routes  *ServiceProfile // nil: the default
	// Rejected: the ServiceProfile that counts can't be used, and Routes is nil.
	// Who has had Routes keeps them.
	Rejected bool
	Opaque   bool // the service port's protocol must not be detected

	// Endpoint is what has the address; nil: it is a service's profile. It has no
	// Group: all labels are its own. Behind an address that nobody is known to have
	// is an Endpoint of kind Address, whose Opaque goes by the default.
	Endpoint *Endpoint
}

// Equal tells whether the two say the same.
func (p *Profile) Equal(o *Profile) bool {
	if p == o || p == nil || o == nil {
		return p == o
	}
	a, b := *p, *o
	a.Endpoint, b.Endpoint = nil, nil
	return a == b && (p.Endpoint == o.Endpoint || p.Endpoint != nil && o.Endpoint != nil && p.Endpoint.Equal(o.Endpoint))
}

// ServiceProfile is what is told of the requests to a service. It is immutable,
// and the same pointer for as long as the object behind it says the same.
type ServiceProfile struct {
	Namespace, Name string // of the object
	Routes          []Route
	Budget          *RetryBudget // nil: the default
	Overrides       []Override
}

// Route is one kind of requests; the first that matches counts.
type Route struct {
	Name      string
	Condition Match
	Classes   []ResponseClass
	Retryable bool
	Timeout   time.Duration // zero: none
}

// MatchKind says which field of a Match counts.
type MatchKind uint8

const (
	MatchAll    MatchKind = iota // of Sub; all of nothing is everything
	MatchAny                     // of Sub
	MatchNot                     // the one Sub
	MatchMethod                  // of a request: Text
	MatchPath                    // of a request: Text is a regular expression
	MatchStatus                  // of a response: Min to Max, both included; zero is no bound
)

// Match is a condition on requests, or on responses.
type Match struct {
	Kind     MatchKind
	Sub      []Match
	Text     string
	Min, Max uint32
}

// ResponseClass is one kind of responses; the first that matches counts.
type ResponseClass struct {
	Condition Match
	Failure   bool
}

// RetryBudget bounds how many retries there are.
type RetryBudget struct {
	Ratio        float32
	MinPerSecond uint32
	TTL          time.Duration
}

// Override is where a part of the requests goes instead.
type Override struct {
	Authority string // with a port, or else that of the service is meant
	Weight    uint32
}

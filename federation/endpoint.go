package federation

import (
	"net/netip"
	"slices"
	"strings"
)

// Endpoint contains everything that a proxy receives about one address, except what depends on
// Isthmus's flags or on the client. An Endpoint is immutable once it has been published or
// returned.
type Endpoint struct {
	Addr    netip.AddrPort // not an IPv4-mapped IPv6 address, and without a zone
	Cluster ClusterName

	Zone     string // from the EndpointSlice; empty if unknown; not sent if Kind is Address
	Node     string // the Pod's node; empty for other kinds
	Hostname string // the endpoint's hostname in the EndpointSlice
	// Twin identifies the Pod or Workload within the cluster. The part after the last slash is the
	// name of the Pod or Workload. All addresses of one Pod have the same Twin. If the endpoint is
	// neither a Pod nor a Workload, Twin is empty.
	Twin string

	Hints  *Hints  // may be shared between endpoints; nil means none
	Common *Common // may be shared with sibling endpoints; nil means none

	Kind Kind
	// If Meshed is true, a Linkerd proxy receives the traffic to the endpoint's port. Only meshed
	// endpoints receive protocol hints and HTTP/2 parameters.
	Meshed bool
	// If Opaque is true, proxies must skip protocol detection for the endpoint's port.
	Opaque bool
	// InboundPort is the inbound port of the endpoint's proxy, for use with the transport header.
	// Zero means that the transport header cannot be used. InboundPort is zero if the inbound port
	// is unknown. InboundPort is also zero if the endpoint's port is a host port, or the admin or
	// control port of the proxy.
	InboundPort uint16
}

// Equal reports whether the two endpoints have the same content. Equal endpoints are
// interchangeable.
func (e *Endpoint) Equal(o *Endpoint) bool {
	return e == o || e.Addr == o.Addr && e.Kind == o.Kind && e.Cluster == o.Cluster &&
		e.Zone == o.Zone && e.Node == o.Node && e.Hostname == o.Hostname && e.Twin == o.Twin &&
		e.Meshed == o.Meshed && e.Opaque == o.Opaque && e.InboundPort == o.InboundPort &&
		e.Hints.Equal(o.Hints) && e.Common.Equal(o.Common)
}

// NameLabel returns the label that contains the name of the Pod or Workload. For an address without
// a Pod or Workload, the second result is false.
func (e *Endpoint) NameLabel() (Label, bool) {
	name := "pod"
	if e.Kind == Workload {
		name = "external_workload"
	}
	return Label{Name: name, Value: e.Twin[strings.LastIndexByte(e.Twin, '/')+1:]}, e.Twin != ""
}

// Kind is the kind of object that an address belongs to.
type Kind uint8

const (
	// Address means that the address belongs to neither a Pod nor an ExternalWorkload. Examples are
	// the addresses of Linkerd gateways and of manually defined endpoints.
	Address Kind = iota
	Pod
	// Workload means that the address belongs to a Linkerd ExternalWorkload.
	Workload
)

// Hints contains the sorted topology hints of an endpoint. A Hints is immutable.
type Hints struct {
	ForZones []string
	ForNodes []string // only for endpoints of the local cluster
}

// Zones returns the zones in the hints, or nil if h is nil.
func (h *Hints) Zones() []string {
	if h == nil {
		return nil
	}
	return h.ForZones
}

// Nodes returns the nodes in the hints, or nil if h is nil.
func (h *Hints) Nodes() []string {
	if h == nil {
		return nil
	}
	return h.ForNodes
}

// Equal reports whether h and o have the same content. A nil *Hints is equivalent to a pointer to
// the zero value.
func (h *Hints) Equal(o *Hints) bool {
	return h == o || slices.Equal(h.Zones(), o.Zones()) && slices.Equal(h.Nodes(), o.Nodes())
}

// Common contains fields that often have the same values for many endpoints in a slice. Several
// endpoints can share one Common, because a Common is immutable.
type Common struct {
	// Group contains the labels shared by all endpoints in the slice: service, namespace and
	// target_*. Group is sorted by name.
	Group []Label
	// Labels contains the labels of the Pod or Workload, sorted by name. Labels derived from other
	// fields are omitted: NameLabel, zone, zone_locality and target_cluster.
	Labels    []Label
	Identity  Identity
	Authority string // authority override; empty means none
}

var emptyCommon Common

// Get returns c. If c is nil, Get returns a pointer to the zero value.
func (c *Common) Get() *Common {
	if c == nil {
		return &emptyCommon
	}
	return c
}

// Equal reports whether c and o have the same content. A nil *Common is equivalent to a pointer to
// the zero value.
func (c *Common) Equal(o *Common) bool {
	a := c.Get()
	b := o.Get()
	if a == b {
		return true
	}
	return a.Identity == b.Identity &&
		a.Authority == b.Authority &&
		slices.Equal(a.Group, b.Group) &&
		slices.Equal(a.Labels, b.Labels)
}

// Identity is the name that the TLS certificate of a peer must contain. At most one of DNS and URI
// is set. The zero value means that the peer has no identity.
type Identity struct {
	DNS        string // sent as dns_like_identity
	URI        string // sent as uri_like_identity
	ServerName string // SNI; not sent if empty
}

// Label is a metric label.
type Label struct{ Name, Value string }

// PlainLabel reports whether text is safe to use as the value of a label. Proxies write label
// values into their metrics without escaping them. A label value with a quotation mark, backslash
// or line break could corrupt a proxy's metrics, or could be used to forge metrics.
func PlainLabel(text string) bool {
	return strings.IndexByte(text, '"') < 0 && strings.IndexByte(text, '\\') < 0 && strings.IndexByte(text, '\n') < 0
}

func compareAddr(a, b *Endpoint) int { return a.Addr.Compare(b.Addr) }

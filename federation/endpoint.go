package federation

import (
	"net/netip"
	"slices"
	"strings"
)

// Endpoint is everything that is sent to a proxy about one address, except what
// depends on the gateway's flags or on the client. It is immutable: never written
// after it has been published or returned.
type Endpoint struct {
	Addr    netip.AddrPort // never an IPv4-mapped IPv6 address, never with a zone
	Cluster ClusterName

	Zone     string // as its slice has it; empty: unknown. That of bare addresses is not sent
	Node     string // the Pod's node; empty for everything else
	Hostname string // the endpoint's hostname in its slice
	// Twin identifies its Pod or Workload within the cluster: IPv4 and IPv6 addresses of one
	// have the same. What follows its last slash is the name, which is sent as NameLabel.
	// Empty: none.
	Twin string

	Hints  *Hints  // endpoints may share them; nil: none
	Common *Common // endpoints of siblings may share it; nil: none of it

	Kind Kind
	// Meshed: a Linkerd proxy receives this port's traffic, so that protocol
	// hints and HTTP/2 parameters make sense.
	Meshed bool
	// Opaque: the port's protocol must not be detected.
	Opaque bool
	// InboundPort is the proxy's inbound port, for the transport header. Zero:
	// the header can't be used, since the endpoint is one of the proxy's own
	// ports, or the inbound port is not known.
	InboundPort uint16
}

// Equal reports whether the two have the same content, and so are the same to
// clients and to the choice of what clients see.
func (e *Endpoint) Equal(o *Endpoint) bool {
	return e == o || e.Addr == o.Addr && e.Kind == o.Kind && e.Cluster == o.Cluster &&
		e.Zone == o.Zone && e.Node == o.Node && e.Hostname == o.Hostname && e.Twin == o.Twin &&
		e.Meshed == o.Meshed && e.Opaque == o.Opaque && e.InboundPort == o.InboundPort &&
		e.Hints.Equal(o.Hints) && e.Common.Equal(o.Common)
}

// NameLabel returns the label with the name of its Pod or Workload. It returns false if it
// has none.
func (e *Endpoint) NameLabel() (Label, bool) {
	name := "pod"
	if e.Kind == Workload {
		name = "external_workload"
	}
	return Label{Name: name, Value: e.Twin[strings.LastIndexByte(e.Twin, '/')+1:]}, e.Twin != ""
}

// Kind is what has an address.
type Kind uint8

const (
	// Address is a bare address: a manual endpoint, or a Linkerd gateway's.
	Address Kind = iota
	// Pod is an address of a Kubernetes Pod.
	Pod
	// Workload is an address of a Linkerd ExternalWorkload.
	Workload
)

// Hints are the hints of an endpoint, each list sorted. They are immutable.
type Hints struct {
	ForZones []string
	ForNodes []string // of endpoints of the local cluster only
}

// Zones returns the zones. Nil has none.
func (h *Hints) Zones() []string {
	if h == nil {
		return nil
	}
	return h.ForZones
}

// Nodes returns the names of the nodes. Nil has none.
func (h *Hints) Nodes() []string {
	if h == nil {
		return nil
	}
	return h.ForNodes
}

// Equal reports whether the two have the same content. Nil is equal to the zero value.
func (h *Hints) Equal(o *Hints) bool {
	return h == o || slices.Equal(h.Zones(), o.Zones()) && slices.Equal(h.Nodes(), o.Nodes())
}

// Common is what the endpoints of siblings in a slice have in common, so that they can share
// it. It is immutable.
type Common struct {
	// Group is the same for all endpoints of the slice: labels of service, namespace,
	// target_…, sorted by name.
	Group []Label
	// Labels are those of its Pod or Workload, sorted by name, without those that are made
	// of other fields: NameLabel, zone, zone_locality, target_cluster.
	Labels    []Label
	Identity  Identity
	Authority string // authority override; empty: none
}

// nothing is what an endpoint without Common has in common with others.
var nothing Common

// Get returns c, or for nil one that has nothing.
func (c *Common) Get() *Common {
	if c == nil {
		return &nothing
	}
	return c
}

// Equal reports whether the two have the same content. Nil is equal to the zero value.
func (c *Common) Equal(o *Common) bool {
	a, b := c.Get(), o.Get()
	if a == b {
		return true
	}
	return a.Identity == b.Identity &&
		a.Authority == b.Authority &&
		slices.Equal(a.Group, b.Group) &&
		slices.Equal(a.Labels, b.Labels)
}

// Identity is the name that a peer's TLS certificate must bear. The zero value
// is none. At most one of DNS and URI is set.
type Identity struct {
	DNS        string // dns_like_identity
	URI        string // uri_like_identity
	ServerName string // SNI; empty: not sent
}

// Label is one metric label.
type Label struct{ Name, Value string }

// PlainLabel reports whether a text can be a label's value. Proxies write values into their metrics without
// escapes, so a quotation mark, backslash or line break would spoil or forge these.
func PlainLabel(text string) bool {
	return strings.IndexByte(text, '"') < 0 && strings.IndexByte(text, '\\') < 0 && strings.IndexByte(text, '\n') < 0
}

// compareAddr orders endpoints by address.
func compareAddr(a, b *Endpoint) int { return a.Addr.Compare(b.Addr) }

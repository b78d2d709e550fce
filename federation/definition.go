package federation

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ClusterName is the name of a linked cluster, as set in its link Secret.
type ClusterName string

// Local is the name of the cluster that Isthmus runs in.
const Local ClusterName = ""

func (c ClusterName) String() string {
	if c == Local {
		return "local"
	}
	return string(c)
}

// ServiceID identifies a service within one cluster. A federated service and all its members are in
// the same namespace.
type ServiceID struct{ Namespace, Name string }

func (id ServiceID) String() string { return id.Namespace + "/" + id.Name }

func (id ServiceID) compare(o ServiceID) int {
	return cmp.Or(cmp.Compare(id.Namespace, o.Namespace), cmp.Compare(id.Name, o.Name))
}

// Member identifies a Service that contributes endpoints to a service in the local cluster. The
// contributing Service may be in any cluster.
type Member struct {
	Cluster ClusterName
	Service ServiceID
}

func (m Member) String() string { return m.Service.String() + "@" + m.Cluster.String() }

// Definition describes a service of the local cluster, and lists its members, which may be in any
// cluster.
type Definition struct {
	// Members is sorted by precedence. If several members offer the same address, the first of
	// these members wins. Each member is listed once.
	//
	// A service that is not federated has one member: either the service itself or the remote
	// Service that it mirrors. For a mirror that does not specify its remote Service, Members is
	// empty.
	Members []Member
	// If Federated is true, the service exists even if none of its members is available.
	Federated bool
	// If Imported is true, the service belongs to a ServiceImport. The table itself does not use
	// Imported.
	Imported bool
	// If Strict is true, a member contributes endpoints only for ports that its Service declares.
	// If Strict is false, clients that request an undeclared port receive the member's endpoints
	// with the requested port.
	Strict bool
	// If Preference is nil, clients receive all endpoints, regardless of cluster and zone.
	Preference *Preference
}

func (d *Definition) equal(o *Definition) bool {
	if d == nil || o == nil {
		return d == o
	}
	return d.Federated == o.Federated &&
		d.Imported == o.Imported &&
		d.Strict == o.Strict &&
		d.Preference.equal(o.Preference) &&
		slices.Equal(d.Members, o.Members)
}

// The plain method reports whether the member is an ordinary Service in the local cluster. A
// missing ordinary Service is never reported, because it does not indicate a fault.
func (d *Definition) plain(m Member) bool { return !d.Federated && m.Cluster == Local }

// MemberStatus says whether a member contributes endpoints and, if not, why not.
type MemberStatus struct {
	Link    LinkState
	Service ServiceState // valid only if Link is Ready
	// If Unreached is true, the Service exists, but none of the Linkerd gateways leading to it is
	// usable. Only [Table.Unserved] sets Unreached.
	Unreached bool
}

// Serving reports whether the member contributes the endpoints of its Service.
func (s MemberStatus) Serving() bool { return s.Link == Ready && s.Service == Present }

// String returns "serving", or the reason why the member is not serving.
func (s MemberStatus) String() string {
	switch {
	case s.Link != Ready:
		return "cluster is " + s.Link.String()
	case s.Service == Missing:
		return "no such Service in the cluster"
	case s.Service == ExternalName:
		return "Service is of type ExternalName"
	case s.Unreached:
		return "no gateway of the cluster can be used"
	}
	return "serving"
}

// Preference determines which of a service's endpoints are sent to clients, and when. With the zero
// value, clients receive all endpoints.
//
// For a service that is not federated, all terms except ClientZone match the endpoints of all
// clusters. Teams can use the same preference for ordinary and federated Services.
type Preference struct {
	// Tiers is sorted from most to least preferred. Each endpoint belongs to the first tier that
	// includes it. Endpoints that do not belong to any tier are not served. If Tiers is empty, a
	// single tier contains all clusters.
	Tiers []Tier
	// MinReady is the number of ready endpoints that clients require. Clients use a tier only if
	// all earlier tiers together have fewer ready endpoints than MinReady.
	MinReady MinReady
	// ReturnAfter is how long earlier tiers must suffice without interruption before clients begin
	// to drop later tiers. ReturnOver is how long clients take to drop a tier.
	ReturnAfter, ReturnOver time.Duration
}

// String returns the preference's tiers in annotation syntax.
func (p *Preference) String() string { return p.firstTiers(max(len(p.Tiers), 1)) }

func (p *Preference) firstTiers(n int) string {
	words := make([]string, n)
	for i := range words {
		words[i] = p.tierName(i)
	}
	return strings.Join(words, ", ")
}

// tierName returns the text that represents tier i in annotations. The index after the last tier
// refers to clusters of last resort.
func (p *Preference) tierName(i int) string {
	switch {
	case i >= max(len(p.Tiers), 1):
		return LastResort.String()
	case len(p.Tiers) == 0:
		return TermWords[AnyCluster]
	}
	return p.Tiers[i].String()
}

// equal compares the pointers first, because most services share one preference.
func (p *Preference) equal(o *Preference) bool {
	if p == o || p == nil || o == nil {
		return p == o
	}
	return p.MinReady == o.MinReady &&
		p.ReturnAfter == o.ReturnAfter &&
		p.ReturnOver == o.ReturnOver &&
		sameTiers(p.Tiers, o.Tiers)
}

func sameTiers(a, b []Tier) bool {
	return slices.EqualFunc(a, b, func(x, y Tier) bool { return slices.Equal(x, y) })
}

// Tier is a set of endpoints. An endpoint belongs to a tier if it matches any of the tier's terms.
type Tier []Term

// String returns the tier in annotation syntax.
func (t Tier) String() string {
	words := make([]string, len(t))
	for i, term := range t {
		words[i] = term.String()
	}
	return strings.Join(words, "+")
}

// Term is one item of a tier, such as the name of a cluster.
type Term struct {
	Kind    TermKind
	Cluster ClusterName // only if Kind is Named
}

// String returns the term in annotation syntax.
func (t Term) String() string {
	switch {
	case t.Kind != Named:
		return TermWords[t.Kind]
	case slices.ContainsFunc(TermWords[:], func(w string) bool { return strings.EqualFold(w, string(t.Cluster)) }):
		return "cluster/" + string(t.Cluster)
	}
	return string(t.Cluster)
}

// TermKind determines which endpoints match a term.
type TermKind uint8

const (
	AnyCluster TermKind = iota
	// ClientZone matches the endpoints in the client's zone, in all clusters. If the client's zone
	// is unknown, ClientZone does not match any endpoints.
	ClientZone
	LocalCluster
	// SameRegion matches the endpoints of the local cluster and of all linked clusters in the same
	// region.
	SameRegion
	// Remote matches the endpoints of all linked clusters.
	Remote
	// Named matches the endpoints of the linked cluster whose name is in Term.Cluster.
	Named
)

// TermWords contains the word that annotations use for each kind of term except Named.
var TermWords = [...]string{
	AnyCluster:   "any",
	ClientZone:   "zone",
	LocalCluster: "local",
	SameRegion:   "region",
	Remote:       "remote",
}

// MinReady is the number of ready endpoints that clients require, or a percentage of all endpoints,
// ready or not. At least one endpoint must be ready, even if the percentage amounts to less than
// one endpoint. The zero value means that clients require one ready endpoint.
type MinReady struct {
	Count   int // zero means 1
	Percent int // from 1 to 100; zero means that Count is used
}

// String returns the number or percentage in annotation syntax.
func (m MinReady) String() string {
	if m.Percent > 0 {
		return strconv.Itoa(m.Percent) + "%"
	}
	return strconv.Itoa(max(m.Count, 1))
}

// The suffice method reports whether enough endpoints are ready. The second argument is the total
// number of endpoints, ready or not.
func (m MinReady) suffice(ready, known int) bool {
	if m.Percent > 0 {
		return ready > 0 && 100*ready >= m.Percent*known
	}
	return ready >= max(m.Count, 1)
}

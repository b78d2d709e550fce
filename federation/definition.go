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

// Local is the name of the local cluster, in which Isthmus runs.
const Local ClusterName = ""

// String returns the name, or "local" for the local cluster.
func (c ClusterName) String() string {
	if c == Local {
		return "local"
	}
	return string(c)
}

// ServiceID identifies a service within one cluster. All members of a federated service are in the
// namespace of that service, because of namespace sameness.
type ServiceID struct{ Namespace, Name string }

func (id ServiceID) String() string { return id.Namespace + "/" + id.Name }

func (id ServiceID) compare(o ServiceID) int {
	return cmp.Or(cmp.Compare(id.Namespace, o.Namespace), cmp.Compare(id.Name, o.Name))
}

// Member identifies a Service in one cluster whose endpoints belong to a service.
type Member struct {
	Cluster ClusterName
	Service ServiceID
}

func (m Member) String() string { return m.Service.String() + "@" + m.Cluster.String() }

// Definition lists the members of a service in the local cluster.
type Definition struct {
	// Members is sorted by precedence. If several members offer the same address, the first of
	// these members wins. No member is listed twice.
	//
	// A service that is not federated has one member: either the service itself or the remote
	// Service that it mirrors. For a mirror that does not name its remote Service, Members is
	// empty.
	Members []Member
	// If Federated is true, the service exists even if members are unavailable. A member is
	// unavailable if its cluster is not linked, or if its Service does not exist or is of type
	// ExternalName.
	Federated bool
	// If Imported is true, the service belongs to a ServiceImport. The table does not use Imported.
	Imported bool
	// If Strict is true, a member does not contribute endpoints to ports that its Service does not
	// declare. If Strict is false, the member's endpoints are served at the port that the client
	// requested.
	Strict bool
	// If Preference is nil, clients receive all endpoints, regardless of cluster and zone.
	Preference *Preference
}

// equal reports whether two definitions are the same. A nil definition means that the service is
// not defined.
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

// plain reports whether the member is an ordinary service of the local cluster. Ordinary services
// may be missing without any fault in federation, so a missing one is never reported.
func (d *Definition) plain(m Member) bool { return !d.Federated && m.Cluster == Local }

// MemberStatus says whether a member contributes endpoints, and if not, why.
type MemberStatus struct {
	Link    LinkState
	Service ServiceState // valid only if Link is Ready
	// If Unreached is true, the Service exists, but all Linkerd gateways that lead to it are
	// unusable. Only [Table.Unserved] sets Unreached.
	Unreached bool
}

// Serving reports whether the member contributes the endpoints of its Service.
func (s MemberStatus) Serving() bool { return s.Link == Ready && s.Service == Present }

// String returns the reason why the member does not serve, for logs.
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
// For a service with one member, every term except zone names all clusters. In all other respects,
// a preference has the same meaning for all services. Teams can therefore use the same preference
// on an ordinary Service and on a federated one.
type Preference struct {
	// Tiers is sorted from most to least preferred. An endpoint belongs to the first tier that
	// names the endpoint. Endpoints that are not named by any tier are not served. If Tiers is
	// empty, a single tier contains all clusters.
	Tiers []Tier
	// MinReady is the number of ready endpoints at which the leading tiers suffice, so that clients
	// do not need further tiers.
	MinReady MinReady
	// ReturnAfter is how long fewer tiers must suffice without interruption before clients begin to
	// drop the tiers that are no longer needed. ReturnOver is how long it takes clients to drop
	// these tiers.
	ReturnAfter, ReturnOver time.Duration
}

// String returns the tiers of the preference in the syntax that annotations use.
func (p *Preference) String() string { return p.firstTiers(max(len(p.Tiers), 1)) }

// firstTiers returns the first n tiers in the syntax that annotations use.
func (p *Preference) firstTiers(n int) string {
	words := make([]string, n)
	for i := range words {
		words[i] = p.tierName(i)
	}
	return strings.Join(words, ", ")
}

// tierName returns the tier at index i, for users. The index after the last tier stands for
// clusters of last resort.
func (p *Preference) tierName(i int) string {
	switch {
	case i >= max(len(p.Tiers), 1):
		return LastResort.String()
	case len(p.Tiers) == 0:
		return TermWords[AnyCluster]
	}
	return p.Tiers[i].String()
}

// equal reports whether two preferences have the same content. The pointers are compared first,
// because most services share one preference.
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

// Tier is a set of endpoints. An endpoint belongs to a tier if any term of the tier names the
// endpoint.
type Tier []Term

// String returns the tier in the syntax that annotations use.
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

// String returns the term in the syntax that annotations use.
func (t Term) String() string {
	switch {
	case t.Kind != Named:
		return TermWords[t.Kind]
	case slices.ContainsFunc(TermWords[:], func(w string) bool { return strings.EqualFold(w, string(t.Cluster)) }):
		return "cluster/" + string(t.Cluster)
	}
	return string(t.Cluster)
}

// TermKind determines which endpoints a term names.
type TermKind uint8

const (
	// AnyCluster names the endpoints of all clusters.
	AnyCluster TermKind = iota
	// ClientZone names the endpoints in the client's zone, in all clusters. If the client's zone is
	// unknown, ClientZone does not name any endpoints.
	ClientZone
	// LocalCluster names the endpoints of the local cluster.
	LocalCluster
	// SameRegion selects the endpoints of the local cluster and of all linked clusters in its
	// region.
	SameRegion
	// Remote names the endpoints of all linked clusters.
	Remote
	// Named names the endpoints of the linked cluster in Term.Cluster.
	Named
)

// TermWords contains the word that annotations use for each kind except Named.
var TermWords = [...]string{
	AnyCluster:   "any",
	ClientZone:   "zone",
	LocalCluster: "local",
	SameRegion:   "region",
	Remote:       "remote",
}

// MinReady is the number of endpoints that must be ready for tiers to suffice. If Percent is not
// zero, the number is that percentage of all endpoints, ready or not, but at least one. The zero
// value is equivalent to one endpoint.
type MinReady struct {
	Count   int // zero means 1
	Percent int // from 1 to 100; zero means that Count applies
}

// String returns the limit in the syntax that annotations use.
func (m MinReady) String() string {
	if m.Percent > 0 {
		return strconv.Itoa(m.Percent) + "%"
	}
	return strconv.Itoa(max(m.Count, 1))
}

// suffice reports whether the given number of ready endpoints is enough. The known argument is the
// number of all endpoints, ready or not.
func (m MinReady) suffice(ready, known int) bool {
	if m.Percent > 0 {
		return ready > 0 && 100*ready >= m.Percent*known
	}
	return ready >= max(m.Count, 1)
}

package federation

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ClusterName is the name of a linked cluster, as its link Secret gives it.
type ClusterName string

// Local is the name of the local cluster, which Isthmus runs in.
const Local ClusterName = ""

// String returns the name, or "local" for the local cluster.
func (c ClusterName) String() string {
	if c == Local {
		return "local"
	}
	return string(c)
}

// ServiceID identifies a service within one cluster. All members of a federated service are in its
// namespace, by namespace sameness.
type ServiceID struct{ Namespace, Name string }

func (id ServiceID) String() string { return id.Namespace + "/" + id.Name }

func (id ServiceID) compare(o ServiceID) int {
	return cmp.Or(cmp.Compare(id.Namespace, o.Namespace), cmp.Compare(id.Name, o.Name))
}

// Member is a Service of one cluster that is part of a service.
type Member struct {
	Cluster ClusterName
	Service ServiceID
}

func (m Member) String() string { return m.Service.String() + "@" + m.Cluster.String() }

// Definition says which members make up a service of the local cluster.
type Definition struct {
	// Members is sorted by precedence. If several members offer the same address, the first one
	// wins. No member is listed twice.
	//
	// A service that is not federated has one member: the service itself, or the remote Service
	// that it mirrors. Members is empty for a mirror that does not name its remote Service.
	Members []Member
	// If Federated is true, unavailable members are skipped, and the service exists without them. A
	// member is unavailable if its cluster is not linked, or if its Service is missing or of type
	// ExternalName.
	Federated bool
	// If Imported is true, the service belongs to a ServiceImport. The table does not use this
	// field.
	Imported bool
	// If Strict is true, a member contributes nothing to a port that its Service does not declare.
	// Otherwise its endpoints are served at the port that the client requested.
	Strict bool
	// If Preference is nil, clients get all endpoints, whatever their cluster and zone.
	Preference *Preference
}

// equal compares two definitions. A nil definition means that the service is not defined.
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

// plain reports whether the member is an ordinary service of the local cluster. A missing ordinary
// service is not a fault of federation, so it is never reported.
func (d *Definition) plain(m Member) bool { return !d.Federated && m.Cluster == Local }

// MemberStatus says whether a member contributes endpoints, and if not, why.
type MemberStatus struct {
	Link    LinkState
	Service ServiceState // valid only if Link is Ready
	// If Unreached is true, the Service exists, but no Linkerd gateway that leads to it is usable.
	// Only [Table.Unserved] sets Unreached.
	Unreached bool
}

// Serving reports whether the member contributes the endpoints of its Service.
func (s MemberStatus) Serving() bool { return s.Link == Ready && s.Service == Present }

// String returns the reason why the member does not serve, in words for a log.
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

// Preference says which of a service's endpoints clients get, and when. With the zero value,
// clients get all endpoints.
//
// A preference has the same meaning for a service with one member, with one exception: there, every
// term except zone names all clusters. So a team can use the same preference on its own Service and
// on the federated one.
type Preference struct {
	// Tiers is sorted from best to worst. An endpoint belongs to the first tier that names it. An
	// endpoint that no tier names is not served. If Tiers is empty, there is one tier with all
	// clusters.
	Tiers []Tier
	// MinReady says when a row of tiers suffices, so that clients do not need the next tiers.
	MinReady MinReady
	// ReturnAfter is how long a shorter row of tiers must suffice without interruption before
	// clients drop the tiers behind the row. ReturnOver is how long dropping these tiers takes.
	ReturnAfter, ReturnOver time.Duration
}

// String returns the tiers of the preference as users write them.
func (p *Preference) String() string { return p.firstTiers(max(len(p.Tiers), 1)) }

// firstTiers returns the first n tiers in words.
func (p *Preference) firstTiers(n int) string {
	words := make([]string, n)
	for i := range words {
		words[i] = p.tierName(i)
	}
	return strings.Join(words, ", ")
}

// tierName returns a tier in words. The index after the last tier stands for clusters of last
// resort.
func (p *Preference) tierName(i int) string {
	switch {
	case i >= max(len(p.Tiers), 1):
		return LastResort.String()
	case len(p.Tiers) == 0:
		return TermWords[AnyCluster]
	}
	return p.Tiers[i].String()
}

// equal compares the content of two preferences. Most services share one preference, so the
// pointers are compared first.
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

// Tier is a set of endpoints. An endpoint is in the tier if any term of the tier names the
// endpoint.
type Tier []Term

// String returns the tier as users write it.
func (t Tier) String() string {
	words := make([]string, len(t))
	for i, term := range t {
		words[i] = term.String()
	}
	return strings.Join(words, "+")
}

// Term is one item of a tier.
type Term struct {
	Kind    TermKind
	Cluster ClusterName // only if Kind is Named
}

// String returns the term as users write it.
func (t Term) String() string {
	switch {
	case t.Kind != Named:
		return TermWords[t.Kind]
	case slices.ContainsFunc(TermWords[:], func(w string) bool { return strings.EqualFold(w, string(t.Cluster)) }):
		return "cluster/" + string(t.Cluster)
	}
	return string(t.Cluster)
}

// TermKind says how a term names endpoints.
type TermKind uint8

const (
	// AnyCluster names the endpoints of all clusters.
	AnyCluster TermKind = iota
	// ClientZone names the endpoints in the client's zone, of any cluster. If the client's zone is
	// unknown, it names none.
	ClientZone
	// LocalCluster names the endpoints of the local cluster.
	LocalCluster
	// SameRegion names the endpoints of the local cluster and of all linked clusters in its region.
	SameRegion
	// Remote names the endpoints of all linked clusters.
	Remote
	// Named names the endpoints of the linked cluster in Term.Cluster.
	Named
)

// TermWords contains the word for each kind except Named, as users write it.
var TermWords = [...]string{
	AnyCluster:   "any",
	ClientZone:   "zone",
	LocalCluster: "local",
	SameRegion:   "region",
	Remote:       "remote",
}

// MinReady is the number of endpoints that must be ready. If Percent is not zero, the limit is that
// percentage of all endpoints, ready or not, and at least one. The zero value means 1.
type MinReady struct {
	Count   int // zero means 1
	Percent int // from 1 to 100; zero means that Count applies
}

// String returns the limit as users write it.
func (m MinReady) String() string {
	if m.Percent > 0 {
		return strconv.Itoa(m.Percent) + "%"
	}
	return strconv.Itoa(max(m.Count, 1))
}

// suffice reports whether the number of ready endpoints is enough. known counts all endpoints,
// ready or not.
func (m MinReady) suffice(ready, known int) bool {
	if m.Percent > 0 {
		return ready > 0 && 100*ready >= m.Percent*known
	}
	return ready >= max(m.Count, 1)
}

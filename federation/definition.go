package federation

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ClusterName names a linked cluster, as its link Secret does.
type ClusterName string

// Local is the cluster that the gateway runs in.
const Local ClusterName = ""

// String is the name, or "local" for the cluster that the gateway runs in.
func (c ClusterName) String() string {
	if c == Local {
		return "local"
	}
	return string(c)
}

// ServiceID names a service of one cluster. By namespace sameness the members
// of a federated service share its namespace.
type ServiceID struct{ Namespace, Name string }

func (id ServiceID) String() string { return id.Namespace + "/" + id.Name }

func (id ServiceID) compare(o ServiceID) int {
	return cmp.Or(cmp.Compare(id.Namespace, o.Namespace), cmp.Compare(id.Name, o.Name))
}

// Member is one cluster's Service among those that make up a service.
type Member struct {
	Cluster ClusterName
	Service ServiceID
}

func (m Member) String() string { return m.Service.String() + "@" + m.Cluster.String() }

// Definition lists the members that make up a service of the local cluster.
type Definition struct {
	// Members are in order of precedence: an address that several of them offer
	// belongs to the first. No member is listed twice. A service that is not
	// federated has one member: itself, or the remote Service that it mirrors.
	// None means a mirror without the name of a remote Service.
	Members []Member
	// Federated: members that are not available (not linked, no such Service,
	// ExternalName) are skipped, and the service exists without them.
	Federated bool
	// Imported: it is the Service of a ServiceImport. That is for readers.
	Imported bool
	// Strict: a member has nothing at a port that its Service does not declare. Otherwise its endpoints are used with
	// the number that a client asks for.
	Strict bool
	// Preference is nil if clients get all endpoints, whatever their cluster and zone.
	Preference *Preference
}

// equal compares two definitions; nil means "not defined".
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

// plain reports whether the member is an ordinary service of the local cluster.
// That one is missing is not a fault of federation, so it is never reported.
func (d *Definition) plain(m Member) bool { return !d.Federated && m.Cluster == Local }

// MemberStatus is whether a member contributes endpoints, and if not, why.
type MemberStatus struct {
	Link    LinkState
	Service ServiceState // only meaningful while Link is Ready
	// Unreached: the Service is there, and no Linkerd gateway that leads to it can be used. Only
	// [Table.Unserved] sets it.
	Unreached bool
}

// Serving reports whether the member contributes the endpoints of its Service.
func (s MemberStatus) Serving() bool { return s.Link == Ready && s.Service == Present }

// String is why a member does not serve, in words for a log.
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

// Preference is which of a service's endpoints clients get, and when. The zero value
// prefers none: clients get all.
//
// It means the same on a Service with one member as on others, with one exception: there the
// terms other than zone name every cluster, so that a team may write the same on its own
// Service as on the federated one.
type Preference struct {
	// Tiers are best first. An endpoint belongs to the first that names it; one that
	// none names is not served. No tiers: one of all clusters.
	Tiers []Tier
	// MinReady is when a row of tiers suffices, so that the next are not needed.
	MinReady MinReady
	// ReturnAfter is for how long a row of tiers has to suffice without a break before
	// the tiers behind it are dropped, and ReturnOver how long dropping them takes.
	ReturnAfter, ReturnOver time.Duration
}

// String is the preference's tiers as users write them.
func (p *Preference) String() string { return p.firstTiers(max(len(p.Tiers), 1)) }

// firstTiers is the first n tiers in words.
func (p *Preference) firstTiers(n int) string {
	words := make([]string, n)
	for i := range words {
		words[i] = p.tierName(i)
	}
	return strings.Join(words, ", ")
}

// tierName is a tier in words. Behind the last one is that of clusters of last resort.
func (p *Preference) tierName(i int) string {
	switch {
	case i >= max(len(p.Tiers), 1):
		return LastResort.String()
	case len(p.Tiers) == 0:
		return TermWords[AnyCluster]
	}
	return p.Tiers[i].String()
}

// equal compares by content. Most services share one preference.
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

// Tier is a set of endpoints: those that any of its terms names.
type Tier []Term

// String is the tier as users write it.
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
	Cluster ClusterName // with Named
}

// String is the term as users write it.
func (t Term) String() string {
	switch {
	case t.Kind != Named:
		return TermWords[t.Kind]
	case slices.ContainsFunc(TermWords[:], func(w string) bool { return strings.EqualFold(w, string(t.Cluster)) }):
		return "cluster/" + string(t.Cluster)
	}
	return string(t.Cluster)
}

// TermKind is what a term names endpoints by.
type TermKind uint8

const (
	// AnyCluster names the endpoints of all clusters.
	AnyCluster TermKind = iota
	// ClientZone names those in the client's zone, of any cluster; none if it is not known.
	ClientZone
	// LocalCluster names those of the gateway's own cluster.
	LocalCluster
	// SameRegion names those of the own cluster, and of linked ones in its region.
	SameRegion
	// Remote names those of linked clusters.
	Remote
	// Named names those of the linked cluster Term.Cluster.
	Named
)

// TermWords are the words of all kinds but Named, as users write them.
var TermWords = [...]string{
	AnyCluster:   "any",
	ClientZone:   "zone",
	LocalCluster: "local",
	SameRegion:   "region",
	Remote:       "remote",
}

// MinReady is how many endpoints have to be ready: a number or, if Percent is not 0, a
// percentage of those known, which is one endpoint at least. The zero value is 1.
type MinReady struct {
	Count   int // at least 1; 0 means 1
	Percent int // 1 to 100; 0: Count applies
}

// String is the limit as users write it.
func (m MinReady) String() string {
	if m.Percent > 0 {
		return strconv.Itoa(m.Percent) + "%"
	}
	return strconv.Itoa(max(m.Count, 1))
}

// suffice reports whether so many ready endpoints, of so many known ones, are enough.
func (m MinReady) suffice(ready, known int) bool {
	if m.Percent > 0 {
		return ready > 0 && 100*ready >= m.Percent*known
	}
	return ready >= max(m.Count, 1)
}

package federation

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

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

// Tier is a set of endpoints: those that any of its terms names.
type Tier []Term

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
var TermWords = [...]string{AnyCluster: "any", ClientZone: "zone", LocalCluster: "local", SameRegion: "region", Remote: "remote"}

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

// String is the tier as users write it.
func (t Tier) String() string {
	words := make([]string, len(t))
	for i, term := range t {
		words[i] = term.String()
	}
	return strings.Join(words, "+")
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
	return p == o || p != nil && o != nil && p.MinReady == o.MinReady && p.ReturnAfter == o.ReturnAfter && p.ReturnOver == o.ReturnOver && sameTiers(p.Tiers, o.Tiers)
}

func sameTiers(a, b []Tier) bool {
	return slices.EqualFunc(a, b, func(x, y Tier) bool { return slices.Equal(x, y) })
}

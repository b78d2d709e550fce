package tierspec

import (
	"slices"
	"time"
)

// Preference is a service's.
type Preference struct {
	// Tiers are lists of terms, best first: zone, local, region, remote, any, or cluster/NAME. None: one of any.
	Tiers                   [][]string
	Count                   int // of endpoints that have to be ready; 0: 1
	Percent                 int // of those known that have to be ready; 0: Count applies
	ReturnAfter, ReturnOver time.Duration
}

// Explicit is what a term begins with that names a linked cluster.
const Explicit = "cluster/"

// Cluster is what distinguishes a cluster from others in terms.
type Cluster struct {
	Name   string // empty: the gateway's own
	Region bool   // it is known to be in the gateway's region, as the own one always is
}

// Names reports whether a term names endpoints of a cluster in a zone, for clients in a zone. An empty zone is not known.
func Names(term string, c Cluster, zone, clientZone string) bool {
	switch term {
	case "any":
		return true
	case "zone":
		return clientZone != "" && zone == clientZone
	case "local":
		return c.Name == ""
	case "remote":
		return c.Name != ""
	case "region":
		return c.Name == "" || c.Region
	}
	return c.Name != "" && term == Explicit+c.Name
}

// Tier returns the place of the first tier that names endpoints of a cluster in a zone, for clients in a zone; -1: none does.
// In a service that is not federated the terms other than zone name everything.
func (p *Preference) Tier(federated bool, c Cluster, zone, clientZone string) int {
	return slices.IndexFunc(p.tiers(), func(terms []string) bool {
		return slices.ContainsFunc(terms, func(term string) bool {
			return !federated && term != "zone" || Names(term, c, zone, clientZone)
		})
	})
}

// Zoned reports whether the client's zone is a term.
func (p *Preference) Zoned() bool {
	return slices.ContainsFunc(p.Tiers, func(terms []string) bool { return slices.Contains(terms, "zone") })
}

func (p *Preference) tiers() [][]string {
	if len(p.Tiers) == 0 {
		return [][]string{{"any"}}
	}
	return p.Tiers
}

// enough reports whether tiers suffice that have so many endpoints together.
func (p *Preference) enough(ready, known int) bool {
	if p.Percent > 0 {
		return ready > 0 && 100*ready >= p.Percent*known
	}
	return ready >= max(1, p.Count)
}

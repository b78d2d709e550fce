package tierspec

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
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

// Names reports whether a term names endpoints of a cluster in a zone, for clients in a zone. An empty zone is not
// known.
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

// Tier returns the place of the first tier that names endpoints of a cluster in a zone, for clients in a zone; -1:
// none does. In a service that is not federated the terms other than zone name everything.
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

// Annotations of a Service that make up its preference.
const (
	PreferKey      = "isthmus.io/prefer"
	MinReadyKey    = "isthmus.io/min-ready"
	ReturnAfterKey = "isthmus.io/return-after"
	ReturnOverKey  = "isthmus.io/return-over"
)

// Keys are the annotations that make up a preference.
var Keys = []string{PreferKey, MinReadyKey, ReturnAfterKey, ReturnOverKey}

// Limits of what an annotation may say.
const (
	MaxTiers       = 16
	MaxTerms       = 64 // in all tiers
	maxMinReady    = 100_000
	maxReturnAfter = time.Hour
	maxReturnOver  = 10 * time.Minute
)

// terms are those that do not name a cluster.
var terms = []string{"any", "zone", "local", "region", "remote"}

// clusterName is what the label with a linked cluster's name may have.
var clusterName = regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`)

// With returns the preference of a Service with these annotations, if p is the default. An annotation that is absent or
// cannot be read changes nothing.
func (p Preference) With(annotations map[string]string) Preference {
	if tiers, ok := readTiers(annotations[PreferKey]); ok {
		p.Tiers = tiers
	}
	if count, percent, ok := readMinReady(annotations[MinReadyKey]); ok {
		p.Count, p.Percent = count, percent
	}
	if d, ok := ReadDuration(annotations[ReturnAfterKey], maxReturnAfter); ok {
		p.ReturnAfter = d
	}
	if d, ok := ReadDuration(annotations[ReturnOverKey], maxReturnOver); ok {
		p.ReturnOver = d
	}
	return p
}

// readTiers reads tiers as a [Preference] has them. One tier of the term any is the same as no tiers.
func readTiers(text string) (tiers [][]string, ok bool) {
	var all []string
	for tier := range strings.SplitSeq(text, ",") {
		var list []string
		for word := range strings.SplitSeq(tier, "+") {
			term, ok := readTerm(strings.TrimSpace(word))
			if !ok || slices.Contains(all, term) {
				return nil, false
			}
			list, all = append(list, term), append(all, term)
		}
		tiers = append(tiers, list)
	}
	if slices.Equal(all, []string{"any"}) {
		return nil, true
	}
	return tiers, len(tiers) <= MaxTiers && len(all) <= MaxTerms
}

// readTerm reads one term. It returns the name of a cluster with the prefix [Explicit].
func readTerm(word string) (term string, ok bool) {
	for _, known := range terms {
		if strings.EqualFold(word, known) {
			return word, word == known
		}
	}
	name, explicit := strings.CutPrefix(word, Explicit)
	return Explicit + name, clusterName.MatchString(name) && !(explicit && name == "local")
}

func readMinReady(text string) (count, percent int, ok bool) {
	digits, isPercent := strings.CutSuffix(strings.TrimSpace(text), "%")
	n, err := strconv.ParseUint(strings.TrimSpace(digits), 10, 32)
	switch {
	case err != nil || n < 1 || n > maxMinReady || isPercent && n > 100:
		return 0, 0, false
	case isPercent:
		return 0, int(n), true
	}
	return int(n), 0, true
}

// ReadDuration reads a duration from zero to a limit.
func ReadDuration(text string, limit time.Duration) (time.Duration, bool) {
	d, err := time.ParseDuration(strings.TrimSpace(text))
	return d, err == nil && d >= 0 && d <= limit
}

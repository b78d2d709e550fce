package spec

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

type Preference struct {
	// Tiers lists the terms of each tier, from the best tier to the worst. A term is "zone",
	// "local", "region", "remote", "any" or "cluster/NAME". An empty list means one tier with the
	// term "any".
	Tiers                   [][]string
	Count                   int // number of endpoints that must be ready; zero means 1
	Percent                 int // percentage of all endpoints that must be ready; zero means that Count applies
	ReturnAfter, ReturnOver time.Duration
}

// Explicit is the prefix of a term that names a linked cluster. The name follows the prefix.
const Explicit = "cluster/"

// Cluster contains the properties of a cluster that determine which terms match it.
type Cluster struct {
	Name   string // empty for the local cluster
	Region bool   // whether it is known to be in the local cluster's region; always true for the local cluster
}

// Names reports whether, for clients in clientZone, a term matches the endpoints in the given zone
// of the given cluster. An empty zone means that the zone is unknown.
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

// Tier returns the index of the first tier that, for clients in clientZone, matches the endpoints
// in the given zone of the given cluster. If no tier matches, Tier returns -1. For a service that
// is not federated, every term except "zone" matches all endpoints.
func (p *Preference) Tier(federated bool, c Cluster, zone, clientZone string) int {
	return slices.IndexFunc(p.tiers(), func(terms []string) bool {
		return slices.ContainsFunc(terms, func(term string) bool {
			return !federated && term != "zone" || Names(term, c, zone, clientZone)
		})
	})
}

func (p *Preference) Zoned() bool {
	return slices.ContainsFunc(p.Tiers, func(terms []string) bool { return slices.Contains(terms, "zone") })
}

func (p *Preference) tiers() [][]string {
	if len(p.Tiers) == 0 {
		return [][]string{{"any"}}
	}
	return p.Tiers
}

// Preference.enough reports whether tiers with the given numbers of ready and known endpoints
// suffice. Known endpoints include unready endpoints.
func (p *Preference) enough(ready, known int) bool {
	if p.Percent > 0 {
		return ready > 0 && 100*ready >= p.Percent*known
	}
	return ready >= max(1, p.Count)
}

const (
	PreferKey      = "isthmus.io/prefer"
	MinReadyKey    = "isthmus.io/min-ready"
	ReturnAfterKey = "isthmus.io/return-after"
	ReturnOverKey  = "isthmus.io/return-over"
)

var Keys = []string{PreferKey, MinReadyKey, ReturnAfterKey, ReturnOverKey}

const (
	MaxTiers       = 16
	MaxTerms       = 64 // in all tiers together
	maxMinReady    = 100_000
	maxReturnAfter = time.Hour
	maxReturnOver  = 10 * time.Minute
)

var terms = []string{"any", "zone", "local", "region", "remote"}

// labelValue matches any valid label value. The names of linked clusters, regions and networks must
// also be valid label values.
var labelValue = regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`)

// With returns the preference of a Service with the given annotations. The receiver is the default
// preference, which applies if an annotation is absent or invalid.
func (p Preference) With(annotations map[string]string) Preference {
	if tiers, ok := readTiers(annotations[PreferKey]); ok {
		p.Tiers = tiers
	}
	if count, percent, ok := readMinReady(annotations[MinReadyKey]); ok {
		p.Count = count
		p.Percent = percent
	}
	if d, ok := ReadDuration(annotations[ReturnAfterKey], maxReturnAfter); ok {
		p.ReturnAfter = d
	}
	if d, ok := ReadDuration(annotations[ReturnOverKey], maxReturnOver); ok {
		p.ReturnOver = d
	}
	return p
}

// A single tier with the term "any" is equivalent to an empty list of tiers.
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

// readTerm parses one term. If the term is the name of a cluster, the result has the prefix
// [Explicit].
func readTerm(word string) (term string, ok bool) {
	for _, known := range terms {
		if strings.EqualFold(word, known) {
			return word, word == known
		}
	}
	name, explicit := strings.CutPrefix(word, Explicit)
	return Explicit + name, labelValue.MatchString(name) && !(explicit && name == "local")
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

// ReadDuration parses a duration, or returns false if the duration is malformed, is negative or
// exceeds the limit.
func ReadDuration(text string, limit time.Duration) (time.Duration, bool) {
	d, err := time.ParseDuration(strings.TrimSpace(text))
	return d, err == nil && d >= 0 && d <= limit
}

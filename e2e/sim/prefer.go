package sim

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// Annotations of a Service that make up its preference.
const (
	preferKey      = "isthmus.io/prefer"
	minReadyKey    = "isthmus.io/min-ready"
	returnAfterKey = "isthmus.io/return-after"
	returnOverKey  = "isthmus.io/return-over"
)

// preference is which endpoints of a Service clients get: what its annotations ask for or, where they are silent or can't be
// read, the gateway's flags.
type preference struct {
	tiers                   [][]string // of terms, best first
	count                   int        // of endpoints that have to be ready; 0: percent applies
	percent                 int
	returnAfter, returnOver time.Duration
}

// bounds of what can be read.
const (
	mostTiers       = 16
	mostTerms       = 64
	longestAfter    = time.Hour
	longestOver     = 10 * time.Minute
	explicitCluster = "cluster/"
)

// read returns the preference with what can be read of these annotations.
func (p preference) read(annotations map[string]string) preference {
	if tiers, ok := readTiers(annotations[preferKey]); ok {
		p.tiers = tiers
	}
	if count, percent, ok := readMinReady(annotations[minReadyKey]); ok {
		p.count, p.percent = count, percent
	}
	if d, ok := readDuration(annotations[returnAfterKey], 0, longestAfter); ok {
		p.returnAfter = d
	}
	if d, ok := readDuration(annotations[returnOverKey], 0, longestOver); ok {
		p.returnOver = d
	}
	return p
}

// readTiers writes the term of a cluster as cluster/NAME.
func readTiers(text string) (tiers [][]string, ok bool) {
	var all []string
	for tier := range strings.SplitSeq(text, ",") {
		var terms []string
		for term := range strings.SplitSeq(tier, "+") {
			term = strings.TrimSpace(term)
			if !slices.Contains([]string{"zone", "local", "region", "remote", "any"}, term) {
				term = explicitCluster + strings.TrimPrefix(term, explicitCluster)
			}
			if term == explicitCluster || slices.Contains(all, term) {
				return nil, false
			}
			terms, all = append(terms, term), append(all, term)
		}
		tiers = append(tiers, terms)
	}
	return tiers, len(tiers) <= mostTiers && len(all) <= mostTerms
}

func readMinReady(text string) (count, percent int, ok bool) {
	digits, isPercent := strings.CutSuffix(text, "%")
	n, err := strconv.Atoi(digits)
	if err != nil || n < 1 || isPercent && n > 100 {
		return 0, 0, false
	}
	if isPercent {
		return 0, n, true
	}
	return n, 0, true
}

func readDuration(text string, least, most time.Duration) (time.Duration, bool) {
	d, err := time.ParseDuration(text)
	return d, err == nil && d >= least && d <= most
}

// suffices reports whether a row of tiers is enough that has so many endpoints.
func (p *preference) suffices(ready, known int) bool {
	if p.percent > 0 {
		return ready > 0 && 100*ready >= p.percent*known
	}
	return ready >= p.count
}

// names reports whether a term names endpoints of a cluster in a zone, for clients in a zone.
func (w *world) names(term string, c *cluster, zone, clientZone string) bool {
	switch term {
	case "any":
		return true
	case "zone":
		return clientZone != "" && zone == clientZone
	case "local":
		return c.number == 0
	case "remote":
		return c.number != 0
	case "region":
		return c.number == 0 || c.region() != "" && c.region() == w.region()
	}
	return c.number != 0 && term == explicitCluster+c.name
}

// tier returns the first tier that names such an endpoint; -1: none does. In a Service of one member the terms but zone name
// everything.
func (w *world) tier(p *preference, single bool, c *cluster, zone, clientZone string) int {
	return slices.IndexFunc(p.tiers, func(terms []string) bool {
		return slices.ContainsFunc(terms, func(term string) bool {
			return single && term != "zone" || w.names(term, c, zone, clientZone)
		})
	})
}

// mayName reports whether the tier may have endpoints of a cluster that is away: its Nodes, and so its region, may have changed.
func (w *world) mayName(terms []string, c *cluster, single bool) bool {
	return slices.ContainsFunc(terms, func(term string) bool {
		return single || term == "zone" || term == "region" || w.names(term, c, "", "")
	})
}

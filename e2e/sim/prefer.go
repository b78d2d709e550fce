package sim

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"isthmus/internal/tierspec"
)

// Annotations of a Service that make up its preference.
const (
	preferKey      = "isthmus.io/prefer"
	minReadyKey    = "isthmus.io/min-ready"
	returnAfterKey = "isthmus.io/return-after"
	returnOverKey  = "isthmus.io/return-over"
)

// bounds of what can be read.
const (
	mostTiers    = 16
	mostTerms    = 64
	longestAfter = time.Hour
	longestOver  = 10 * time.Minute
)

// readPreference returns what a Service's annotations ask for or, where they are silent or can't be read, the gateway's flags.
func readPreference(p tierspec.Preference, annotations map[string]string) tierspec.Preference {
	if tiers, ok := readTiers(annotations[preferKey]); ok {
		p.Tiers = tiers
	}
	if count, percent, ok := readMinReady(annotations[minReadyKey]); ok {
		p.Count, p.Percent = count, percent
	}
	if d, ok := readDuration(annotations[returnAfterKey], 0, longestAfter); ok {
		p.ReturnAfter = d
	}
	if d, ok := readDuration(annotations[returnOverKey], 0, longestOver); ok {
		p.ReturnOver = d
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
				term = tierspec.Explicit + strings.TrimPrefix(term, tierspec.Explicit)
			}
			if term == tierspec.Explicit || slices.Contains(all, term) {
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

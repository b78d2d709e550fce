package tierspec

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

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

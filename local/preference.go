package local

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"isthmus/clusterstore/cluster"
	"isthmus/federation"
	"isthmus/internal/text"
)

const preferenceDomain = "isthmus.io/"

const (
	maxTiers    = 16
	maxTerms    = 64 // in all tiers
	maxMinReady = 100_000
)

// In a tier, users may write the prefix namedCluster before the name of a linked cluster. The
// prefix is necessary only if the name of the cluster is also a term, such as "remote".
const namedCluster = "cluster/"

// preferenceFields lists the fields of a preference. For example, the annotation isthmus.io/prefer
// and the flag --prefer set the field "prefer".
var preferenceFields = []struct {
	name string
	set  func(p *federation.Preference, value string) error
}{
	{"prefer", func(p *federation.Preference, value string) (err error) {
		p.Tiers, err = parseTiers(value)
		return err
	}},
	{"min-ready", func(p *federation.Preference, value string) (err error) {
		p.MinReady, err = parseMinReady(value)
		return err
	}},
	{"return-after", func(p *federation.Preference, value string) (err error) {
		p.ReturnAfter, err = parseReturn(value, time.Hour, "1h")
		return err
	}},
	{"return-over", func(p *federation.Preference, value string) (err error) {
		p.ReturnOver, err = parseReturn(value, 10*time.Minute, "10m")
		return err
	}},
}

// DefaultPreference returns the preference that applies if neither annotations nor flags specify
// one.
func DefaultPreference() federation.Preference {
	return federation.Preference{MinReady: federation.MinReady{Count: 1}, ReturnAfter: 10 * time.Second}
}

// SetPreference parses a value in the form that users write, and sets the field with the given name
// in p. The possible names are prefer, min-ready, return-after and return-over, as in annotations
// and flags. If the value is invalid, p stays unchanged, and the error describes the valid values.
func SetPreference(p *federation.Preference, name, value string) error {
	for _, f := range preferenceFields {
		if f.name == name {
			now := *p
			if err := f.set(&now, value); err != nil {
				return err
			}
			*p = now
			return nil
		}
	}
	return fmt.Errorf("%q is not a setting of a preference", name)
}

// preference returns a Service's preference. A setting whose annotation is missing or invalid has
// its default value. For a Service without annotations, the result is the default itself, not a
// copy.
func preference(svc *cluster.Service, gateway *federation.Preference) (p *federation.Preference, problems []string) {
	p = gateway
	for _, f := range preferenceFields {
		value, ok := svc.Annotations[preferenceDomain+f.name]
		if !ok {
			continue
		}
		if p == gateway {
			own := *gateway
			p = &own
		}
		if err := SetPreference(p, f.name, value); err != nil {
			problems = append(problems, fmt.Sprintf(
				"annotation %s%s: %v; the annotation is ignored", preferenceDomain, f.name, err,
			))
		}
	}
	return p, problems
}

// parseTiers parses comma-separated tiers in order of preference. Plus signs separate the terms of
// a tier. If "any" is the only term, parseTiers returns nil.
func parseTiers(value string) ([]federation.Tier, error) {
	if strings.TrimSpace(value) == "" {
		return nil, errors.New(
			`it is empty: write tiers, best first, such as "local, any", or "any" if all clusters are alike`,
		)
	}
	var tiers []federation.Tier
	seen := make(map[federation.Term]bool)
	for i, text := range strings.SplitN(value, ",", maxTiers+1) {
		if i == maxTiers {
			return nil, fmt.Errorf(
				"it has more than %d tiers: join equally preferred terms with +, as in east+north", maxTiers,
			)
		}
		if strings.TrimSpace(text) == "" {
			return nil, fmt.Errorf(
				`tier %d is empty: write at least one term between commas, such as "local, east+north"`, i+1,
			)
		}
		var tier federation.Tier
		for _, word := range strings.SplitN(text, "+", maxTerms+1) {
			term, err := parseTerm(strings.TrimSpace(word))
			switch {
			case err != nil:
				return nil, fmt.Errorf("tier %d: %w", i+1, err)
			case seen[term]:
				return nil, fmt.Errorf(
					"%s occurs twice: write each term once, because only the first occurrence has an effect",
					term,
				)
			case len(seen) == maxTerms:
				return nil, fmt.Errorf(
					"it has more than %d terms: remote names all linked clusters, and any names all clusters",
					maxTerms,
				)
			}
			seen[term] = true
			tier = append(tier, term)
		}
		tiers = append(tiers, tier)
	}
	if len(tiers) == 1 && len(seen) == 1 && seen[federation.Term{Kind: federation.AnyCluster}] {
		return nil, nil
	}
	return tiers, nil
}

func parseTerm(word string) (federation.Term, error) {
	for kind, w := range federation.TermWords {
		switch {
		case word == w:
			return federation.Term{Kind: federation.TermKind(kind)}, nil
		case strings.EqualFold(word, w):
			return federation.Term{}, fmt.Errorf(
				"%s differs from the term %s only in case: "+
					"write %[2]s or, for a linked cluster named %[1]s, %[3]s%[1]s",
				word,
				w,
				namedCluster,
			)
		}
	}
	name, explicit := strings.CutPrefix(word, namedCluster)
	switch {
	case word == "":
		return federation.Term{}, errors.New("a term is empty: join terms with a single +, such as east+north")
	case name == "":
		return federation.Term{}, fmt.Errorf(
			"%s is incomplete: append the name of a linked cluster, as in %[1]seast", namedCluster,
		)
	case explicit && name == federation.Local.String():
		return federation.Term{}, fmt.Errorf(
			"%s: %s always means the cluster that Isthmus runs in: write %[2]s without the prefix %s",
			word,
			name,
			namedCluster,
		)
	case !isClusterName(name):
		return federation.Term{}, fmt.Errorf(
			"%q is not zone, local, region, remote, any or the name of a cluster: "+
				"a cluster name consists of at most %d letters, digits, dashes, dots and underscores, "+
				"and begins and ends with a letter or digit",
			text.Truncate(word, text.Short),
			validation.LabelValueMaxLength,
		)
	}
	return federation.Term{Kind: federation.Named, Cluster: federation.ClusterName(name)}, nil
}

// isClusterName reports whether a name is valid for a linked cluster. Link Secrets store the name
// as the value of a label.
func isClusterName(name string) bool {
	return name != "" && len(name) <= validation.LabelValueMaxLength && len(validation.IsValidLabelValue(name)) == 0
}

func parseMinReady(value string) (federation.MinReady, error) {
	number, isPercentage := strings.CutSuffix(strings.TrimSpace(value), "%")
	largest := uint64(maxMinReady)
	if isPercentage {
		largest = 100
	}
	n, err := strconv.ParseUint(strings.TrimSpace(number), 10, 32)
	if err != nil || n < 1 || n > largest {
		return federation.MinReady{}, fmt.Errorf(
			"it is %q: write the number of endpoints that must be ready, from 1 to %d, "+
				"or a percentage from 1%% to 100%%",
			text.Truncate(value, text.Short),
			maxMinReady,
		)
	}
	if isPercentage {
		return federation.MinReady{Percent: int(n)}, nil
	}
	return federation.MinReady{Count: int(n)}, nil
}

// parseReturn parses a duration, and rejects durations above a maximum. The argument longestText is
// the maximum in the form used in error messages, such as "1h".
func parseReturn(value string, longest time.Duration, longestText string) (time.Duration, error) {
	d, err := time.ParseDuration(strings.TrimSpace(value))
	if err != nil || d < 0 || d > longest {
		return 0, fmt.Errorf(
			"it is %q: write a duration from 0s to %s, such as 30s or 2m",
			text.Truncate(value, text.Short),
			longestText,
		)
	}
	return d, nil
}

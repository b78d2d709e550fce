package plan

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"isthmus/internal/text"
)

const (
	exportsAnnotation       = "isthmus.io/exports"               // all, mirrors or none
	namespacesAnnotation    = "isthmus.io/export-namespaces"     // overrides LinkSettings.Allow
	excludeLabelsAnnotation = "isthmus.io/export-exclude-labels" // overrides LinkSettings.ExcludeLabels
)

// LinkSettings holds the settings for the exports of one cluster. For a linked cluster, annotations
// on the link Secret override the default settings.
type LinkSettings struct {
	Joins         Joins
	Allow         Patterns    // namespaces to which the cluster may export; unused for the local cluster
	ExcludeLabels KeyPatterns // keys of labels that are not copied, besides those that are never copied
}

// Read applies the annotations of a link Secret to a copy of the settings, and returns the copy
// with at most one warning per annotation. If an annotation is invalid, Joins is Unreadable.
func (s LinkSettings) Read(annotations map[string]string) (LinkSettings, []string) {
	var warnings []string
	read := func(annotation string, set func(value string) error) {
		value, ok := annotations[annotation]
		if !ok {
			return
		}
		if err := set(strings.TrimSpace(value)); err != nil {
			warnings = append(warnings, fmt.Sprintf(
				"annotation %s: %v; the objects written for the cluster's exports stay unchanged", annotation, err))
		}
	}
	read(exportsAnnotation, s.readJoins)
	read(namespacesAnnotation, s.readAllow)
	read(excludeLabelsAnnotation, s.readExcludeLabels)
	if len(warnings) > 0 {
		s.Joins = Unreadable // a typing error neither adds nor removes objects
	}
	return s, warnings
}

func (s *LinkSettings) readJoins(value string) error {
	i := slices.Index([]string{"all", "mirrors", "none"}, value)
	if i < 0 {
		const mostQuoted = 64
		quoted := fmt.Sprintf("%q", value)
		if len(value) > mostQuoted {
			quoted = fmt.Sprintf("%q…", value[:mostQuoted])
		}
		return fmt.Errorf("%s is not one of all, mirrors, none", quoted)
	}
	s.Joins = Joins(i)
	return nil
}

func (s *LinkSettings) readAllow(value string) error {
	allow, err := ParsePatterns(value)
	if err == nil {
		s.Allow = allow
	}
	return err
}

func (s *LinkSettings) readExcludeLabels(value string) error {
	exclude, err := ParseKeyPatterns(value)
	if err == nil {
		s.ExcludeLabels = exclude
	}
	return err
}

type Joins int

// The constants correspond to the values of the annotation isthmus.io/exports. Unreadable
// represents an invalid annotation.
const (
	JoinsAll   Joins = iota
	OnlyMirror       // no objects that have members of other clusters
	JoinsNone
	Unreadable // a setting of the link is invalid: nothing is added or removed
)

// The number of patterns is limited, because a link Secret may contain arbitrary text.
const (
	maxPatterns    = 256 // of namespaces, which people may also list one by one
	maxKeyPatterns = 64
	maxNamespace   = validation.DNS1123LabelMaxLength              // in bytes, of a pattern of namespaces
	maxKey         = validation.DNS1123SubdomainMaxLength + 1 + 63 // in bytes, of a label key and of a pattern of keys
)

// Patterns select the namespaces to which a link may export. A namespace is selected if it matches
// at least one pattern without a leading "!", and no pattern with a leading "!". The zero value
// selects no namespace.
type Patterns struct{ allow, deny []string }

// ParsePatterns parses a list such as "shop,team-*,!team-x". An asterisk matches any number of
// characters, and a question mark matches one character. An empty list selects no namespace.
func ParsePatterns(list string) (Patterns, error) {
	allow, deny, err := splitPatterns(list, maxPatterns, "namespaces", func(name, item string) error {
		if name != "" && len(name) <= maxNamespace &&
			strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-*?") == "" {
			return nil
		}
		return fmt.Errorf("%q is not a namespace pattern: "+
			"use patterns such as shop,team-*,!team-x, "+
			"where * matches any sequence of characters and ! excludes a name",
			text.Truncate(item, text.Short))
	})
	return Patterns{allow, deny}, err
}

// allows reports whether a link may export to a namespace. A pattern with a wildcard never allows a
// namespace whose name begins with kube-.
func (p Patterns) allows(namespace string) bool {
	system := strings.HasPrefix(namespace, "kube-")
	ok := false
	for _, one := range p.allow {
		ok = ok || one == namespace || !system && matches(one, namespace)
	}
	for _, one := range p.deny {
		ok = ok && !matches(one, namespace)
	}
	return ok
}

// KeyPatterns select the label keys that are not copied. A key is selected if it matches at least
// one pattern without a leading "!", and no pattern with a leading "!". The zero value selects no
// keys.
type KeyPatterns struct{ exclude, except []string }

// ParseKeyPatterns parses a list of label keys such as "example.com/*,tmp-*,!tmp-a". The wildcards
// work as in [ParsePatterns]. An empty list selects no keys.
func ParseKeyPatterns(list string) (KeyPatterns, error) {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./*?"
	exclude, except, err := splitPatterns(list, maxKeyPatterns, "keys", func(key, item string) error {
		if key != "" && len(key) <= maxKey && strings.Trim(key, letters) == "" && strings.Count(key, "/") <= 1 {
			return nil
		}
		return fmt.Errorf("%q is not a label key pattern: "+
			"use patterns such as example.com/*,tmp-*,!tmp-a, "+
			"where * matches any sequence of characters and ! marks an exception",
			text.Truncate(item, text.Short))
	})
	return KeyPatterns{exclude, except}, err
}

// match returns false for keys that are longer than the API accepts.
func (p KeyPatterns) match(key string) bool {
	matchesKey := func(pattern string) bool { return matches(pattern, key) }
	return len(key) <= maxKey && slices.ContainsFunc(p.exclude, matchesKey) &&
		!slices.ContainsFunc(p.except, matchesKey)
}

// splitPatterns splits a comma-separated list into patterns. Patterns with a leading "!" are
// returned separately, without the "!". For each item, the check function receives the pattern
// without the "!" and, for error messages, the whole item. If the check function rejects a pattern,
// or if the list has too many patterns, splitPatterns returns an error and no patterns.
func splitPatterns(
	list string,
	limit int,
	kind string,
	check func(pattern, item string) error,
) (plain, negated []string, err error) {
	for item := range strings.SplitSeq(list, ",") {
		item = strings.TrimSpace(item)
		if item == "" {
			continue
		}
		pattern, negative := strings.CutPrefix(item, "!")
		if err := check(pattern, item); err != nil {
			return nil, nil, err
		}
		if len(plain)+len(negated) == limit {
			return nil, nil, fmt.Errorf(
				"there are more than %d patterns: use * to match several %s with one pattern", limit, kind,
			)
		}
		if negative {
			negated = append(negated, pattern)
		} else {
			plain = append(plain, pattern)
		}
	}
	return plain, negated, nil
}

// matches reports whether a pattern matches a whole name. After the search has reached an asterisk,
// it never goes back to an earlier one, so a call compares at most len(pattern) * len(name) bytes.
func matches(pattern, name string) bool {
	star, resume := -1, 0 // the last * in the pattern, and where in the name its successor is tried next
	p, n := 0, 0
	for n < len(name) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, resume = p, n
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == name[n]):
			p++
			n++
		case star >= 0:
			resume++
			p, n = star+1, resume
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}

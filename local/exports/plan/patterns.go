package plan

import (
	"fmt"
	"path"
	"strings"

	"isthmus/internal/legible"
)

// Patterns choose the namespaces that a link may export to: those that one pattern matches and no excluding
// one does. The zero value allows none.
type Patterns struct{ allow, deny []string }

// ParsePatterns parses a list such as "shop,team-*,!team-x": names, in which * stands for any characters and ?
// for one. An empty list allows no namespace.
func ParsePatterns(list string) (Patterns, error) {
	var p Patterns
	for item := range strings.SplitSeq(list, ",") {
		item = strings.TrimSpace(item)
		if item == "" {
			continue
		}
		name, deny := strings.CutPrefix(item, "!")
		if strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-*?") != "" || name == "" {
			return Patterns{}, fmt.Errorf("%q is no pattern of namespaces: use their names, with * for any characters, and ! before what is left out, such as shop,team-*,!team-x", legible.Beginning(item, legible.Short))
		}
		if deny {
			p.deny = append(p.deny, name)
		} else {
			p.allow = append(p.allow, name)
		}
	}
	return p, nil
}

// allows reports whether a link may export to a namespace; kube-* only where a pattern is that very name.
func (p Patterns) allows(namespace string) bool {
	system, ok := strings.HasPrefix(namespace, "kube-"), false
	for _, one := range p.allow {
		ok = ok || one == namespace || !system && matches(one, namespace)
	}
	for _, one := range p.deny {
		ok = ok && !matches(one, namespace)
	}
	return ok
}

func matches(pattern, name string) bool {
	ok, err := path.Match(pattern, name)
	return ok && err == nil
}

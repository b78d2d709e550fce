package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"isthmus/internal/legible"
)

// maxPorts is how many ports a written object has at most.
const maxPorts = 100

// maxExportedPorts is how many ports of an exported Service are read.
const maxExportedPorts = 256

// offered are the ports of one part.
type offered struct {
	cluster string // empty: the own one
	ports   []Port
}

// problem returns why the API would refuse a port; empty: it would not.
func (p Port) problem() string {
	switch {
	case p.Number == 0:
		return "its number is 0"
	case p.Name != "" && (len(p.Name) > maxName || len(validation.IsDNS1123Label(p.Name)) > 0):
		return "its name is invalid"
	case p.Protocol != "TCP" && p.Protocol != "UDP" && p.Protocol != "SCTP":
		return "its protocol is unknown"
	case p.AppProtocol != "" && !validKey(p.AppProtocol):
		return "its appProtocol is invalid"
	case p.Target != "" && !validTarget(p.Target):
		return "its targetPort is invalid"
	}
	return ""
}

// validTarget reports whether a text is a number of a port, or the name of one.
func validTarget(s string) bool {
	if n, err := strconv.Atoi(s); err == nil {
		return len(validation.IsValidPortNum(n)) == 0
	}
	return len(s) <= maxName && len(validation.IsValidPortName(s)) == 0
}

// unite returns these ports, and then those of all parts, in order: of those with one name, or one protocol and number, the first.
// It returns what of the parts can't be used.
func unite(first []Port, parts []offered) (ports []Port, refused []string) {
	ports = slices.Clone(first)
	for _, part := range parts {
		for _, p := range part.ports {
			switch why := p.problem(); {
			case why != "":
				refused = append(refused, fmt.Sprintf("port %q of cluster %s: %s", legible.Beginning(p.Name, legible.Short), shown(part.cluster), why))
			case slices.ContainsFunc(ports, func(q Port) bool { return q.Name == p.Name || q.same(p) }):
			case len(ports) == maxPorts:
				refused = append(refused, fmt.Sprintf("port %q of cluster %s: there are %d ports already", legible.Beginning(p.Name, legible.Short), shown(part.cluster), maxPorts))
			default:
				ports = append(ports, p)
			}
		}
	}
	return ports, refused
}

// same reports whether two ports have one number.
func (p Port) same(q Port) bool { return p.Protocol == q.Protocol && p.Number == q.Number }

// named gives an unnamed port among several a name, which the API requires.
func named(ports []Port) []Port {
	if len(ports) < 2 {
		return ports
	}
	for i, p := range ports {
		if p.Name != "" {
			continue
		}
		base := fmt.Sprintf("%s-%d", strings.ToLower(p.Protocol), p.Number)
		name := base
		for n := 2; slices.ContainsFunc(ports, func(q Port) bool { return q.Name == name }); n++ {
			name = fmt.Sprintf("%s-%d", base, n)
		}
		ports[i].Name = name
	}
	return ports
}

// conflicts returns how parts differ about each port: which have another number or another name for it and, with joined, which do not
// have it.
func conflicts(ports []Port, parts []offered, joined bool) (all []string) {
	for _, p := range ports {
		if text := conflict(p, parts, joined); text != "" {
			all = append(all, text)
		}
	}
	return all
}

func conflict(p Port, parts []offered, joined bool) string {
	by := make(map[string][]string) // clusters, by what they have; empty: just this port
	for _, part := range parts {
		has := "no such port"
		for _, q := range part.ports {
			switch {
			case q.Name == p.Name && q.same(p) && q.AppProtocol == p.AppProtocol:
				has = ""
			case q.Name == p.Name:
				has = q.text()
			case q.same(p):
				has = "named " + quoted(q.Name)
			}
		}
		if has != "no such port" || joined {
			by[has] = append(by[has], shown(part.cluster))
		}
	}
	return differing("port "+cmp.Or(p.Name, "without a name"), p.text(), "", by)
}

// differing names the clusters that have another value than the one that is used; empty: none has.
func differing(what, text, used string, by map[string][]string) string {
	all := fmt.Sprintf("%s: %s (%s)", what, text, strings.Join(append(by[used], "used"), ", "))
	delete(by, used)
	for _, other := range sorted(by) {
		all += fmt.Sprintf(", %s (%s)", cmp.Or(other, "none"), strings.Join(by[other], ", "))
	}
	if len(by) == 0 {
		return ""
	}
	return all
}

// text is a port without its name.
func (p Port) text() string {
	text := strconv.Itoa(int(p.Number))
	if p.Protocol != "TCP" {
		text += "/" + quoted(p.Protocol, "UDP", "SCTP")
	}
	if p.AppProtocol != "" {
		text += " " + quoted(p.AppProtocol)
	}
	return text
}

// quoted is a text of another cluster in messages, unless it is one of these.
func quoted(text string, plain ...string) string {
	if slices.Contains(plain, text) {
		return text
	}
	return strconv.Quote(legible.Beginning(text, legible.Short))
}

// shown is a cluster's name in messages.
func shown(cluster string) string { return cmp.Or(cluster, "local") }

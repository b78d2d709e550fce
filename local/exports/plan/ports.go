package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"isthmus/internal/text"
)

const maxPorts = 100

// maxExportedPorts is the maximum number of ports that a plan reads from an exported Service.
const maxExportedPorts = 256

type Port struct {
	Name, Protocol, AppProtocol string
	Number                      uint16
	Target                      string // a number or a name; empty in a ServiceImport
}

// problem returns the reason why API servers would reject a port, or "" for a valid port.
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

func (p Port) number() portNumber { return portNumber{p.Protocol, p.Number} }

// untargeted returns the port without its target port, as it appears in a ServiceImport.
func (p Port) untargeted() Port {
	p.Target = ""
	return p
}

// unnamed returns a copy of the port with the target port removed. If the port's name may have been
// generated, the name is also removed from the copy.
func (p Port) unnamed() Port {
	if name := p.madeUpName(); p.Name == name || strings.HasPrefix(p.Name, name+"-") {
		p.Name = ""
	}
	return p.untargeted()
}

func (p Port) madeUpName() string { return fmt.Sprintf("%s-%d", strings.ToLower(p.Protocol), p.Number) }

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

func validTarget(s string) bool {
	if n, err := strconv.Atoi(s); err == nil {
		return len(validation.IsValidPortNum(n)) == 0
	}
	return len(s) <= maxName && len(validation.IsValidPortName(s)) == 0
}

// No two ports in an object have the same portNumber.
type portNumber struct {
	protocol string
	number   uint16
}

// portIndex finds the ports in a list by name and by number. If several ports have the same name or
// number, the index returns the first port.
type portIndex struct {
	ports    []Port
	byName   map[string]int // positions; nil while the list is short
	byNumber map[portNumber]int
}

// shortList is the maximum length of a list that an index searches linearly.
const shortList = 8

func indexPorts(ports []Port) *portIndex {
	x := new(portIndex)
	if len(ports) <= shortList {
		x.ports = ports
		return x
	}
	for _, p := range ports {
		x.add(p)
	}
	return x
}

func (x *portIndex) add(p Port) {
	x.ports = append(x.ports, p)
	switch n := len(x.ports); {
	case n < shortList+1:
	case n == shortList+1:
		x.byName = make(map[string]int)
		x.byNumber = make(map[portNumber]int)
		for i := range x.ports {
			x.record(i)
		}
	default:
		x.record(n - 1)
	}
}

func (x *portIndex) record(i int) {
	p := x.ports[i]
	if _, ok := x.byName[p.Name]; !ok {
		x.byName[p.Name] = i
	}
	if _, ok := x.byNumber[p.number()]; !ok {
		x.byNumber[p.number()] = i
	}
}

func (x *portIndex) named(name string) (Port, bool) {
	if x.byName != nil {
		i, ok := x.byName[name]
		return x.at(i, ok), ok
	}
	i := slices.IndexFunc(x.ports, func(p Port) bool { return p.Name == name })
	return x.at(i, i >= 0), i >= 0
}

func (x *portIndex) numbered(n portNumber) (Port, bool) {
	if x.byNumber != nil {
		i, ok := x.byNumber[n]
		return x.at(i, ok), ok
	}
	i := slices.IndexFunc(x.ports, func(p Port) bool { return p.number() == n })
	return x.at(i, i >= 0), i >= 0
}

func (x *portIndex) at(i int, ok bool) Port {
	if !ok {
		return Port{}
	}
	return x.ports[i]
}

// The result is true if the list contains p. If the name of p may have been generated, an unnamed
// but otherwise equal port in the list also matches.
func (x *portIndex) has(p Port) bool {
	q, ok := x.numbered(p.number())
	return ok && (q.untargeted() == p.untargeted() || q.Name == "" && q.untargeted() == p.unnamed())
}

// hasUnnamed reports whether the name of p may have been generated for an unnamed port in the list.
func (x *portIndex) hasUnnamed(p Port) bool {
	q, ok := x.numbered(p.number())
	return ok && q.Name == "" && q.untargeted() == p.unnamed()
}

// rivals returns the valid ports in the list that conflict with p because they have the same name
// or number. If the list contains p, the result is empty. The second argument must be true if p has
// no name in its export.
func (x *portIndex) rivals(p Port, unnamed bool) (all []Port) {
	if x.has(p) {
		return nil
	}
	add := func(q Port, ok bool) {
		if ok && q.problem() == "" {
			all = append(all, q)
		}
	}
	add(x.named(p.Name))
	add(x.numbered(p.number()))
	if unnamed {
		add(x.named(""))
	}
	return all
}

func (x *portIndex) taking(p Port) (all []Port) {
	if q, ok := x.named(p.Name); ok {
		all = append(all, q)
	}
	if q, ok := x.numbered(p.number()); ok {
		all = append(all, q)
	}
	return all
}

// portList holds the ports of one member, or the existing ports that are kept for members whose
// exports are unknown.
type portList struct {
	cluster string // empty for the local cluster
	ports   []Port
	kept    bool // these are existing ports
	unnamed bool // if kept: one of the ports has no name in its export
}

// unite merges the ports of all lists, in order. A port is skipped if an earlier port has the same
// name, or the same protocol and number. The second result describes the unusable ports. If there
// are more than maxPorts ports, the ports of earlier members take precedence over the ports of
// later members.
func unite(lists []portList) (ports []Port, refused []string) {
	var all portIndex
	var clusters []string // parallel to the ports of all
	unnamed := false
	for _, list := range lists {
		for _, p := range list.ports {
			if !list.kept {
				if why := p.problem(); why != "" {
					name := text.Truncate(p.Name, text.Short)
					refused = append(refused, fmt.Sprintf(
						"port %q of cluster %s: %s", name, displayName(list.cluster), why,
					))
					continue
				}
			}
			_, name := all.named(p.Name)
			_, number := all.numbered(p.number())
			if name || number || unnamed && p.Name == "" {
				continue
			}
			all.add(p)
			clusters = append(clusters, list.cluster)
		}
		unnamed = unnamed || list.unnamed
	}
	if len(all.ports) <= maxPorts {
		return all.ports, refused
	}
	fits := fitting(all.ports, lists)
	for i, p := range all.ports {
		if fits[i] {
			ports = append(ports, p)
		} else {
			name := text.Truncate(p.Name, text.Short)
			refused = append(refused, fmt.Sprintf(
				"port %q of cluster %s is left out: the maximum of %d ports has been reached",
				name, displayName(clusters[i]), maxPorts))
		}
	}
	return ports, refused
}

// fitting selects maxPorts of the given ports, and reports for each port whether the port is
// selected. The ports of earlier members take precedence over the ports of later members. If the
// first list belongs to a member, only this member's ports take precedence over ports that no known
// export contains. If the first list consists of existing ports, the ports that no known export
// contains take precedence over all other ports.
func fitting(ports []Port, lists []portList) []bool {
	ranks := make(map[Port]int)
	const unknown = 1 // rank of ports that are missing from all known exports: between the first two lists
	for i, list := range lists {
		if list.kept {
			continue
		}
		for _, p := range list.ports {
			if _, ranked := ranks[p.untargeted()]; !ranked {
				ranks[p.untargeted()] = 2 * i
			}
		}
	}
	rank := func(i int) int {
		for _, p := range []Port{ports[i].untargeted(), ports[i].unnamed()} {
			if r, ok := ranks[p]; ok {
				return r
			}
		}
		return unknown
	}
	order := make([]int, len(ports))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return rank(a) - rank(b) })
	fits := make([]bool, len(ports))
	for _, i := range order[:maxPorts] {
		fits[i] = true
	}
	return fits
}

// If there are several ports, unnamed ports get generated names, because the API requires names in
// that case.
func named(ports []Port) []Port {
	if len(ports) < 2 {
		return ports
	}
	taken := make(map[string]bool)
	for _, p := range ports {
		taken[p.Name] = true
	}
	for i, p := range ports {
		if p.Name != "" {
			continue
		}
		name := p.madeUpName()
		for n := 2; taken[name]; n++ {
			name = fmt.Sprintf("%s-%d", p.madeUpName(), n)
		}
		ports[i].Name = name
		taken[name] = true
	}
	return ports
}

// For each given port, portConflicts describes the members that have a different port with the same
// name or number. If joined is true, portConflicts also describes the members that do not have the
// port.
func portConflicts(ports []Port, members []*member, joined bool) (all []string) {
	for _, p := range ports {
		if text := portConflict(p, members, joined); text != "" {
			all = append(all, text)
		}
	}
	return all
}

func portConflict(p Port, members []*member, joined bool) string {
	by := make(map[string][]string) // clusters by their difference; empty if they have exactly this port
	for _, m := range members {
		has := "no such port"
		ports := m.ports()
		ofName, name := ports.named(p.Name)
		ofNumber, number := ports.numbered(p.number())
		switch {
		case ports.has(p):
			has = ""
		case name:
			has = ofName.text()
		case number:
			has = "named " + quoted(ofNumber.Name)
		}
		if has != "no such port" || joined {
			by[has] = append(by[has], displayName(m.cluster))
		}
	}
	return differing("port "+cmp.Or(p.Name, "without a name"), p.text(), "", by)
}

// The message lists the value in use and the clusters with different values. If all clusters have
// the same value, the message is empty.
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

// quoted prepares a string from another cluster for a message, by truncating it and adding
// quotation marks. The plain strings stay unchanged.
func quoted(value string, plain ...string) string {
	if slices.Contains(plain, value) {
		return value
	}
	return strconv.Quote(text.Truncate(value, text.Short))
}

func displayName(cluster string) string { return cmp.Or(cluster, "local") }

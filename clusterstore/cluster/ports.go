package cluster

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"

	"isthmus/internal/text"
)

// Ports is an immutable set of port numbers. The zero value is the empty set. Sets with the same
// ports are equal when compared with ==.
type Ports struct {
	// ranges contains four bytes for each range: the first and the last port, both big-endian.
	// Encoding sets as strings makes the sets comparable, so that Pods with equal sets can share
	// memory.
	ranges string
}

func (p Ports) Contains(port uint16) bool {
	i := 4 * sort.Search(len(p.ranges)/4, func(i int) bool {
		_, to := bounds(p.ranges[4*i:])
		return port <= to
	})
	if i == len(p.ranges) {
		return false
	}
	from, _ := bounds(p.ranges[i:])
	return from <= port
}

func (p Ports) appendTo(list []portRange) []portRange {
	for r := p.ranges; len(r) >= 4; r = r[4:] {
		from, to := bounds(r)
		list = append(list, portRange{from, to})
	}
	return list
}

func (p Ports) String() string {
	var b strings.Builder
	for r := p.ranges; len(r) >= 4; r = r[4:] {
		from, to := bounds(r)
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(int(from)))
		if to != from {
			b.WriteString("-" + strconv.Itoa(int(to)))
		}
	}
	return b.String()
}

// formatDistinct formats the set as a list that ParsePorts accepts. If a port number or range in
// the list is also the name of a port, formatDistinct adds leading zeros, so that ParsePorts does
// not take the number or range for the name.
func (p Ports) formatDistinct(named map[string]uint16) string {
	items := strings.Split(p.String(), ",")
	for i := range items {
		for _, isName := named[items[i]]; isName; _, isName = named[items[i]] {
			items[i] = "0" + items[i]
		}
	}
	return strings.Join(items, ",")
}

func bounds(r string) (from, to uint16) {
	return uint16(r[0])<<8 | uint16(r[1]), uint16(r[2])<<8 | uint16(r[3])
}

// ParsePorts parses a comma-separated list of ports, ranges and names, such as
// "25,3306,80-90,http". Because a name may look like a range, each item is first looked up in the
// map of named ports. A trailing comma is allowed, and so are spaces around items.
//
// If the list contains invalid items, ParsePorts returns the set of all valid items, and an error.
// The error lists the first ten invalid items.
func ParsePorts(list string, named map[string]uint16) (Ports, error) {
	list = strings.TrimSuffix(strings.TrimSpace(list), ",")
	if list == "" {
		return Ports{}, nil
	}
	var found []portRange
	var errs []error
	for item := range strings.SplitSeq(list, ",") {
		item = strings.TrimSpace(item)
		from, ok := named[item]
		to := from
		if !ok {
			from, to, ok = parseRange(item)
		}
		switch {
		case ok:
			found = append(found, portRange{from, to})
		case len(errs) < maxNamed:
			errs = append(errs, fmt.Errorf("%q is not a port or a range of ports", text.Truncate(item, text.Short)))
		}
	}
	return newPorts(found), errors.Join(errs...)
}

const maxNamed = 10

type portRange struct{ from, to uint16 }

// newPorts sorts the ranges and merges adjacent ranges, so that sets with the same ports are equal
// and lookups are fast.
func newPorts(list []portRange) Ports {
	slices.SortFunc(list, func(a, b portRange) int { return cmp.Compare(a.from, b.from) })
	var ranges []byte
	for i := 0; i < len(list); {
		r := list[i]
		for i++; i < len(list) && int(list[i].from) <= int(r.to)+1; i++ {
			r.to = max(r.to, list[i].to)
		}
		ranges = append(ranges, byte(r.from>>8), byte(r.from), byte(r.to>>8), byte(r.to))
	}
	return Ports{string(ranges)}
}

func parseRange(item string) (from, to uint16, ok bool) {
	first, last, isRange := strings.Cut(item, "-")
	if !isRange {
		last = first
	}
	from, okFrom := parsePort(first)
	to, okTo := parsePort(last)
	return from, to, okFrom && okTo && from <= to
}

// parsePort parses a port number that consists only of digits, without a sign or spaces.
func parsePort(s string) (uint16, bool) {
	n, err := strconv.ParseUint(s, 10, 16)
	return uint16(n), err == nil
}

// namedPorts contains the named TCP ports of an object, for Servers that refer to a port by name.
// Each port is encoded as its name, followed by labelEnd and by the port number in big-endian byte
// order. The encoded ports are in no particular order, and several ports may have the same name.
// Encoding the ports as a string makes namedPorts comparable, so that objects with the same ports
// can share memory.
type namedPorts string

// If the encoded named ports of an object exceed maxNamedPorts bytes, further ports of the object
// are ignored.
const maxNamedPorts = 16 << 10

// appendPort ignores ports without a name or with an invalid number.
func appendPort(ports []byte, name string, number int32) []byte {
	n, ok := portNumber(&number)
	if len(ports) > maxNamedPorts || name == "" || !ok || strings.Contains(name, labelEnd) {
		return ports
	}
	return append(append(append(ports, name...), labelEnd...), byte(n>>8), byte(n))
}

func (p namedPorts) all(yield func(name string, port uint16) bool) {
	for rest := string(p); rest != ""; {
		var name string
		name, rest, _ = strings.Cut(rest, labelEnd)
		if !yield(name, uint16(rest[0])<<8|uint16(rest[1])) {
			return
		}
		rest = rest[2:]
	}
}

func (p namedPorts) number(name string) (uint16, bool) {
	for n, number := range p.all {
		if n == name {
			return number, true
		}
	}
	return 0, false
}

// If several ports have the same name, the result contains the first of these ports.
func (p namedPorts) numbers() map[string]uint16 {
	numbers := make(map[string]uint16)
	for name, number := range p.all {
		if _, ok := numbers[name]; !ok {
			numbers[name] = number
		}
	}
	return numbers
}

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

// Ports is an immutable set of port numbers. Its zero value is empty. Sets of the
// same ports are equal.
type Ports struct {
	// ranges has four bytes for each range, first and last port, big-endian: so the
	// set is comparable, and pods with equal ones share it.
	ranges string
}

// Contains reports whether the port is in the set.
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

// appendTo appends the ranges of the set.
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

func bounds(r string) (from, to uint16) {
	return uint16(r[0])<<8 | uint16(r[1]), uint16(r[2])<<8 | uint16(r[3])
}

// ParsePorts reads a comma-separated list of ports and ranges ("25,3306,80-90")
// and of the names in named, which are looked up first: a name may look like a range.
// Blanks around items and one comma at the end are allowed.
//
// Items that can't be read are left out, and the error lists the first ten. The set has
// the others, with an error too.
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

// maxNamed is how many items that can't be read an error lists.
const maxNamed = 10

type portRange struct{ from, to uint16 }

// newPorts makes a set of ranges. It sorts them, and merges those that touch: so sets
// of the same ports are equal, and lookups fast.
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

// parsePort reads a port number. Digits only: no sign, no blanks.
func parsePort(s string) (uint16, bool) {
	n, err := strconv.ParseUint(s, 10, 16)
	return uint16(n), err == nil
}

// namedPorts are the TCP ports with names, for Servers that have a port by name: each name,
// labelEnd, and the number, big-endian. They are in no special order, and a name may
// have several numbers. As a string they can be compared and shared.
type namedPorts string

// maxNamedPorts is the largest size of the named ports of one object, in bytes.
const maxNamedPorts = 16 << 10

// appendPort appends a port to the bytes of namedPorts. One without name, or with an
// invalid number, is left out.
func appendPort(ports []byte, name string, number int32) []byte {
	n, ok := portNumber(&number)
	if len(ports) > maxNamedPorts || name == "" || !ok || strings.Contains(name, labelEnd) {
		return ports
	}
	return append(append(append(ports, name...), labelEnd...), byte(n>>8), byte(n))
}

// all iterates over the ports and their names.
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

// number returns the first port with the name.
func (p namedPorts) number(name string) (uint16, bool) {
	for n, number := range p.all {
		if n == name {
			return number, true
		}
	}
	return 0, false
}

// numbers returns the first port with each name.
func (p namedPorts) numbers() map[string]uint16 {
	numbers := make(map[string]uint16)
	for name, number := range p.all {
		if _, ok := numbers[name]; !ok {
			numbers[name] = number
		}
	}
	return numbers
}

package clusterstore

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Ports is an immutable set of port numbers. Its zero value is empty. Sets made
// from the same list are equal.
type Ports struct {
	// ranges holds four bytes a range, first and last port, big-endian: that
	// makes the set comparable, and lets pods that say the same share it.
	ranges string
}

// Contains tells whether the port is in the set.
func (p Ports) Contains(port uint16) bool {
	for r := p.ranges; len(r) >= 4; r = r[4:] {
		if from, to := bounds(r); from <= port && port <= to {
			return true
		}
	}
	return false
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
// and, where named is not nil, of names, which are looked for first: a name may
// look like a range. Blanks around items and one comma at the end are allowed.
//
// Items that can't be read are left out and named by the error; the set is good
// in any case.
func ParsePorts(list string, named func(name string) (uint16, bool)) (Ports, error) {
	list = strings.TrimSuffix(strings.TrimSpace(list), ",")
	if list == "" {
		return Ports{}, nil
	}
	var ranges []byte
	var errs []error
	for item := range strings.SplitSeq(list, ",") {
		item = strings.TrimSpace(item)
		from, to, ok := uint16(0), uint16(0), false
		if named != nil {
			from, ok = named(item)
			to = from
		}
		if !ok {
			from, to, ok = parseRange(item)
		}
		if !ok {
			errs = append(errs, fmt.Errorf("%q is no port and no range of ports", item))
			continue
		}
		ranges = append(ranges, byte(from>>8), byte(from), byte(to>>8), byte(to))
	}
	return Ports{string(ranges)}, errors.Join(errs...)
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

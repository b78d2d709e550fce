package cluster

import (
	"strings"
)

// namedPorts are ports that have names, for Servers that go by those, in no special order: each name, ended by
// labelEnd, and the number, big-endian. A name may have several numbers.
type namedPorts string

// maxNamedPorts bounds the named ports of one object, in bytes: each is looked at
// for every Server.
const maxNamedPorts = 16 << 10

// appendPort adds one to named ports in the making. Those without name and
// impossible numbers are left out.
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

// has tells whether a port has the name.
func (p namedPorts) has(name string, port uint16) bool {
	for n, number := range p.all {
		if n == name && number == port {
			return true
		}
	}
	return false
}

// number is the first of the name.
func (p namedPorts) number(name string) (uint16, bool) {
	for n, number := range p.all {
		if n == name {
			return number, true
		}
	}
	return 0, false
}

// numbers are the first of each name.
func (p namedPorts) numbers() map[string]uint16 {
	numbers := make(map[string]uint16)
	for name, number := range p.all {
		if _, ok := numbers[name]; !ok {
			numbers[name] = number
		}
	}
	return numbers
}

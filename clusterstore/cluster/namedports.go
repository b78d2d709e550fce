package cluster

import "strings"

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

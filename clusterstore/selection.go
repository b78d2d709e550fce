package clusterstore

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"isthmus/clusterstore/crd"
)

// What a Server may go by when it selects Pods and ExternalWorkloads and their
// ports. It is held as strings, since those can be compared and shared.

// labelSet is a set of labels. Selectors can be matched against it as it is.
//
// A value that several keys have stands there once: a Job's Pods have its name and
// its UID twice, and no other Pod has them. So each key, ended by labelEnd, begins
// with ownValue or, if it has the value of the key before it, with sameValue. The
// values are in the order of the keys, each ended by labelEnd.
type labelSet struct{ keys, values string }

const (
	labelEnd  = "\x00"
	ownValue  = "+"
	sameValue = "="
)

func newLabelSet(from map[string]string) labelSet {
	var room [16]label
	all, ofKeys, ofValues := appendByValue(room[:0], from), 0, 0
	for _, l := range all {
		ofKeys += len(ownValue) + len(l.key) + len(labelEnd)
		ofValues += len(l.value) + len(labelEnd)
	}
	var keys, values strings.Builder
	keys.Grow(ofKeys)
	values.Grow(ofValues)
	for _, l := range all {
		if l.key == l.first {
			keys.WriteString(ownValue)
			values.WriteString(l.value)
			values.WriteString(labelEnd)
		} else {
			keys.WriteString(sameValue)
		}
		keys.WriteString(l.key)
		keys.WriteString(labelEnd)
	}
	return labelSet{keys.String(), values.String()}
}

// label is one of an object; first is the first key that has its value.
type label struct{ first, key, value string }

// appendByValue appends labels to an empty list: those of one value side by side,
// and else in the order of their keys.
func appendByValue(all []label, from map[string]string) []label {
	for key, value := range from {
		all = append(all, label{first: key, key: key, value: value})
	}
	slices.SortFunc(all, func(a, b label) int {
		return cmp.Or(cmp.Compare(a.value, b.value), cmp.Compare(a.key, b.key))
	})
	for i := range all {
		if i > 0 && all[i].value == all[i-1].value {
			all[i].first = all[i-1].first
		}
	}
	slices.SortFunc(all, func(a, b label) int {
		return cmp.Or(cmp.Compare(a.first, b.first), cmp.Compare(a.key, b.key))
	})
	return all
}

// Lookup, Has and Get are what selectors ask.
func (s *labelSet) Lookup(label string) (value string, exists bool) {
	for keys, values := s.keys, s.values; keys != ""; {
		var key string
		key, keys, _ = strings.Cut(keys, labelEnd)
		key, same := strings.CutPrefix(key, sameValue)
		if !same {
			key = strings.TrimPrefix(key, ownValue)
			value, values, _ = strings.Cut(values, labelEnd)
		}
		if key == label {
			return value, true
		}
	}
	return "", false
}

func (s *labelSet) Has(label string) bool {
	_, ok := s.Lookup(label)
	return ok
}

func (s *labelSet) Get(label string) string {
	value, _ := s.Lookup(label)
	return value
}

// namedPorts are ports that have names, in no special order: each name, ended by
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

// containerPorts are the named ports of a Pod's containers, and those of its node
// that lead to them.
func containerPorts(spec *corev1.PodSpec) namedPorts {
	var ports []byte
	for c := range containers(spec) {
		for _, p := range c.Ports {
			ports = appendPort(ports, p.Name, p.ContainerPort)
			ports = appendPort(ports, p.Name, p.HostPort)
		}
	}
	return namedPorts(ports)
}

func workloadPorts(spec *crd.ExternalWorkloadSpec) namedPorts {
	var ports []byte
	for _, p := range spec.Ports {
		ports = appendPort(ports, p.Name, p.Port)
	}
	return namedPorts(ports)
}

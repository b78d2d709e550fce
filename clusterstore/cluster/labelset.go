package cluster

import (
	"slices"
	"strings"
)

// labelSet is a set of labels that selectors can be matched against. It is encoded as
// strings, which can be compared and shared: the keys in order, apart from the values,
// since Pods of many workloads have the same keys; each is followed by labelEnd.
type labelSet struct{ keys, values string }

// labelEnd can't be in a key or a value, of which API servers accept letters, digits,
// "-", "_", "." and "/". What a server sends with it garbles that object's labels only.
const labelEnd = "\x00"

func newLabelSet(from map[string]string) labelSet {
	var room [16]string
	names, ofKeys, ofValues := room[:0], 0, 0
	for key, value := range from {
		names, ofKeys, ofValues = append(names, key), ofKeys+len(key)+len(labelEnd), ofValues+len(value)+len(labelEnd)
	}
	slices.Sort(names)
	var keys, values strings.Builder
	keys.Grow(ofKeys)
	values.Grow(ofValues)
	for _, key := range names {
		keys.WriteString(key)
		keys.WriteString(labelEnd)
		values.WriteString(from[key])
		values.WriteString(labelEnd)
	}
	return labelSet{keys.String(), values.String()}
}

// Lookup, Has and Get implement labels.Labels, which selectors read.
func (s *labelSet) Lookup(label string) (value string, exists bool) {
	for keys, values := s.keys, s.values; keys != ""; {
		var key string
		key, keys, _ = strings.Cut(keys, labelEnd)
		value, values, _ = strings.Cut(values, labelEnd)
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

package cluster

import (
	"cmp"
	"slices"
	"strings"
)

// labelSet is a set of labels. It is encoded as strings, which can be compared and
// shared: the keys in order, apart from the values, since Pods of many workloads have
// the same keys; each is followed by labelEnd. The first is templateHashLabel, if it is
// there: endpoints have it, and objects may have tens of thousands of labels.
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
	slices.SortFunc(names, compareLabels)
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

// compareLabels orders the keys of labels.
func compareLabels(a, b string) int {
	switch {
	case a == b:
		return 0
	case a == templateHashLabel:
		return -1
	case b == templateHashLabel:
		return 1
	}
	return cmp.Compare(a, b)
}

// all iterates over the labels.
func (s *labelSet) all(yield func(key, value string) bool) {
	for keys, values := s.keys, s.values; keys != ""; {
		var key, value string
		key, keys, _ = strings.Cut(keys, labelEnd)
		value, values, _ = strings.Cut(values, labelEnd)
		if !yield(key, value) {
			return
		}
	}
}

// templateHash returns the value of templateHashLabel. It looks at one label only.
func (s *labelSet) templateHash() (value string, exists bool) {
	if !strings.HasPrefix(s.keys, templateHashLabel+labelEnd) {
		return "", false
	}
	value, _, _ = strings.Cut(s.values, labelEnd)
	return value, true
}

package cluster

import (
	"cmp"
	"slices"
	"strings"
)

// labelSet is a set of labels that selectors can be matched against. It is encoded as
// strings, which can be compared and shared.
//
// A value that several keys have is stored once: a Job's Pods have its name and its UID
// twice, and no other Pod has them. So each key begins with ownValue or, if it has the
// value of the key before it, with sameValue, and ends with labelEnd. The values are in
// the order of the keys, each followed by labelEnd.
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

// label is one label of an object. first is the first key that has its value.
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

// Lookup, Has and Get implement labels.Labels, which selectors read.
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

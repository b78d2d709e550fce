package cluster

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/selection"

	"isthmus/clusterstore/kube"
)

// selector is a label selector, read once: k8s.io/apimachinery checks it and makes
// requirements of it, and matcher evaluates it. It is immutable; nil selects nothing.
type selector struct {
	requirements []requirement
	size         int // of keys and values
}

// requirement is a condition that labels must meet.
type requirement struct {
	key    string
	values []string // sorted; nil: any
	absent bool     // there must be no label with the key and one of the values
}

// maxSelectorSize is how many keys and values a selector may have.
const maxSelectorSize = 500

func readSelector(s *metav1.LabelSelector) (*selector, error) {
	if s == nil {
		return nil, nil
	}
	size := len(s.MatchLabels) + len(s.MatchExpressions)
	for i := range s.MatchExpressions {
		size += len(s.MatchExpressions[i].Values)
	}
	if size > maxSelectorSize { // an error would list them all
		return nil, fmt.Errorf("the selector has %d keys and values, more than %d", size, maxSelectorSize)
	}
	checked, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return nil, kube.Printable(err)
	}
	requirements, _ := checked.Requirements() // a selector that selects nothing is nil here
	made := &selector{size: size}
	for i := range requirements {
		r := &requirements[i]
		t := requirement{key: r.Key(), absent: r.Operator() == selection.NotIn || r.Operator() == selection.DoesNotExist}
		if r.Operator() != selection.Exists && r.Operator() != selection.DoesNotExist {
			t.values = r.ValuesUnsorted()
			slices.Sort(t.values)
		}
		made.requirements = append(made.requirements, t)
	}
	return made, nil
}

// matches reports whether the label with its key meets it.
func (t *requirement) matches(value string, exists bool) bool {
	if exists && t.values != nil {
		_, exists = slices.BinarySearch(t.values, value)
	}
	return exists != t.absent
}

// vocabulary numbers the keys that selectors have. Labels with other keys don't matter.
type vocabulary map[string]int

func (v vocabulary) add(key string) int {
	n, ok := v[key]
	if !ok {
		n = len(v)
		v[key] = n
	}
	return n
}

// objectLabels are the labels of one object whose keys are in the vocabulary, by number.
type objectLabels struct {
	of     vocabulary
	labels []objectLabel
	has    []int // the numbers of those that exist
}

type objectLabel struct {
	value  string
	exists bool
}

func newObjectLabels(of vocabulary) *objectLabels {
	return &objectLabels{of: of, labels: make([]objectLabel, len(of))}
}

// read replaces the labels by those of another object.
func (k *objectLabels) read(from *labelSet) {
	for _, n := range k.has {
		k.labels[n] = objectLabel{}
	}
	k.has = k.has[:0]
	if len(k.of) == 0 {
		return
	}
	for key, value := range from.all {
		if n, ok := k.of[key]; ok {
			k.labels[n] = objectLabel{value, true}
			k.has = append(k.has, n)
		}
	}
}

// matcher is a selector whose keys are in a vocabulary, so that a requirement takes a few
// nanoseconds, however many labels an object has.
type matcher struct {
	selector *selector
	numbers  []int // of the requirements' keys
}

func newMatcher(s *selector, v vocabulary) matcher {
	m := matcher{selector: s}
	if s != nil {
		for i := range s.requirements {
			m.numbers = append(m.numbers, v.add(s.requirements[i].key))
		}
	}
	return m
}

func (m *matcher) selects(k *objectLabels) bool {
	if m.selector == nil {
		return false
	}
	for i, n := range m.numbers {
		if l := &k.labels[n]; !m.selector.requirements[i].matches(l.value, l.exists) {
			return false
		}
	}
	return true
}

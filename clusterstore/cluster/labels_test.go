package cluster

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/labels"
)

// FuzzLabelSet checks that a set has exactly its labels and the correct hash.
func FuzzLabelSet(f *testing.F) {
	f.Add("app=web,tier=db")
	f.Add("app=web,pod-template-hash=x")
	f.Fuzz(func(t *testing.T, text string) {
		from, again := labelsOf(text), make(labels.Set)
		read := newLabelSet(from)
		for key, value := range read.all {
			again[key] = value
		}
		hash, ok := read.templateHash()
		if wantHash, known := from[templateHashLabel]; hash != wantHash || ok != known || !labels.Equals(again, from) {
			t.Errorf("labels %v are %v, and the hash is %q, %v", from, again, hash, ok)
		}
	})
}

// labelsOf parses "key=value,...".
func labelsOf(text string) labels.Set {
	set := make(labels.Set)
	for _, word := range strings.Split(strings.ReplaceAll(text, labelEnd, ""), ",") {
		if key, value, ok := strings.Cut(word, "="); ok {
			set[key] = value
		}
	}
	return set
}

// TestSameLabels checks that sets of equal labels are equal for any order of the labels.
func TestSameLabels(t *testing.T) {
	text := "a=1,b=,pod-template-hash=x,z=1,B=2"
	words := strings.Split(text, ",")
	for range words {
		words = append(words[1:], words[0])
		if got := newLabelSet(labelsOf(strings.Join(words, ","))); got != newLabelSet(labelsOf(text)) {
			t.Errorf("%q", got)
		}
	}
}

package cluster

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// FuzzSelector compares what selectors select with k8s.io/apimachinery. Labels and terms
// are words: "key=value", and "key operator value ...".
func FuzzSelector(f *testing.F) {
	f.Add("app=web,tier=db", "app In web x,tier Exists,other DoesNotExist", "app=web")
	f.Add("app=web,pod-template-hash=x", "app NotIn x", "pod-template-hash=x")
	f.Add("app=", "app In ", "app=")
	f.Add("", "app NotIn web", "")
	f.Add("a=1,b=2,c=3", "a In 1 2 3,a NotIn 2,b Exists,d NotIn 1", "c=3,b=2")
	f.Fuzz(func(t *testing.T, has, expressions, matchLabels string) {
		from := labelsOf(has)
		s := &metav1.LabelSelector{MatchLabels: labelsOf(matchLabels)}
		for _, text := range strings.Split(expressions, ",") {
			if words := strings.Split(text, " "); len(words) > 1 {
				s.MatchExpressions = append(s.MatchExpressions, metav1.LabelSelectorRequirement{
					Key: words[0], Operator: metav1.LabelSelectorOperator(words[1]), Values: words[2:],
				})
			}
		}
		want, wantErr := metav1.LabelSelectorAsSelector(s)
		got, err := readSelector(s)
		if wantErr != nil || err != nil {
			if wantErr == nil && !strings.Contains(err.Error(), "more than") || err == nil {
				t.Fatalf("%v: error %v, want %v", s, err, wantErr)
			}
			return
		}
		read := newLabelSet(from)
		v := vocabulary{}
		m := newMatcher(got, v)
		k := newObjectLabels(v)
		for _, one := range []labels.Set{labelsOf(matchLabels), from} { // the first leaves nothing behind
			set := newLabelSet(one)
			k.read(&set)
			if matches := want.Matches(one); m.selects(k) != matches {
				t.Errorf("%v selects %v: %v; want %v", s, one, m.selects(k), matches)
			}
		}
		again := make(labels.Set)
		for key, value := range read.all {
			again[key] = value
		}
		hash, ok := read.templateHash()
		if wantHash, known := from[templateHashLabel]; hash != wantHash || ok != known || !labels.Equals(again, from) {
			t.Errorf("labels %v are %v, and the hash is %q, %v", from, again, hash, ok)
		}
	})
}

// labelsOf reads "key=value,...".
func labelsOf(text string) labels.Set {
	set := make(labels.Set)
	for _, word := range strings.Split(strings.ReplaceAll(text, labelEnd, ""), ",") {
		if key, value, ok := strings.Cut(word, "="); ok {
			set[key] = value
		}
	}
	return set
}

// TestNoSelector: what is not there selects nothing, and an empty selector everything.
func TestNoSelector(t *testing.T) {
	v := vocabulary{}
	k := newObjectLabels(v)
	for _, x := range []struct {
		of   *metav1.LabelSelector
		want bool
	}{{nil, false}, {&metav1.LabelSelector{}, true}} {
		s, err := readSelector(x.of)
		if err != nil {
			t.Fatal(err)
		}
		m := newMatcher(s, v)
		if got := m.selects(k); got != x.want {
			t.Errorf("%v selects: %v", x.of, got)
		}
	}
}

// TestSameLabels: equal labels are equal sets, in whatever order they come.
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

package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"isthmus/internal/text"
)

// What a written object has at most of what is copied.
const (
	maxCopied      = 64 // labels, and as many annotations
	maxCopiedBytes = 32 << 10
)

// mostRefused is how much that can't be used is named.
const mostRefused = 10

// copies is what is copied from an export, and what can't be.
type copies struct {
	labels, annotations         map[string]string
	refused                     []string // texts for people, at most mostRefused and their number
	leftLabels, leftAnnotations []string // the keys that refused is about
}

// keyRule decides whether a label or annotation of that key is copied. If the exporting team has to know
// why a key is left out, the rule returns a reason.
type keyRule func(key string) (copied bool, reason string)

// preferenceOf returns the annotations of a Service that are its preference.
func preferenceOf(s *Service) copies {
	return chooseCopies(nil, s.Annotations, nil, isPreference)
}

// limited returns the labels and annotations that the rules choose and that the API accepts. It stops at
// the limits, in the order of the keys.
func chooseCopies(labels, annotations map[string]string, label, annotation keyRule) (c copies) {
	left := maxCopiedBytes
	choose := func(
		what string, from map[string]string, rule keyRule, valid func(value string) bool,
	) (chosen map[string]string, refused []string) {
		chosen = make(map[string]string)
		refuse := func(key, why string) {
			refused = append(refused, key)
			c.refused = append(c.refused, fmt.Sprintf("%s %q: %s", what, text.Truncate(key, text.Short), why))
		}
		for _, key := range sorted(from) {
			value := from[key]
			copied, reason := rule(key)
			switch size := len(key) + len(value); {
			case !copied && reason != "":
				refuse(key, reason)
			case !copied:
			case !validKey(key) || !valid(value):
				refuse(key, "the API would refuse it")
			case len(chosen) == maxCopied || size > left:
				refuse(key, fmt.Sprintf("more than %d, or %d bytes in all", maxCopied, maxCopiedBytes))
			default:
				chosen[key] = value
				left -= size
			}
		}
		return chosen, refused
	}
	c.labels, c.leftLabels = choose("label", labels, label, validValue)
	c.annotations, c.leftAnnotations = choose("annotation", annotations, annotation, utf8.ValidString)
	c.refused = text.First(c.refused, mostRefused)
	return c
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// A record of what was copied is kept in an annotation: for each key a short hash of the value. What has another
// value now is somebody else's.

// record returns the record of these labels and annotations.
func record(labels, annotations map[string]string) string {
	var all []string
	for _, key := range sorted(labels) {
		all = append(all, "label:"+key+"="+hash(labels[key], 10))
	}
	for _, key := range sorted(annotations) {
		all = append(all, "annotation:"+key+"="+hash(annotations[key], 10))
	}
	return strings.Join(all, ",")
}

// rerecorded returns a record in which these annotations replace all that have one of the keys. The result has no
// more of the text than [recorded] reads.
func rerecorded(text string, keys []string, annotations map[string]string) string {
	var all []string
	for item := range strings.SplitSeq(firstItems(text, maxRecordBytes), ",") {
		key, ok := strings.CutPrefix(item, "annotation:")
		key, _, _ = strings.Cut(key, "=")
		if item != "" && !(ok && slices.Contains(keys, key)) {
			all = append(all, item)
		}
	}
	if added := record(nil, annotations); added != "" {
		all = append(all, strings.Split(added, ",")...)
	}
	slices.SortStableFunc(all, func(a, b string) int {
		kindA, itemA, _ := strings.Cut(a, ":")
		kindB, itemB, _ := strings.Cut(b, ":")
		keyA, _, _ := strings.Cut(itemA, "=")
		keyB, _, _ := strings.Cut(itemB, "=")
		return cmp.Or(-cmp.Compare(kindA, kindB), cmp.Compare(keyA, keyB)) // labels before annotations
	})
	return strings.Join(all, ",")
}

// recorded returns the record's hashes, by key.
func recorded(text string) (labels, annotations map[string]string) {
	labels = make(map[string]string)
	annotations = make(map[string]string)
	for item := range strings.SplitSeq(firstItems(text, maxRecordBytes), ",") {
		what, hash, _ := strings.Cut(item, "=")
		if key, ok := strings.CutPrefix(what, "label:"); ok {
			labels[key] = hash
		} else if key, ok := strings.CutPrefix(what, "annotation:"); ok {
			annotations[key] = hash
		}
	}
	return labels, annotations
}

// overlay puts what is copied over what an object has, and returns that and what of it is ours. Keys that were copied
// before and are no longer go. A value that somebody else has set stays.
func overlay(have, want, before map[string]string) (next, ours map[string]string) {
	next = maps.Clone(have)
	ours = make(map[string]string)
	if next == nil {
		next = make(map[string]string)
	}
	for key, value := range have {
		if was, ok := before[key]; ok && was == hash(value, 10) {
			delete(next, key)
		}
	}
	for key, value := range want {
		if _, theirs := next[key]; !theirs {
			next[key], ours[key] = value, value
		}
	}
	return next, ours
}

// inherited returns what of a Service that Linkerd's service mirror wrote has the value that it has at a member: it
// was copied from there.
func inherited(have *Service, from []*member) *copies {
	c := &copies{labels: make(map[string]string), annotations: make(map[string]string)}
	for _, p := range from {
		addEqual(c.labels, have.Labels, p.export.Service.Labels)
		addEqual(c.annotations, have.Annotations, p.export.Service.Annotations)
	}
	return c
}

func addEqual(to, a, b map[string]string) {
	for key, value := range a {
		if other, ok := b[key]; ok && other == value {
			to[key] = value
		}
	}
}

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

// The limits apply to the labels and annotations that are copied to any single object.
const (
	maxCopied      = 64 // labels; the same limit applies to annotations
	maxCopiedBytes = 32 << 10
)

const maxRefused = 10

type copies struct {
	labels, annotations         map[string]string
	refused                     []string // messages, at most maxRefused and one with the number of others
	leftLabels, leftAnnotations []string // the keys that refused is about
}

// keyRule reports whether to copy the label or annotation with the given key, and may return a
// reason to show to users.
type keyRule func(key string) (copied bool, reason string)

func preferenceOf(s *Service) copies {
	return chooseCopies(nil, s.Annotations, nil, isPreference)
}

// chooseCopies returns the labels and annotations that the rules select and that the API accepts.
// The keys are processed in alphabetical order until a limit is reached.
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
				refuse(key, "API servers would reject it")
			case len(chosen) == maxCopied || size > left:
				refuse(key, fmt.Sprintf("the limit of %d keys or %d bytes has been reached", maxCopied, maxCopiedBytes))
			default:
				chosen[key] = value
				left -= size
			}
		}
		return chosen, refused
	}
	c.labels, c.leftLabels = choose("label", labels, label, validValue)
	c.annotations, c.leftAnnotations = choose("annotation", annotations, annotation, utf8.ValidString)
	c.refused = text.First(c.refused, maxRefused)
	return c
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// Each object that Isthmus writes has an annotation with a short hash of each copied value. If a
// value no longer matches its recorded hash, another client has set the value.

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

// rerecorded removes the annotations with the given keys from a record, and adds the given
// annotations. The result omits items beyond the first maxRecordBytes bytes of the record.
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

// overlay adds the wanted values to the values of an object, and removes copied values that are no
// longer wanted. The third argument contains the hashes of values that were copied earlier. Values
// that another client has set stay unchanged. The second result contains the values that overlay
// has copied.
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

// inherited returns the labels and annotations that Linkerd's service mirror copied from a member
// to a Service. A label or annotation with the same value as in the member's export is assumed to
// have been copied.
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

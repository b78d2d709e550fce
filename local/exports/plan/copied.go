package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"isthmus/internal/legible"
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
	labels, annotations map[string]string
	refused             []string
}

// Keys by which tools know what they own: copied, they make the tools of this cluster delete the object, or fight over it.
var toolKeys = []string{"argocd.argoproj.io", "helm.sh", "helm.toolkit.fluxcd.io", "kustomize.toolkit.fluxcd.io", "kapp.k14s.io", "objectset.rio.cattle.io"}

// The annotations of a preference, which only the own cluster's Service decides.
var preferenceKeys = []string{"isthmus.io/prefer", "isthmus.io/min-ready", "isthmus.io/return-after", "isthmus.io/return-over"}

// copyLabel reports whether a label of an exported Service is copied.
func copyLabel(key string) bool {
	if within(key, "app.kubernetes.io") {
		return key != "app.kubernetes.io/managed-by" && key != "app.kubernetes.io/instance"
	}
	return !within(key, "mirror.linkerd.io", "multicluster.linkerd.io", "isthmus.io", "kubernetes.io", "k8s.io") && !within(key, toolKeys...)
}

// copyAnnotation reports whether an annotation of an exported Service is copied: those by which meshes treat it. The others
// steer controllers.
func copyAnnotation(key string, own bool) bool {
	return key == "config.linkerd.io/opaque-ports" || own && slices.Contains(preferenceKeys, key) ||
		within(key, "retry.linkerd.io", "timeout.linkerd.io", "balancer.linkerd.io", "balancer.alpha.linkerd.io")
}

// copyExported reports whether what a team exports by name (KEP-1645) is copied.
func copyExported(key string) bool {
	return !within(key, "linkerd.io", "isthmus.io", "kubernetes.io", "k8s.io") && !within(key, toolKeys...)
}

// copyOf returns what is copied of a Service.
func copyOf(s *Service, own bool) copies {
	return limited(s.Labels, s.Annotations, copyLabel, func(key string) bool { return copyAnnotation(key, own) })
}

// limited returns those labels and annotations that are wanted, that the API takes, and that are not too many: the first ones,
// in the order of their keys.
func limited(labels, annotations map[string]string, label, annotation func(key string) bool) (c copies) {
	left := maxCopiedBytes
	choose := func(what string, from map[string]string, want func(string) bool, valid func(value string) bool) map[string]string {
		chosen := make(map[string]string)
		for _, key := range sorted(from) {
			value := from[key]
			switch size := len(key) + len(value); {
			case !want(key):
			case !validKey(key) || !valid(value):
				c.refused = append(c.refused, fmt.Sprintf("%s %q: the API would refuse it", what, legible.Beginning(key, legible.Short)))
			case len(chosen) == maxCopied || size > left:
				c.refused = append(c.refused, fmt.Sprintf("%s %q: more than %d, or %d bytes in all", what, legible.Beginning(key, legible.Short), maxCopied, maxCopiedBytes))
			default:
				chosen[key] = value
				left -= size
			}
		}
		return chosen
	}
	c.labels = choose("label", labels, label, validValue)
	c.annotations = choose("annotation", annotations, annotation, utf8.ValidString)
	c.refused = legible.First(c.refused, mostRefused)
	return c
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// A record of what was copied is kept in an annotation: for each key a short hash of the value. What has another value now is
// somebody else's.

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

// recorded returns the record's hashes, by key.
func recorded(text string) (labels, annotations map[string]string) {
	labels, annotations = make(map[string]string), make(map[string]string)
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

// overlay puts what is copied over what an object has, and returns that and what of it is ours. Keys that were copied before
// and are no longer go. A value that somebody else has set stays.
func overlay(have, want, before map[string]string) (next, ours map[string]string) {
	next, ours = maps.Clone(have), make(map[string]string)
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

// inherited returns what of a Service that Linkerd's service mirror wrote has the value that it has at a member: it was copied
// from there.
func inherited(have *Service, from []*part) *copies {
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

package cluster

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"

	"isthmus/federation"
)

// labelSet is a set of labels, encoded as strings that can be compared and shared. Keys and values
// are stored in separate strings, so that Pods with the same keys but different values can share
// the string of keys. Each key and each value is followed by labelEnd. Keys are sorted, except that
// templateHashLabel always comes first, so that templateHash is fast even for tens of thousands of
// labels.
type labelSet struct{ keys, values string }

// labelEnd cannot occur in a valid label, because API servers accept only letters, digits, "-",
// "_", "." and "/". If a malicious server sends an object with labelEnd in a label, only the labels
// of that object become garbled.
const labelEnd = "\x00"

func newLabelSet(from map[string]string) labelSet {
	var room [16]string
	names := room[:0]
	ofKeys := 0
	ofValues := 0
	for key, value := range from {
		names = append(names, key)
		ofKeys = ofKeys + len(key) + len(labelEnd)
		ofValues = ofValues + len(value) + len(labelEnd)
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

func (s *labelSet) templateHash() (value string, exists bool) {
	if !strings.HasPrefix(s.keys, templateHashLabel+labelEnd) {
		return "", false
	}
	value, _, _ = strings.Cut(s.values, labelEnd)
	return value, true
}

// podLabels returns the endpoint labels that a Pod or ExternalWorkload shares with its siblings.
// The returned labels are sorted by name.
func podLabels(p *pod, t *template) []federation.Label {
	labels := make([]federation.Label, 0, 4)
	if !t.external() {
		labels = append(labels, federation.Label{Name: "serviceaccount", Value: t.serviceAccount})
	}
	if t.controlPlane != "" {
		labels = append(labels, federation.Label{Name: "control_plane_ns", Value: t.controlPlane})
	}
	if hash, ok := t.labels.templateHash(); ok && !t.external() {
		labels = append(labels, federation.Label{Name: "pod_template_hash", Value: hash})
	}
	if owner := topOwner(p, t); labelName(owner.kind) && !reserved(owner.kind) {
		if owner.kind == kindJob && !t.external() {
			owner.kind = "k8s_job" // Prometheus itself uses the label "job"
		}
		labels = append(labels, federation.Label{Name: owner.kind, Value: owner.name})
	}
	slices.SortFunc(labels, func(a, b federation.Label) int { return cmp.Compare(a.Name, b.Name) })
	return labels
}

// labelName reports whether the kind of an owner, such as "daemonset", can be used as a label name.
// Proxies copy label names into their metrics unchanged.
func labelName(kind string) bool {
	odd := func(r rune) bool { return r != '_' && (r < 'a' || r > 'z') && (r < '0' || r > '9') }
	return kind != "" && (kind[0] < '0' || kind[0] > '9') && !strings.ContainsFunc(kind, odd)
}

// reserved reports whether a label named after the kind of an owner would hide another label.
func reserved(kind string) bool {
	switch kind {
	case "pod", "external_workload", "serviceaccount", "control_plane_ns", "pod_template_hash", "zone", "zone_locality",
		"service", "namespace", "target_cluster", "target_service", "target_service_namespace":
		return true
	}
	return false
}

// groupLabels returns the labels that all endpoints of a slice have in common, sorted by name. The
// result contains a target_cluster label only if the slice is in the local cluster, because only
// the local service mirror is trusted to name the target cluster. If a linked cluster could choose
// the target_cluster label of its endpoints, the linked cluster could pass them off as endpoints of
// another cluster.
func groupLabels(l *slice, cluster federation.ClusterName) []federation.Label {
	labels := []federation.Label{
		{Name: "namespace", Value: l.service.Namespace},
		{Name: "service", Value: l.service.Name},
	}
	if l.mirror.cluster == "" || cluster != federation.Local {
		return labels
	}
	labels = append(labels, federation.Label{Name: "target_cluster", Value: l.mirror.cluster})
	if parts := strings.SplitN(l.mirror.remoteName, ".", 3); len(parts) > 1 {
		labels = append(labels,
			federation.Label{Name: "target_service", Value: parts[0]},
			federation.Label{Name: "target_service_namespace", Value: parts[1]})
	}
	return labels
}

// maxSentText is the maximum length, in bytes, of a string that is sent to proxies.
const maxSentText = 1 << 10

// sendable reports whether every string in an endpoint can be sent to proxies. If a message
// contained a string that cannot be encoded, proxies would not receive the message, which may also
// contain endpoints of other clusters. Special characters in a label could corrupt the metrics of
// proxies.
func sendable(e *federation.Endpoint) bool {
	c := e.Common.Get()
	for _, list := range [...][]federation.Label{c.Group, c.Labels} {
		for _, l := range list {
			if !sendableText(l.Name) || !sendableText(l.Value) {
				return false
			}
		}
	}
	name, _ := e.NameLabel()
	id := &c.Identity
	for _, text := range [...]string{name.Value, e.Zone, id.DNS, id.URI, id.ServerName, c.Authority} {
		if !sendableText(text) {
			return false
		}
	}
	return true
}

func sendableText(text string) bool {
	return len(text) <= maxSentText && utf8.ValidString(text) && federation.PlainLabel(text)
}

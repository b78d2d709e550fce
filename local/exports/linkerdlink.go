package exports

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"isthmus/clusterstore/decode"
	"isthmus/local/exports/plan"
)

type linkerdLink struct {
	name, version string
	cluster       string // name of its cluster
	created       time.Time
	gone          time.Time       // time of deletion; zero means the Link exists
	spec          decode.LinkSpec // specification in force
	selectors     plan.Selectors
	problem       string // why the Link is invalid, so that the previous selectors apply; empty if valid
	unread        bool   // no valid version was read
}

var defaultLink = new(linkerdLink).read(decode.LinkSpec{
	RemoteDiscoverySelector:  metav1.SetAsLabelSelector(labels.Set{"mirror.linkerd.io/exported": "remote-discovery"}),
	FederatedServiceSelector: metav1.SetAsLabelSelector(labels.Set{"mirror.linkerd.io/federated": "member"}),
})

func readLink(o *decode.Link) (*linkerdLink, bool) {
	l := &linkerdLink{
		name:    o.Name,
		version: o.ResourceVersion,
		cluster: cmp.Or(o.Spec.TargetClusterName, o.Name),
		created: o.CreationTimestamp.Time,
		problem: o.Invalid,
	}
	spec := o.Spec
	spec.TargetClusterName = "" // has no effect on selectors
	if o.APIVersion == decode.LinkVersions[2].String() && spec.FederatedServiceSelector == nil {
		spec.FederatedServiceSelector = defaultLink.spec.FederatedServiceSelector // that version lacks the field
	}
	return l.read(spec), true
}

func (l *linkerdLink) read(spec decode.LinkSpec) *linkerdLink {
	mirror, err1 := matcher(spec.RemoteDiscoverySelector)
	federated, err2 := matcher(spec.FederatedServiceSelector)
	l.selectors = plan.Selectors{
		Mirror:              mirror,
		Federated:           federated,
		ExcludedLabels:      Excluded(spec.ExcludedLabels),
		ExcludedAnnotations: Excluded(spec.ExcludedAnnotations),
	}
	if err := errors.Join(err1, err2); err != nil {
		l.problem = err.Error()
	}
	l.spec = spec
	return l
}

// size returns the memory used by a Link and its selectors, in bytes.
func (l *linkerdLink) size(string) int64 {
	const fixed, part = 1 << 10, 256 // bytes per Link, and per key, value or expression
	parts := 0
	texts := len(l.name) + len(l.version) + len(l.cluster) + len(l.problem)
	count := func(list ...string) {
		for _, text := range list {
			parts++
			texts += len(text)
		}
	}
	count(l.spec.ExcludedLabels...)
	count(l.spec.ExcludedAnnotations...)
	for _, selector := range []*metav1.LabelSelector{
		l.spec.Selector, l.spec.RemoteDiscoverySelector, l.spec.FederatedServiceSelector,
	} {
		if selector == nil {
			continue
		}
		for key, value := range selector.MatchLabels {
			count(key, value)
		}
		for i := range selector.MatchExpressions {
			count(selector.MatchExpressions[i].Key)
			count(selector.MatchExpressions[i].Values...)
		}
	}
	return int64(fixed + part*parts + texts)
}

// For an empty selector, which selects nothing, matcher returns nil.
func matcher(s *metav1.LabelSelector) (func(map[string]string) bool, error) {
	if s == nil || len(s.MatchLabels)+len(s.MatchExpressions) == 0 {
		return nil, nil
	}
	selector, err := metav1.LabelSelectorAsSelector(s)
	return func(of map[string]string) bool { return selector.Matches(labels.Set(of)) }, err
}

// decidingLink returns the oldest Link of a cluster, or defaultLink if the cluster has no Link.
func decidingLink(links []*linkerdLink, cluster string) *linkerdLink {
	for _, l := range links {
		if l.cluster == cluster {
			return l
		}
	}
	return defaultLink
}

// Excluded returns a function that reports whether a label or annotation key is in the given list.
// An entry of the form DOMAIN/* matches all keys in the domain.
func Excluded(keys []string) func(string) bool {
	return func(key string) bool {
		domain, _, ok := strings.Cut(key, "/")
		return slices.Contains(keys, key) || ok && slices.Contains(keys, domain+"/*")
	}
}

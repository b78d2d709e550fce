package linkerd

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"isthmus/clusterstore/decode"
	"isthmus/clusterstore/follow"
	"isthmus/local/exports/plan"
)

// maxLinks is the maximum memory for all Links, in bytes.
const maxLinks = 64 << 20

// link is a Link that exists, or that was deleted.
type link struct {
	name, version string
	cluster       string // name of its cluster
	created       time.Time
	gone          time.Time       // time of deletion; zero means the Link exists
	spec          decode.LinkSpec // specification in force
	selectors     plan.Selectors
	problem       string // why the Link is invalid, so that the previous selectors apply; empty if valid
	unread        bool   // no valid version was read
}

// size returns the memory that a Link and its selectors use, in bytes.
func (l *link) size(string) int64 {
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

// defaults holds Linkerd's default selectors, which apply to clusters that have no Link.
var defaults = new(link).read(decode.LinkSpec{
	RemoteDiscoverySelector:  metav1.SetAsLabelSelector(labels.Set{"mirror.linkerd.io/exported": "remote-discovery"}),
	FederatedServiceSelector: metav1.SetAsLabelSelector(labels.Set{"mirror.linkerd.io/federated": "member"}),
})

func readLink(o *decode.Link) (*link, bool) {
	l := &link{
		name:    o.Name,
		version: o.ResourceVersion,
		cluster: cmp.Or(o.Spec.TargetClusterName, o.Name),
		created: o.CreationTimestamp.Time,
		problem: o.Invalid,
	}
	spec := o.Spec
	spec.TargetClusterName = "" // has no effect on selectors
	if o.APIVersion == decode.LinkVersions[2].String() && spec.FederatedServiceSelector == nil {
		spec.FederatedServiceSelector = defaults.spec.FederatedServiceSelector // that version lacks the field
	}
	return l.read(spec), true
}

func (l *link) read(spec decode.LinkSpec) *link {
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

// matcher returns the match function of a selector, or nil if the selector is empty. An empty
// selector selects nothing.
func matcher(s *metav1.LabelSelector) (func(map[string]string) bool, error) {
	if s == nil || len(s.MatchLabels)+len(s.MatchExpressions) == 0 {
		return nil, nil
	}
	selector, err := metav1.LabelSelectorAsSelector(s)
	return func(of map[string]string) bool { return selector.Matches(labels.Set(of)) }, err
}

// Excluded returns a function that reports whether a list contains a key. The entry DOMAIN/* in the
// list matches all keys of a domain.
func Excluded(keys []string) func(string) bool {
	return func(key string) bool {
		domain, _, ok := strings.Cut(key, "/")
		return slices.Contains(keys, key) || ok && slices.Contains(keys, domain+"/*")
	}
}

// followLinks watches Links until ctx ends.
func (m *Mirrors) followLinks(ctx context.Context) {
	all := make(follow.Map[*link])
	limit := follow.NewMemoryCap(maxLinks)
	follow.NewGroup(follow.Options{Memory: limit}, follow.New(follow.Kind[*decode.Link, *link]{
		Name:    "links",
		Source:  m.o.Sources.Links(m.o.Namespace),
		Serves:  m.servesLinks,
		Compact: readLink,
		Into:    all,
		Size:    (*link).size,
		Same:    func(a, b *link) bool { return a.version == b.version && a.version != "" },
		Applied: func() {
			m.update(func(time.Time) bool {
				was, first := m.there, !m.listed
				m.there = maps.Clone(all)
				m.listed = true
				m.known = true
				return first || !maps.Equal(was, all)
			})
		},
		Report: func(err error) {
			m.update(func(time.Time) bool {
				tell := (err == nil) != (m.linksErr == nil) || !m.known
				m.linksErr = err // Applied follows and brings the Links
				m.known = m.known || apierrors.IsForbidden(err)
				return tell
			})
		},
	})).Run(ctx, nil)
}

// servesLinks reports whether the API server serves Links in any version.
func (m *Mirrors) servesLinks(ctx context.Context) (bool, error) {
	there, err := m.o.Sources.Serves(ctx, "links", decode.LinkVersions...)
	if !there && err == nil {
		m.update(func(time.Time) bool {
			m.known = true
			m.listed = true
			return true
		})
	}
	return there, err
}

// choose updates m.links and thereby the selectors in force. The function returns the clusters
// whose selectors have changed. The caller holds m.mu.
func (m *Mirrors) choose(now time.Time) (changed []string) {
	before := m.links
	byName := make(map[string]*link)
	for _, l := range before {
		byName[l.name] = l
	}
	m.links = nil
	for _, l := range m.there {
		old := cmp.Or(byName[l.name], defaults)
		if l.problem != "" && old != l {
			l.spec = old.spec
			l.selectors = old.selectors
			l.unread = old.unread || old == defaults
		}
		m.links = append(m.links, l)
		delete(byName, l.name)
	}
	slices.SortFunc(m.links, func(a, b *link) int {
		return cmp.Or(a.created.Compare(b.created), cmp.Compare(a.name, b.name))
	})
	for _, l := range before {
		if byName[l.name] == l && l.gone.IsZero() {
			l.gone = now
		}
		if byName[l.name] == l && now.Sub(l.gone) < m.o.UnlinkedAfter {
			m.links = append(m.links, l)
		}
	}
	for _, l := range slices.Concat(before, m.links) {
		if is := deciding(m.links, l.cluster); !reflect.DeepEqual(is.spec, deciding(before, l.cluster).spec) &&
			!slices.Contains(changed, l.cluster) {
			changed = append(changed, l.cluster)
		}
	}
	return changed
}

// deciding returns the Link whose selectors apply to a cluster. That Link is the oldest Link of the
// cluster, or defaults if the cluster has no Link.
func deciding(links []*link, cluster string) *link {
	for _, l := range links {
		if l.cluster == cluster {
			return l
		}
	}
	return defaults
}

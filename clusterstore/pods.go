package clusterstore

import (
	"slices"
	"strings"
	"unique"

	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"isthmus/clusterstore/follow"
)

// pod is what is known of one Pod: 80 bytes, its name and what few others say about
// themselves, since what it has in common with many is shared.
//
// To an endpoint an ExternalWorkload is what a Pod is, so it is kept as one, under
// a key that no Pod has.
type pod struct {
	key    string // namespace/name, for an ExternalWorkload behind workloadPrefix
	facts  podFacts
	owner  *owner   // the ReplicaSet or Job that it belongs to; nil: another owner, or none
	slices []*slice // that name it
}

// podFacts is all that an endpoint takes from its Pod. The zero value stands for
// a Pod that is not known.
type podFacts struct {
	template unique.Handle[template] // without what stands in traits
	node     unique.Handle[string]
	// traits are what few or no others have: the names of its owner and of its
	// service account and the values of its labels, each ended by labelEnd. In the
	// template they would cost every such Pod, or every workload, a template.
	traits string
}

// newFacts takes apart what is known of a Pod or ExternalWorkload.
func newFacts(t template, node string) podFacts {
	traits := t.owner.name + labelEnd + t.serviceAccount + labelEnd + t.labels.values
	t.owner.name, t.serviceAccount, t.labels.values = "", "", ""
	return podFacts{template: unique.Make(t), node: unique.Make(node), traits: traits}
}

// said puts together what newFacts has taken apart.
func (f podFacts) said() template {
	t := f.template.Value()
	var rest string
	t.owner.name, rest, _ = strings.Cut(f.traits, labelEnd)
	t.serviceAccount, t.labels.values, _ = strings.Cut(rest, labelEnd)
	return t
}

func (f podFacts) known() bool { return f != podFacts{} }

// external tells whether known facts are an ExternalWorkload's.
func (f podFacts) external() bool {
	t := f.template.Value()
	return t.external()
}

// owner is a ReplicaSet or Job: what is looked up is what owns it.
type owner struct {
	key    string
	parent unique.Handle[reference] // the zero Handle: it is not known (yet)
	pods   []*pod                   // that it owns
}

func (o *owner) known() bool { return o.parent != unique.Handle[reference]{} }

// id says which Pod or ExternalWorkload it is, of which t is the template.
func (p *pod) id(t *template) (namespace, name string) {
	if t.external() {
		return follow.SplitKey(strings.TrimPrefix(p.key, workloadPrefix))
	}
	return follow.SplitKey(p.key)
}

// podFor returns the pod of that name, or a placeholder.
func (s *state) podFor(key string) *pod {
	p := s.pods[key]
	if p == nil {
		p = &pod{key: key}
		s.pods[key] = p
	}
	return p
}

// sweepPod forgets a pod that is not there and that no slice names.
func (s *state) sweepPod(p *pod) {
	if !p.facts.known() && len(p.slices) == 0 {
		delete(s.pods, p.key)
	}
}

// placedPod is what is kept of a Pod or ExternalWorkload; where it is (site) only
// where addresses are asked for.
type placedPod struct {
	facts podFacts
	site  *site
}

func (s *state) podKind() kind[placedPod] {
	return kind[placedPod]{
		put:   s.putPlaced,
		drop:  s.dropPod,
		leave: func(key string) { s.movePod(s.pods[key], nil) },
		keys:  keysOf(s.pods, func(p *pod) bool { return p.facts.known() && !p.facts.external() }),
	}
}

func (s *state) putPlaced(key string, o placedPod) follow.Effect {
	result := s.putPod(key, o.facts)
	if s.movePod(s.pods[key], o.site) && result == follow.Same {
		return follow.Replaced
	}
	return result
}

func (s *state) putPod(key string, facts podFacts) follow.Effect {
	p := s.podFor(key)
	if p.facts == facts {
		return follow.Same
	}
	result := follow.Replaced
	if p.facts.known() {
		s.countMalformed(p.facts, -1)
		s.disown(p)
	} else {
		result = follow.Added
	}
	p.facts = facts
	s.countMalformed(facts, 1)
	s.own(p)
	s.touchPod(p)
	return result
}

func (s *state) dropPod(key string) bool {
	p := s.pods[key]
	if p == nil || !p.facts.known() {
		return false
	}
	s.countMalformed(p.facts, -1)
	s.disown(p)
	p.facts = podFacts{}
	s.touchPod(p)
	s.movePod(p, nil)
	s.sweepPod(p)
	return true
}

func (s *state) countMalformed(f podFacts, n int) {
	if f.template.Value().malformed() {
		s.malformed += n
	}
}

// touchPod notes that what is told of a pod is another.
func (s *state) touchPod(p *pod) {
	for _, l := range p.slices {
		s.touch(l)
	}
	s.markSite(p)
}

// owners returns where owners of that kind are, or nil for a kind that is not
// looked up.
func (s *state) owners(kind string) map[string]*owner {
	switch kind {
	case kindReplicaSet:
		return s.replicaSets
	case kindJob:
		return s.jobs
	}
	return nil
}

// own connects a pod with its ReplicaSet or Job, known or not.
func (s *state) own(p *pod) {
	t := p.facts.said()
	ref := t.owner
	all := s.owners(ref.kind)
	if all == nil || t.external() {
		return
	}
	namespace, _ := p.id(&t)
	key := follow.JoinKey(namespace, ref.name)
	o := all[key]
	if o == nil {
		if strings.HasPrefix(p.key, key) {
			key = p.key[:len(key)] // one copy: most Pods are named after their owner
		}
		o = &owner{key: key}
		all[key] = o
	}
	if len(o.pods) > 0 && o.pods[0].facts.traits == p.facts.traits {
		p.facts.traits = o.pods[0].facts.traits // siblings share one copy
	}
	o.pods = append(o.pods, p)
	p.owner = o
}

func (s *state) disown(p *pod) {
	o := p.owner
	if o == nil {
		return
	}
	p.owner = nil
	o.pods = without(o.pods, p)
	sweepOwner(s.owners(p.facts.template.Value().owner.kind), o)
}

func sweepOwner(all map[string]*owner, o *owner) {
	if !o.known() && len(o.pods) == 0 {
		delete(all, o.key)
	}
}

func (s *state) ownerKind(kindName string) kind[unique.Handle[reference]] {
	all := s.owners(kindName)
	touch := func(o *owner) {
		for _, p := range o.pods {
			s.touchPod(p)
		}
	}
	return kind[unique.Handle[reference]]{
		put: func(key string, parent unique.Handle[reference]) follow.Effect {
			o := all[key]
			if o == nil {
				o = &owner{key: key}
				all[key] = o
			}
			if o.parent == parent {
				return follow.Same
			}
			result := follow.Replaced
			if !o.known() {
				result = follow.Added
			}
			o.parent = parent
			touch(o)
			return result
		},
		drop: func(key string) bool {
			o := all[key]
			if o == nil || !o.known() {
				return false
			}
			o.parent = unique.Handle[reference]{}
			touch(o)
			sweepOwner(all, o)
			return true
		},
		keys: keysOf(all, (*owner).known),
	}
}

// reference names an object by kind, in lower case, and name.
type reference struct{ kind, name string }

// Kinds of owners that are looked up for what owns them.
const (
	kindReplicaSet = "replicaset"
	kindJob        = "job"
)

// ownersOfReplicaSets are the kinds that count as what a ReplicaSet belongs to.
var ownersOfReplicaSets = []string{kindJob, "statefulset", "daemonset", "deployment"}

// workload says what a pod belongs to: by kind and name, the topmost that is
// known and means something to people. A pod on its own stands for itself.
func (p *pod) workload(t *template) reference {
	switch {
	case t.owner == reference{}:
		_, name := p.id(t)
		return reference{"pod", name}
	case p.owner == nil || !p.owner.known() || p.owner.parent.Value() == reference{}:
		return t.owner
	}
	parent := p.owner.parent.Value()
	if t.owner.kind == kindReplicaSet && !slices.Contains(ownersOfReplicaSets, parent.kind) {
		return t.owner
	}
	return parent
}

func (s *state) nodeKind() kind[string] {
	return kind[string]{
		put: func(name, zone string) follow.Effect {
			old, ok := s.zones[name]
			s.zones[name] = zone
			switch {
			case !ok:
				return follow.Added
			case old != zone:
				return follow.Replaced
			}
			return follow.Same
		},
		drop: func(name string) bool {
			_, ok := s.zones[name]
			delete(s.zones, name)
			return ok
		},
		keys: keysOf(s.zones, func(string) bool { return true }),
	}
}

// pods follows Pods.
func (c *Cluster) pods() follow.Kind[*corev1.Pod, placedPod] {
	return follow.Kind[*corev1.Pod, placedPod]{
		Name: "pods", Needed: true,
		Calls:   follow.CallsOf(c.cfg.Client.Core.Pods("")),
		Compact: c.compactPod,
		Into:    locked[placedPod]{c.state, c.state.podKind()},
		Changed: c.checkProxy,
	}
}

func (c *Cluster) compactPod(o *corev1.Pod) (p placedPod, ok bool) {
	p.facts = c.cfg.Rules.compactPod(o)
	if c.state.addresses != nil {
		p.site = podSite(o)
	}
	return p, true
}

// checkProxy says which Pods are behind Health's MalformedProxies.
func (c *Cluster) checkProxy(key string, p placedPod, ok bool) {
	if ok && p.facts.template.Value().malformed() {
		c.cfg.Log.Debug("meshed pod does not say where its proxy listens", zap.String("pod", key))
	}
}

// replicaSets follows ReplicaSets, and jobs Jobs, to know what owns them.
func (c *Cluster) replicaSets() follow.Kind[*metav1.PartialObjectMetadata, unique.Handle[reference]] {
	return c.owners("apps", "replicasets", kindReplicaSet)
}

func (c *Cluster) jobs() follow.Kind[*metav1.PartialObjectMetadata, unique.Handle[reference]] {
	return c.owners("batch", "jobs", kindJob)
}

func (c *Cluster) owners(group, resource, kind string) follow.Kind[*metav1.PartialObjectMetadata, unique.Handle[reference]] {
	return follow.Kind[*metav1.PartialObjectMetadata, unique.Handle[reference]]{
		Name:    resource,
		Calls:   c.metadata(group, resource),
		Compact: compactOwner,
		Into:    locked[unique.Handle[reference]]{c.state, c.state.ownerKind(kind)},
	}
}

// nodes follows Nodes.
func (c *Cluster) nodes() follow.Kind[*metav1.PartialObjectMetadata, string] {
	return follow.Kind[*metav1.PartialObjectMetadata, string]{
		Name:    "nodes",
		Calls:   c.metadata("", "nodes"),
		Compact: compactNode,
		Into:    locked[string]{c.state, c.state.nodeKind()},
		Changed: c.cfg.OnNode,
	}
}

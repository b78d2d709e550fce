package cluster

import (
	"hash/maphash"
	"iter"

	"isthmus/clusterstore/follow"
)

// podShards is the number of parts that a cluster's pods are in.
const podShards = 64

// podIndex is pods by key. Those of a namespace are in the same part, so that a Server's
// change needs not look at all of a cluster's, which may be 100,000. A map for each
// namespace would take more memory, where namespaces are many and small.
type podIndex struct {
	seed   maphash.Seed // fixed
	shards [podShards]map[string]*pod
}

func newPodIndex() *podIndex {
	x := &podIndex{seed: maphash.MakeSeed()}
	for i := range x.shards {
		x.shards[i] = make(map[string]*pod)
	}
	return x
}

// podsOf iterates over the Pods and ExternalWorkloads of a namespace that have been read.
func (s *state) podsOf(namespace string) iter.Seq[*pod] {
	return func(yield func(*pod) bool) {
		for _, p := range s.pods.near(namespace) {
			if p.facts.isRead() && p.namespace() == namespace && !yield(p) {
				return
			}
		}
	}
}

// near returns the pods of the namespace, and those of some others.
func (x *podIndex) near(namespace string) map[string]*pod {
	return x.shards[maphash.String(x.seed, namespace)%podShards]
}

// get returns the pod with that key; nil: there is none.
func (x *podIndex) get(key string) *pod { return x.near(namespaceOfPod(key))[key] }

func (x *podIndex) all(yield func(*pod) bool) {
	for _, pods := range x.shards {
		for _, p := range pods {
			if !yield(p) {
				return
			}
		}
	}
}

// podFor returns the pod with that key, or makes a placeholder.
func (s *state) podFor(key string) *pod {
	pods := s.pods.near(namespaceOfPod(key))
	p := pods[key]
	if p == nil {
		p = &pod{key: key}
		pods[key] = p
	}
	return p
}

// sweepPod removes a placeholder that no slice refers to.
func (s *state) sweepPod(p *pod) {
	if !p.facts.isRead() && len(p.slices) == 0 {
		delete(s.pods.near(p.namespace()), p.key)
	}
}

func (s *state) podStore() storeFuncs[placedPod] {
	return storeFuncs[placedPod]{
		prepare:     s.evaluated,
		get:         s.placed,
		drop:        s.dropPod,
		prepareDrop: func(key string) { s.setLocation(s.pods.get(key), nil) },
		keys: func(yield func(string) bool) {
			for p := range s.pods.all {
				if p.facts.isRead() && !p.facts.external() && !yield(p.key) {
					return
				}
			}
		},
	}
}

// evaluated returns what puts a Pod or ExternalWorkload, with what its namespace's Servers say of it.
func (s *state) evaluated(key string, o placedPod) func() follow.Effect {
	by, opaque := s.evaluate(key, o.facts)
	return func() follow.Effect { return s.putPlaced(key, o, by, opaque) }
}

func (s *state) putPlaced(key string, o placedPod, by *compiledServers, opaque Ports) follow.Effect {
	result := s.putPod(key, o.facts, by, opaque)
	if s.setLocation(s.pods.get(key), o.location) && result == follow.Same {
		return follow.Replaced
	}
	return result
}

// placed returns what was put.
func (s *state) placed(key string) (o placedPod, ok bool) {
	p := s.pods.get(key)
	if p == nil || !p.facts.isRead() {
		return o, false
	}
	return placedPod{facts: p.facts, location: s.own.location(p)}, true
}

func (p placedPod) same(o placedPod) bool {
	return p.facts == o.facts && p.location.equal(o.location) && sameSelected(p.selected, o.selected)
}

func (s *state) putPod(key string, facts podFacts, by *compiledServers, opaque Ports) follow.Effect {
	p := s.podFor(key)
	if p.facts == facts {
		return follow.Same
	}
	if facts.traits == s.traits {
		facts.traits = s.traits // Pods are listed by name, siblings one after the other: they share one copy
	}
	s.traits = facts.traits
	result := follow.Replaced
	if p.facts.isRead() {
		s.countMalformed(p.facts, -1)
		s.detachOwner(p)
	} else {
		result = follow.Added
	}
	alike := p.facts.siblings(facts)
	p.facts = facts
	s.countMalformed(facts, 1)
	s.attachOwner(p)
	if !alike {
		s.putEvaluated(p, by, opaque)
	}
	s.touchPod(p)
	return result
}

// policyFor returns the policy of the namespace of the Pod with that key; nil: that has no Servers.
func (s *state) policyFor(key string) *policy {
	if len(s.policies) == 0 {
		return nil
	}
	return s.policies[namespaceOfPod(key)]
}

func (s *state) dropPod(key string) bool {
	p := s.pods.get(key)
	if p == nil || !p.facts.isRead() {
		return false
	}
	s.countMalformed(p.facts, -1)
	s.detachOwner(p)
	if policy := s.policyFor(key); policy != nil {
		s.setOpaque(policy, p, Ports{}, Ports{})
	}
	p.facts = podFacts{}
	s.touchPod(p)
	s.setLocation(p, nil)
	s.sweepPod(p)
	return true
}

func (s *state) countMalformed(f podFacts, n int) {
	if f.template.Value().malformed() {
		s.malformed += n
	}
}

// touchPod reports that a pod's endpoints may have changed.
func (s *state) touchPod(p *pod) {
	for _, l := range p.slices {
		s.touch(l)
	}
	s.markLocation(p)
}

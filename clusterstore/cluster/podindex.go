package cluster

import (
	"hash/maphash"
	"iter"
	"strings"
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

// podStore is the store of Pods or, with workloadPrefix, of ExternalWorkloads.
func (s *state) podStore(prefix string) store[placedPod] {
	return store[placedPod]{
		state: s, same: placedPod.same,
		get: func(key string) (o placedPod, ok bool) {
			if o, ok = s.placed(prefix + key); prefix != "" {
				o.selected = s.own.selectedAt(key)
			}
			return o, ok
		},
		set: func(key string, to placedPod, _ bool) {
			if s.setPod(prefix+key, to); prefix != "" {
				s.setWorkload(key, to)
			}
		},
		prepare: func(key string, to placedPod) placedPod { return s.evaluate(prefix+key, to) },
		release: func(key string) { s.setLocation(s.pods.get(prefix+key), nil) },
		keys: func(yield func(string) bool) {
			for p := range s.pods.all {
				if p.facts.isRead() && p.facts.external() == (prefix != "") && !yield(strings.TrimPrefix(p.key, prefix)) {
					return
				}
			}
		},
	}
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

// setPod puts a Pod or ExternalWorkload into the state; without facts it is gone.
func (s *state) setPod(key string, to placedPod) {
	p := s.podFor(key)
	if p.facts != to.facts {
		s.setFacts(p, to)
	}
	s.setLocation(p, to.location)
	s.sweepPod(p)
}

func (s *state) setFacts(p *pod, to placedPod) {
	before := p.facts
	if before.isRead() {
		s.countMalformed(before, -1)
		s.detachOwner(p)
	}
	p.facts = to.facts
	if p.facts.isRead() {
		if p.facts.traits == s.traits {
			p.facts.traits = s.traits // Pods are listed by name, siblings one after the other: they share one copy
		}
		s.traits = p.facts.traits
		s.countMalformed(p.facts, 1)
		s.attachOwner(p)
	}
	if !before.siblings(p.facts) {
		s.regroup(p, to.set)
	}
	s.touchPod(p)
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

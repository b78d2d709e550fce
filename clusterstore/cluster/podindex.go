package cluster

import (
	"isthmus/clusterstore/follow"
)

// podFor returns the pod with that key, or makes a placeholder.
func (s *state) podFor(key string) *pod {
	p := s.pods[key]
	if p == nil {
		p = &pod{key: key}
		s.pods[key] = p
	}
	return p
}

// sweepPod removes a placeholder that no slice refers to.
func (s *state) sweepPod(p *pod) {
	if !p.facts.known() && len(p.slices) == 0 {
		delete(s.pods, p.key)
	}
}

func (s *state) podStore() storeFuncs[placedPod] {
	return storeFuncs[placedPod]{
		put:         s.putPlaced,
		drop:        s.dropPod,
		prepareDrop: func(key string) { s.setLocation(s.pods[key], nil) },
		keys:        keysOf(s.pods, func(p *pod) bool { return p.facts.known() && !p.facts.external() }),
	}
}

func (s *state) putPlaced(key string, o placedPod) follow.Effect {
	result := s.putPod(key, o.facts)
	if s.setLocation(s.pods[key], o.location) && result == follow.Same {
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
		s.detachOwner(p)
	} else {
		result = follow.Added
	}
	p.facts = facts
	s.countMalformed(facts, 1)
	s.attachOwner(p)
	s.touchPod(p)
	return result
}

func (s *state) dropPod(key string) bool {
	p := s.pods[key]
	if p == nil || !p.facts.known() {
		return false
	}
	s.countMalformed(p.facts, -1)
	s.detachOwner(p)
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

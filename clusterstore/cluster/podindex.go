package cluster

import (
	"isthmus/clusterstore/follow"
)

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

func (s *state) podKind() kind[placedPod] {
	return kind[placedPod]{
		put:         s.putPlaced,
		drop:        s.dropPod,
		prepareDrop: func(key string) { s.movePod(s.pods[key], nil) },
		keys:        keysOf(s.pods, func(p *pod) bool { return p.facts.known() && !p.facts.external() }),
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

package cluster

import (
	"cmp"
	"slices"

	"isthmus/clusterstore/follow"
)

// slice is one EndpointSlice, or Endpoints object. Its stamp says when anything
// behind it last changed, so that a reader joins again what has a new stamp and
// nothing else.
type slice struct {
	key   string
	stamp uint64     // new whenever anything that it is joined from has changed
	data  *sliceData // its addresses refer to pods
}

func (s *state) sliceKind() kind[*sliceData] {
	return kind[*sliceData]{
		put: s.putSlice,
		drop: func(key string) bool {
			l := s.slices[key]
			if l == nil {
				return false
			}
			delete(s.slices, key)
			s.unlist(l)
			s.detach(l, l.data)
			s.sweepPods(l.data)
			s.mark(l.data.service)
			return true
		},
		keys: keysOf(s.slices, func(*slice) bool { return true }),
	}
}

func (s *state) putSlice(key string, data *sliceData) follow.Effect {
	l := s.slices[key]
	if l == nil {
		l = &slice{key: key, data: data}
		s.slices[key] = l
		s.attach(l)
		s.list(l)
		s.touch(l)
		return follow.Added
	}
	old := l.data
	if old.equal(data) {
		return follow.Same
	}
	if old.service != data.service {
		s.unlist(l)
		s.mark(old.service)
	}
	s.detach(l, old)
	l.data = data
	s.attach(l)
	s.sweepPods(old)
	if old.service != data.service {
		s.list(l)
	}
	s.touch(l)
	return follow.Replaced
}

func compareKey(l *slice, key string) int { return cmp.Compare(l.key, key) }

func (s *state) list(l *slice) {
	e := s.serviceFor(l.data.service)
	i, _ := slices.BinarySearchFunc(e.slices, l.key, compareKey)
	e.slices = slices.Insert(e.slices, i, l)
}

func (s *state) unlist(l *slice) {
	e := s.services[l.data.service]
	if i, ok := slices.BinarySearchFunc(e.slices, l.key, compareKey); ok {
		e.slices = slices.Delete(e.slices, i, i+1)
	}
	s.sweepService(l.data.service)
}

// attach connects a slice's addresses with their pods.
func (s *state) attach(l *slice) {
	for a := range l.data.all {
		if a.target == "" {
			continue
		}
		p := s.podFor(a.target)
		a.pod, a.target = p, p.key
		if !slices.Contains(p.slices, l) {
			p.slices = append(p.slices, l)
		}
	}
}

func (s *state) detach(l *slice, data *sliceData) {
	for a := range data.all {
		if a.pod != nil {
			a.pod.slices = without(a.pod.slices, l)
		}
	}
}

func (s *state) sweepPods(data *sliceData) {
	for a := range data.all {
		if a.pod != nil {
			s.sweepPod(a.pod)
		}
	}
}

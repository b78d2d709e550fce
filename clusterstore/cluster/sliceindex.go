package cluster

import (
	"cmp"
	"slices"

	"isthmus/clusterstore/follow"
)

// slice is one EndpointSlice, or Endpoints object, in the state. A reader joins it again
// only if its stamp is another one than before.
type slice struct {
	key     string
	stamp   uint64     // state.clock when the slice, a Pod, owner or Server behind it last changed
	changed int64      // when the slice itself last did or was first read, in Unix nanoseconds
	data    *sliceData // its addresses refer to pods
}

func (s *state) sliceStore() storeFuncs[*sliceData] {
	return storeFuncs[*sliceData]{
		put: s.putSlice,
		get: func(key string) (*sliceData, bool) {
			if l := s.slices[key]; l != nil {
				return l.data, true
			}
			return nil, false
		},
		drop: func(key string) bool {
			l := s.slices[key]
			if l == nil {
				return false
			}
			delete(s.slices, key)
			s.removeFromService(l)
			s.detachPods(l, l.data)
			s.sweepPods(l.data)
			s.mark(l.data.service)
			return true
		},
		keys: keysOf(s.slices, func(*slice) bool { return true }),
	}
}

// same is equal, and compares what explanations have too.
func (d *sliceData) same(o *sliceData) bool {
	return d.equal(o) && slices.Equal(d.leftOut(), o.leftOut())
}

func (s *state) putSlice(key string, data *sliceData) follow.Effect {
	l := s.slices[key]
	if l == nil {
		l = &slice{key: key, data: data, changed: s.now.UnixNano()}
		s.slices[key] = l
		s.attachPods(l)
		s.addToService(l)
		s.touch(l)
		return follow.Added
	}
	old := l.data
	if old.equal(data) {
		old.leave(data.leftOut())
		return follow.Same
	}
	if old.service != data.service {
		s.removeFromService(l)
		s.mark(old.service)
	}
	s.detachPods(l, old)
	l.data, l.changed = data, s.now.UnixNano()
	s.attachPods(l)
	s.sweepPods(old)
	if old.service != data.service {
		s.addToService(l)
	}
	s.touch(l)
	return follow.Replaced
}

func compareKey(l *slice, key string) int { return cmp.Compare(l.key, key) }

func (s *state) addToService(l *slice) {
	e := s.serviceFor(l.data.service)
	i, _ := slices.BinarySearchFunc(e.slices, l.key, compareKey)
	e.slices = slices.Insert(e.slices, i, l)
}

func (s *state) removeFromService(l *slice) {
	e := s.services[l.data.service]
	if i, ok := slices.BinarySearchFunc(e.slices, l.key, compareKey); ok {
		e.slices = slices.Delete(e.slices, i, i+1)
	}
	s.sweepService(l.data.service)
}

// attachPods connects a slice's addresses with their Pods and ExternalWorkloads, or
// placeholders.
func (s *state) attachPods(l *slice) {
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

func (s *state) detachPods(l *slice, data *sliceData) {
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

package cluster

import (
	"cmp"
	"slices"

	"isthmus/clusterstore/decode"
	"isthmus/clusterstore/follow"
)

// sliceKind follows EndpointSlices or Endpoints.
func sliceKind[O decode.Object](c *Cluster, name string, from decode.Source[O], compact func(O) (*slice, bool)) follow.Kind[O, *slice] {
	return follow.Kind[O, *slice]{
		Name: name, Needed: true,
		Source:  from,
		Compact: compact,
		Into:    mapStore(c.state, c.state.slices, (*slice).same, c.state.setSlice),
		Size:    (*slice).size,
		Shared:  (*slice).shared,
	}
}

// setSlice follows a change of the slice with that key; nil: there was, or is, none.
func (s *state) setSlice(key string, before, now *slice) {
	s.own.countMarked(before, -1)
	s.own.countMarked(now, 1)
	if now != nil {
		now.key = key
		s.attachPods(now)
	}
	if before != nil {
		s.detachPods(before)
		e := s.services[before.service]
		if i, ok := slices.BinarySearchFunc(e.slices, key, compareKey); ok {
			e.slices = slices.Delete(e.slices, i, i+1)
		}
	}
	if now != nil {
		e := s.serviceFor(now.service)
		i, _ := slices.BinarySearchFunc(e.slices, key, compareKey)
		e.slices = slices.Insert(e.slices, i, now)
	}
	if before != nil {
		if now != nil && before.alike(now, true) {
			now.stamp, now.changed = before.stamp, before.changed
			return
		}
		if s.sweepService(before.service); now == nil || now.service != before.service {
			s.mark(before.service)
		}
	}
	if now != nil {
		now.changed = s.now.UnixNano()
		s.touch(now)
	}
}

func compareKey(l *slice, key string) int { return cmp.Compare(l.key, key) }

// attachPods connects a slice's addresses with their Pods and ExternalWorkloads, or
// placeholders.
func (s *state) attachPods(l *slice) {
	for a := range l.connected(s.own != nil) {
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

func (s *state) detachPods(l *slice) {
	for a := range l.connected(s.own != nil) {
		if a.pod != nil {
			a.pod.slices = without(a.pod.slices, l)
			s.sweepPod(a.pod)
		}
	}
}

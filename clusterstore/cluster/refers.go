package cluster

import "unique"

// What a value names counts for the budget beside what it takes itself: the state keeps a placeholder for
// each Pod, ExternalWorkload, ReplicaSet and Job that is named, and an entry in an index for each address
// that is owned.

// refers returns how many objects and addresses a Pod or ExternalWorkload names.
func (p placedPod) refers() int {
	n := 0
	if p.facts.template.Value().owner.kind != "" {
		n++
	}
	for range p.location.all {
		n++
	}
	return n
}

// refers returns how many objects a slice names.
func (d *sliceData) refers() int {
	n := len(d.hosts())
	for i := range d.subsets {
		n += len(d.subsets[i].addresses)
	}
	return n
}

// shared has what Pods mostly have in common.
func (p placedPod) shared(yield func(any) bool) {
	_ = yield(p.facts.template) && yield(p.facts.node)
}

func (n nodeLabels) shared(yield func(any) bool) {
	_ = yield(n.zone) && yield(n.region)
}

// shared has where the addresses are, once for those one after the other that are at the same place.
func (d *sliceData) shared(yield func(any) bool) {
	for i := range d.subsets {
		if !sharedPlaces(d.subsets[i].addresses, yield) {
			return
		}
		for _, u := range d.unready(i) {
			if !yield(u.zone) || !yield(u.node) {
				return
			}
		}
	}
	sharedPlaces(d.hosts(), yield)
}

func sharedPlaces(list []address, yield func(any) bool) bool {
	var last unique.Handle[place]
	for i := range list {
		if at := list[i].place; at != last {
			if last = at; !yield(at) {
				return false
			}
		}
	}
	return true
}

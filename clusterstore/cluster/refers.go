package cluster

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

// shared has what Pods mostly have in common.
func (p placedPod) shared(yield func(any) bool) {
	_ = yield(p.facts.template) && yield(p.facts.node)
}

func (n nodeLabels) shared(yield func(any) bool) {
	_ = yield(n.zone) && yield(n.region)
}

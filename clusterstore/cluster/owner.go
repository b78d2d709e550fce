package cluster

import (
	"slices"
	"strings"
	"unique"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"isthmus/clusterstore/decode"
	"isthmus/clusterstore/follow"
)

type owner struct {
	key    string
	parent unique.Handle[ownerRef] // owner of the ReplicaSet or Job; the zero Handle for a placeholder
	pods   []*pod
}

func (o *owner) isRead() bool { return o.parent != unique.Handle[ownerRef]{} }

// ownerRef identifies an object by its lowercase kind and its name.
type ownerRef struct{ kind, name string }

// Isthmus reads ReplicaSets and Jobs only to find their owners, such as Deployments.
const (
	kindReplicaSet = "replicaset"
	kindJob        = "job"
)

func replicaSetKind(c *Cluster) follow.Kind[*metav1.PartialObjectMetadata, unique.Handle[ownerRef]] {
	return ownerKind(c, c.cfg.Client.Sources.ReplicaSets, "apps", "replicasets", kindReplicaSet)
}

func jobKind(c *Cluster) follow.Kind[*metav1.PartialObjectMetadata, unique.Handle[ownerRef]] {
	return ownerKind(c, c.cfg.Client.Sources.Jobs, "batch", "jobs", kindJob)
}

func ownerKind(
	c *Cluster, source decode.Source[*metav1.PartialObjectMetadata], group, resource, kind string,
) follow.Kind[*metav1.PartialObjectMetadata, unique.Handle[ownerRef]] {
	return follow.Kind[*metav1.PartialObjectMetadata, unique.Handle[ownerRef]]{
		Name:    resource,
		Source:  source,
		Serves:  c.serves(schema.GroupVersionResource{Group: group, Version: "v1", Resource: resource}),
		Compact: compactOwner,
		Size:    func(parent unique.Handle[ownerRef], _ string) int64 { return ownerSize() + parentSize(parent) },
		Into:    c.cache.owners.store(kind),
	}
}

// onlyOwner returns the owner of an object that has exactly one owner.
func onlyOwner(list []metav1.OwnerReference) ownerRef {
	if len(list) != 1 {
		return ownerRef{}
	}
	return ownerRef{kind: strings.ToLower(list[0].Kind), name: list[0].Name}
}

func compactOwner(o *metav1.PartialObjectMetadata) (unique.Handle[ownerRef], bool) {
	return unique.Make(onlyOwner(o.OwnerReferences)), true
}

func expandOwner(parent unique.Handle[ownerRef]) *metav1.PartialObjectMetadata {
	owners := parent.Value().references()
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{OwnerReferences: owners}}
}

// references returns owner references that onlyOwner converts back to this ownerRef.
func (r ownerRef) references() []metav1.OwnerReference {
	if r == (ownerRef{}) {
		return nil
	}
	return []metav1.OwnerReference{{Kind: r.kind, Name: r.name}}
}

// The size is the same for ReplicaSets, Jobs and placeholders. The size does not include the key.
func ownerSize() int64 { return allocation + sizeof[owner]() + indexEntry[*owner]() + listedSize }

func parentSize(parent unique.Handle[ownerRef]) int64 {
	ref := parent.Value()
	return uniqueSize + sizeof[ownerRef]() + textSize(ref.kind) + textSize(ref.name)
}

type ownerIndex struct {
	cache       *cache
	replicaSets map[string]*owner
	jobs        map[string]*owner
}

func newOwnerIndex(c *cache) ownerIndex {
	return ownerIndex{cache: c, replicaSets: make(map[string]*owner), jobs: make(map[string]*owner)}
}

// If Isthmus does not read owners of the given kind, ofKind returns nil.
func (x *ownerIndex) ofKind(kind string) map[string]*owner {
	switch kind {
	case kindReplicaSet:
		return x.replicaSets
	case kindJob:
		return x.jobs
	}
	return nil
}

func (x *ownerIndex) attach(p *pod) {
	t := p.facts.fullTemplate()
	ref := t.owner
	all := x.ofKind(ref.kind)
	if all == nil || t.external() {
		return
	}
	namespace, _ := p.id(&t)
	key := follow.JoinKey(namespace, ref.name)
	o := all[key]
	if o == nil {
		if strings.HasPrefix(p.key, key) {
			key = p.key[:len(key)] // share the string, because most Pods are named after their owner
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

func (x *ownerIndex) detach(p *pod) {
	o := p.owner
	if o == nil {
		return
	}
	p.owner = nil
	o.pods = removeFrom(o.pods, p)
	sweepOwner(x.ofKind(p.facts.template.Value().owner.kind), o)
}

func sweepOwner(all map[string]*owner, o *owner) {
	if !o.isRead() && len(o.pods) == 0 {
		delete(all, o.key)
	}
}

func (x *ownerIndex) store(kind string) store[unique.Handle[ownerRef]] {
	all := x.ofKind(kind)
	get := func(key string) (parent unique.Handle[ownerRef], exists bool) {
		if o := all[key]; o != nil {
			return o.parent, o.isRead()
		}
		return parent, false
	}
	set := func(key string, parent unique.Handle[ownerRef], _ bool) {
		o := all[key]
		if o == nil {
			o = &owner{key: key}
			all[key] = o
		}
		o.parent = parent
		for _, p := range o.pods {
			x.cache.pods.invalidate(p)
		}
		sweepOwner(all, o)
	}
	keys := func(yield func(string) bool) {
		for key, o := range all {
			if o.isRead() && !yield(key) {
				return
			}
		}
	}
	same := func(a, b unique.Handle[ownerRef]) bool { return a == b }
	return store[unique.Handle[ownerRef]]{cache: x.cache, same: same, get: get, set: set, keys: keys}
}

var ownersOfReplicaSets = []string{kindJob, "statefulset", "daemonset", "deployment"}

// topOwner returns the workload to which a Pod belongs, such as a Deployment. The workload is
// usually the topmost known owner of the Pod. If a Pod has no owner, topOwner returns the Pod
// itself.
func topOwner(p *pod, t *template) ownerRef {
	switch {
	case t.owner == ownerRef{}:
		_, name := p.id(t)
		return ownerRef{"pod", name}
	case p.owner == nil || !p.owner.isRead() || p.owner.parent.Value() == ownerRef{}:
		return t.owner
	}
	parent := p.owner.parent.Value()
	if t.owner.kind == kindReplicaSet && !slices.Contains(ownersOfReplicaSets, parent.kind) {
		return t.owner
	}
	return parent
}

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

// owner is a ReplicaSet or Job, of which only its own owner is kept.
type owner struct {
	key    string
	parent unique.Handle[reference] // its owner; the zero Handle: it has not been read (yet)
	pods   []*pod                   // that it owns
}

func (o *owner) isRead() bool { return o.parent != unique.Handle[reference]{} }

// reference names an object by kind, in lower case, and name.
type reference struct{ kind, name string }

// Kinds of owners that are read, to know what owns them.
const (
	kindReplicaSet = "replicaset"
	kindJob        = "job"
)

// replicaSets and jobs follow ReplicaSets and Jobs.
func (c *Cluster) replicaSets() follow.Kind[*metav1.PartialObjectMetadata, unique.Handle[reference]] {
	return c.owners(c.cfg.Client.Sources.ReplicaSets, "apps", "replicasets", kindReplicaSet)
}

func (c *Cluster) jobs() follow.Kind[*metav1.PartialObjectMetadata, unique.Handle[reference]] {
	return c.owners(c.cfg.Client.Sources.Jobs, "batch", "jobs", kindJob)
}

func (c *Cluster) owners(source decode.Source[*metav1.PartialObjectMetadata], group, resource, kind string) follow.Kind[*metav1.PartialObjectMetadata, unique.Handle[reference]] {
	return follow.Kind[*metav1.PartialObjectMetadata, unique.Handle[reference]]{
		Name:    resource,
		Source:  source,
		Serves:  c.serves(schema.GroupVersionResource{Group: group, Version: "v1", Resource: resource}),
		Compact: compactOwner,
		Size:    func(parent unique.Handle[reference], _ string) int64 { return ownerSize() + parentSize(parent) },
		Into:    c.state.ownerStore(kind),
	}
}

// onlyOwner returns the owner, if there is exactly one.
func onlyOwner(list []metav1.OwnerReference) reference {
	if len(list) != 1 {
		return reference{}
	}
	return reference{kind: strings.ToLower(list[0].Kind), name: list[0].Name}
}

// compactOwner keeps the owner of a ReplicaSet or Job.
func compactOwner(o *metav1.PartialObjectMetadata) (unique.Handle[reference], bool) {
	return unique.Make(onlyOwner(o.OwnerReferences)), true
}

// ownerSize is what the state takes for a ReplicaSet or Job, or the placeholder of one, without its key.
func ownerSize() int64 { return allocation + sizeof[owner]() + indexEntry[*owner]() + listedSize }

// parentSize is what a ReplicaSet or Job takes for the name of its own owner.
func parentSize(parent unique.Handle[reference]) int64 {
	ref := parent.Value()
	return uniqueSize + sizeof[reference]() + textSize(ref.kind) + textSize(ref.name)
}

// owners returns the map of owners of that kind; nil: the kind is not read.
func (s *state) owners(kind string) map[string]*owner {
	switch kind {
	case kindReplicaSet:
		return s.replicaSets
	case kindJob:
		return s.jobs
	}
	return nil
}

// attachOwner connects a Pod with its ReplicaSet or Job, or a placeholder for that.
func (s *state) attachOwner(p *pod) {
	t := p.facts.fullTemplate()
	ref := t.owner
	all := s.owners(ref.kind)
	if all == nil || t.external() {
		return
	}
	namespace, _ := p.id(&t)
	key := follow.JoinKey(namespace, ref.name)
	o := all[key]
	if o == nil {
		if strings.HasPrefix(p.key, key) {
			key = p.key[:len(key)] // share the memory: most Pods are named after their owner
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

func (s *state) detachOwner(p *pod) {
	o := p.owner
	if o == nil {
		return
	}
	p.owner = nil
	o.pods = without(o.pods, p)
	sweepOwner(s.owners(p.facts.template.Value().owner.kind), o)
}

func sweepOwner(all map[string]*owner, o *owner) {
	if !o.isRead() && len(o.pods) == 0 {
		delete(all, o.key)
	}
}

func (s *state) ownerStore(kind string) store[unique.Handle[reference]] {
	all := s.owners(kind)
	return store[unique.Handle[reference]]{
		state: s, same: func(a, b unique.Handle[reference]) bool { return a == b },
		get: func(key string) (parent unique.Handle[reference], exists bool) {
			if o := all[key]; o != nil {
				return o.parent, o.isRead()
			}
			return parent, false
		},
		set: func(key string, parent unique.Handle[reference], _ bool) {
			o := all[key]
			if o == nil {
				o = &owner{key: key}
				all[key] = o
			}
			o.parent = parent
			for _, p := range o.pods {
				s.touchPod(p)
			}
			sweepOwner(all, o)
		},
		keys: func(yield func(string) bool) {
			for key, o := range all {
				if o.isRead() && !yield(key) {
					return
				}
			}
		},
	}
}

// ownersOfReplicaSets are the kinds of a ReplicaSet's owner that topOwner accepts.
var ownersOfReplicaSets = []string{kindJob, "statefulset", "daemonset", "deployment"}

// topOwner returns the Pod's topmost owner that is known and is a workload in the eyes
// of users, such as a Deployment. Without owner that is the Pod itself.
func (p *pod) topOwner(t *template) reference {
	switch {
	case t.owner == reference{}:
		_, name := p.id(t)
		return reference{"pod", name}
	case p.owner == nil || !p.owner.isRead() || p.owner.parent.Value() == reference{}:
		return t.owner
	}
	parent := p.owner.parent.Value()
	if t.owner.kind == kindReplicaSet && !slices.Contains(ownersOfReplicaSets, parent.kind) {
		return t.owner
	}
	return parent
}

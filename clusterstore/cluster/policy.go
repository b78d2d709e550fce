package cluster

import (
	"fmt"
	"maps"
	"slices"
	"unique"

	"k8s.io/apimachinery/pkg/labels"

	"isthmus/clusterstore/follow"

	"isthmus/internal/pace"
)

// policy is the Servers of one namespace that make ports opaque, or can't be read, and which
// ports these make opaque of its Pods and ExternalWorkloads. All is under state.mu.
//
// Pods with the same labels and ports are a set, which is evaluated once. When a Server changes, a worker
// evaluates all sets, in the namespace's turn; until then, Pods have the opaque ports that they had. That
// worker does nothing else, so that no change of a service waits for it. When a Pod changes, and no other is
// like it, its set is evaluated before it is put into the state. Neither holds state.mu.
type policy struct {
	servers map[string]*serverFacts // by name
	changed bool                    // a Server has changed since the worker has read them
	failed  bool                    // an evaluation has panicked: the next one evaluates all sets, and touches all Pods
	logged  excess                  // the one that was logged, while it lasts
	used    *usedServers            // by which sets are evaluated; nil: the worker has not been here
	pods    map[*pod]*podSet        // nil: the worker has not been here
	sets    map[podFacts]*podSet    // those of pods
	lists   map[opaquePorts]bool    // which sets have, or have had since the worker has been here
	size    int                     // of lists, in bytes
	lacking bool                    // there is no room in lists for those of all sets
}

// policySize is what a policy takes with maps for one Server and one set of Pods, in bytes.
const policySize = 1600

// podSet is so many Pods or ExternalWorkloads of a namespace with the same labels and ports.
type podSet struct {
	facts  podFacts // without node
	pods   int
	by     *usedServers // by which it was evaluated last
	opaque opaquePorts
	lacks  bool // there is no room for what Servers make opaque of it
}

// opaquePorts are all opaque ports of Pods of which Servers make some opaque; zero: they have their own only.
// Equal ones share memory.
type opaquePorts = unique.Handle[Ports]

const (
	// maxPolicy is how much the Servers of one namespace may cost: those beyond it, by
	// name, are ignored. Matching a Pod with 500 labels against that much takes 0.4 ms, with
	// a port of its own for each Server some tenths more, and each change of a Server has all
	// Pods of its namespace matched again.
	maxPolicy = 10_000
	// maxOpaqueBytes is how many bytes the opaque ports of a namespace's Pods take at most, equal ones
	// once. Of further Pods only their own ports are opaque.
	maxOpaqueBytes = 1 << 20
)

// portsOf returns all opaque ports of a Pod of the namespace, given its own. p may be nil.
func (p *policy) portsOf(of *pod, own Ports) Ports {
	if p != nil {
		if set := p.pods[of]; set != nil && set.opaque != (opaquePorts{}) {
			return set.opaque.Value()
		}
	}
	return own
}

// join adds a Pod to the set of those like it.
func (p *policy) join(of *pod, evaluated *podSet) *podSet {
	facts := of.facts.alike()
	set := p.sets[facts]
	if set == nil {
		if set = evaluated; set == nil {
			set = &podSet{facts: facts}
		}
		p.sets[facts] = set
		p.cacheOpaque(set)
	}
	set.pods++
	p.pods[of] = set
	return set
}

// cacheOpaque keeps what is opaque of a set, if there is room.
func (p *policy) cacheOpaque(set *podSet) {
	set.lacks = false
	if set.opaque == (opaquePorts{}) || p.lists[set.opaque] {
		return
	}
	size := 64 + len(set.opaque.Value().ranges)
	if p.size+size > maxOpaqueBytes {
		set.opaque, set.lacks, p.lacking = opaquePorts{}, true, true
		return
	}
	p.lists[set.opaque] = true
	p.size += size
}

// setOpaque stores what was found by the Servers that are used, and returns what all sets had before. Those of Pods
// that had others than their own ports get theirs before the rest.
func (p *policy) setOpaque(found map[*podSet]opaquePorts) map[*podSet]opaquePorts {
	had := make(map[*podSet]opaquePorts)
	for _, set := range p.sets {
		had[set] = set.opaque
	}
	for set, opaque := range found {
		set.by = p.used
		set.opaque = opaque
	}
	p.lists = make(map[opaquePorts]bool)
	p.size = 0
	p.lacking = false
	for _, some := range []bool{true, false} {
		for set, before := range had {
			if (before != opaquePorts{}) == some {
				p.cacheOpaque(set)
			}
		}
	}
	return had
}

// excess is what the Servers of a namespace have too much of.
type excess uint8

const (
	noExcess   excess = iota // all Servers are used, for all Pods
	costly                   // they cost more than maxPolicy
	manyOpaque               // what they make opaque takes more than maxOpaqueBytes
)

// excess returns what the Servers have too much of, and describes for people why not all Servers are used, or not for
// all Pods.
func (p *policy) excess() (excess, string) {
	switch {
	case p.used.cost > maxPolicy:
		return costly, fmt.Sprintf("the %d that make ports opaque cost %d "+
			"(each 1, and 1 for each key and value of its selectors), more than %d: "+
			"in the order of their names, those from the first that goes beyond it make no port opaque; "+
			"use fewer Servers or shorter selectors",
			len(p.servers), p.used.cost, maxPolicy)
	case p.lacking:
		return manyOpaque, fmt.Sprintf("what they make opaque of its Pods takes more than %d MiB: "+
			"of further Pods they make no port opaque; "+
			"let Servers select more Pods alike, or name fewer ports", maxOpaqueBytes>>20)
	}
	return noExcess, ""
}

// usedServers are the Servers of a namespace that are used. They are immutable.
type usedServers struct {
	list []*serverFacts
	cost int // of all Servers
}

// useServers leaves out malformed Servers, and in the order of their names those beyond maxPolicy.
func useServers(servers map[string]*serverFacts) *usedServers {
	used := &usedServers{}
	for _, name := range slices.Sorted(maps.Keys(servers)) {
		f := servers[name]
		used.cost += f.cost()
		if used.cost <= maxPolicy && f.invalid == "" {
			used.list = append(used.list, f)
		}
	}
	return used
}

// opaque returns the opaque ports of Pods with these facts: their own, and those that a Server makes so, by number
// or by name.
func (u *usedServers) opaque(facts podFacts) (all opaquePorts) {
	t := facts.fullTemplate()
	of := labels.Set(maps.Collect(t.labels.all))
	ports := t.opaque.appendTo(nil)
	named := make(map[string][]portRange)
	for name, port := range t.ports.all {
		named[name] = append(named[name], portRange{port, port})
	}
	for _, f := range u.list {
		selector := f.pods
		if t.external() {
			selector = f.workloads
		}
		switch {
		case !selector.Matches(of):
		case f.name != "":
			ports = append(ports, named[f.name]...)
		default:
			ports = append(ports, portRange{f.number, f.number})
		}
	}
	if made := newPorts(ports); made != t.opaque {
		all = unique.Make(made)
	}
	return all
}

// policyIndex has the Servers of a cluster, and what they say of the Pods of each namespace. state.mu guards it.
type policyIndex struct {
	// fixed
	state *state
	dirty *pace.Dirty[string] // namespaces whose policy is to be evaluated

	servers     map[string]*serverFacts // by key
	byNamespace map[string]*policy
}

func newPolicyIndex(s *state) policyIndex {
	return policyIndex{
		state:       s,
		dirty:       pace.NewDirty[string](),
		servers:     make(map[string]*serverFacts),
		byNamespace: make(map[string]*policy),
	}
}

// setServer keeps a Server that has changed for its namespace's policy.
func (x *policyIndex) setServer(key string, _, f *serverFacts) {
	namespace, name := follow.SplitKey(key)
	p := x.byNamespace[namespace]
	if p == nil {
		p = &policy{servers: make(map[string]*serverFacts)}
		x.byNamespace[namespace] = p
	}
	reason := ""
	if f == nil {
		delete(p.servers, name)
	} else {
		p.servers[name] = f
		reason = f.invalid
	}
	x.state.setUnusable("Server "+key, reason)
	p.changed = true
	x.mark(namespace)
	if len(p.servers) > 0 {
		return
	}
	delete(x.byNamespace, namespace)
	x.state.setUnusable("Servers of namespace "+namespace, "")
	for of, set := range p.pods { // they are left with their own opaque ports
		if set.opaque != (opaquePorts{}) {
			x.state.pods.touch(of)
		}
	}
}

func (x *policyIndex) namespaces() []string {
	x.state.mu.RLock()
	defer x.state.mu.RUnlock()
	return slices.Collect(maps.Keys(x.byNamespace))
}

// evaluatePod evaluates a Pod that is to be put into the state, if no other is like it. state.mu is not held.
func (x *policyIndex) evaluatePod(key string, o compactedPod) compactedPod {
	if by := x.serversFor(key, o); by != nil {
		o.set = &podSet{facts: o.facts.alike(), by: by, opaque: by.opaque(o.facts)}
	}
	return o
}

// serversFor returns the Servers by which a Pod must be evaluated. If another one is like it, that is nil.
func (x *policyIndex) serversFor(key string, o compactedPod) *usedServers {
	x.state.mu.RLock()
	defer x.state.mu.RUnlock()
	if p := x.byNamespace[namespaceOfPod(key)]; p != nil && p.sets[o.facts.alike()] == nil {
		return p.used
	}
	return nil
}

// regroup moves a Pod that is put into the state, or has gone, to the set of those like it. If there is none yet, it
// is the one that was evaluated, or nil.
func (x *policyIndex) regroup(of *pod, evaluated *podSet) {
	p := x.byNamespace[of.namespace()]
	if p == nil || p.pods == nil { // the worker will
		return
	}
	if old := p.pods[of]; old != nil {
		delete(p.pods, of)
		if old.pods--; old.pods == 0 {
			delete(p.sets, old.facts)
		}
	}
	current := true
	if of.facts.isRead() {
		current = p.join(of, evaluated).by == p.used
	}
	if !current || p.lacking { // or there may be room now
		x.mark(of.namespace())
	}
}

// mark has the worker evaluate a namespace's policy.
func (x *policyIndex) mark(namespace string) {
	if x.state.live {
		x.dirty.Add(namespace, namespace, x.state.now)
	}
}

// evaluate evaluates the sets of a namespace's Pods whose last evaluation used other Servers
// than exist now, and the sets for which there was no room. It returns why not all Servers are used
// if the reason is new and has to be logged. It is not called concurrently for one namespace.
func (x *policyIndex) evaluate(namespace string) (reason string) {
	p, servers, found := x.toEvaluate(namespace)
	if p == nil {
		return ""
	}
	done := false
	defer func() {
		if !done {
			x.failed(namespace, p)
		}
	}()
	by := p.used // which this goroutine alone writes
	if servers != nil {
		by = useServers(servers)
	}
	for set := range found {
		found[set] = by.opaque(set.facts)
	}
	reason = x.use(namespace, p, by, found)
	done = true
	return reason
}

// toEvaluate returns a namespace's policy, its Servers if they have changed, and the sets to
// evaluate. If the namespace has no policy, all are nil.
func (x *policyIndex) toEvaluate(namespace string) (
	p *policy, servers map[string]*serverFacts, found map[*podSet]opaquePorts,
) {
	x.state.lock()
	defer x.state.mu.Unlock()
	if p = x.byNamespace[namespace]; p == nil {
		return nil, nil, nil
	}
	if p.pods == nil || p.failed {
		before := p.sets
		p.pods = make(map[*pod]*podSet)
		p.sets = make(map[podFacts]*podSet)
		for of := range x.state.pods.of(namespace) {
			var evaluated *podSet
			if set := before[of.facts.alike()]; set != nil {
				evaluated = &podSet{facts: set.facts, opaque: set.opaque}
			}
			p.join(of, evaluated)
		}
	}
	if p.changed || p.failed {
		servers = maps.Clone(p.servers)
		p.changed = false
	}
	found = make(map[*podSet]opaquePorts)
	for _, set := range p.sets {
		if servers != nil || set.by != p.used || set.lacks {
			found[set] = opaquePorts{}
		}
	}
	return p, servers, found
}

// use stores the opaque ports that were found, and touches the Pods whose opaque ports
// differ. Like evaluatePolicy, it returns why not all Servers are used.
func (x *policyIndex) use(namespace string, p *policy, by *usedServers, found map[*podSet]opaquePorts) (reason string) {
	x.state.lock()
	defer x.state.mu.Unlock()
	if x.byNamespace[namespace] != p {
		return ""
	}
	p.used = by
	had := p.setOpaque(found)
	for of, set := range p.pods {
		if p.failed || set.opaque != had[set] {
			x.state.pods.touch(of)
		}
		if set.by != by { // it is new
			x.mark(namespace)
		}
	}
	p.failed = false
	excess, reason := p.excess()
	x.state.setUnusable("Servers of namespace "+namespace, reason)
	if !x.state.live { // the worker will find it again
		return ""
	}
	before := p.logged
	p.logged = excess
	if before == excess {
		return ""
	}
	return reason
}

// failed records that the evaluation of a policy has panicked. Pods whose opaque ports were
// not updated before the panic keep their opaque ports.
func (x *policyIndex) failed(namespace string, p *policy) {
	x.state.lock()
	defer x.state.mu.Unlock()
	if x.byNamespace[namespace] == p {
		p.failed = true
		x.state.setUnusable("Servers of namespace "+namespace,
			"Isthmus panics when it evaluates them, which is a bug; "+
				"it retries, and until then ports stay as opaque as they were")
	}
}

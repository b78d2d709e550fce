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

// policy contains those Servers of a namespace that make ports opaque or are malformed. Each policy
// contains the ports that its Servers make opaque for Pods and ExternalWorkloads. The cache.mu
// mutex guards a policy, but is not held during an evaluation.
//
// Pods are siblings if they differ only in their nodes and in data that does not affect endpoints.
// Each group of sibling Pods forms a set. Opaque ports are evaluated once for each set of sibling
// Pods, rather than once for each Pod. After a Server changes, a dedicated worker reevaluates the
// opaque ports of every set of sibling Pods in the Server's namespace. Until the worker has
// finished, Pods keep their previous opaque ports. If a new or changed Pod has no siblings yet, the
// Pod's opaque ports are evaluated before the Pod is added to the cache.
type policy struct {
	servers map[string]*serverFacts // by name
	changed bool                    // a Server has changed since the worker last read the Servers
	failed  bool                    // an evaluation panicked, so the next includes all sets and invalidates all Pods
	logged  excess                  // the excess that was logged last, while it persists
	used    *usedServers            // the Servers used to evaluate sets; nil before the first evaluation
	pods    map[*pod]*podSet        // nil before the first evaluation
	sets    map[podFacts]*podSet    // the sets of all Pods in the pods map
	lists   map[opaquePorts]bool    // the opaque ports of all sets, now or since the last evaluation
	size    int                     // size of the lists map in bytes
	lacking bool                    // the opaque ports of some sets exceed maxOpaqueBytes
}

// policySize is the size in bytes of a policy with one Server and one set of Pods, including its
// maps.
const policySize = 1600

type podSet struct {
	facts  podFacts
	pods   int
	by     *usedServers // the Servers used in the last evaluation
	opaque opaquePorts
	lacks  bool // the opaque ports of this set exceed maxOpaqueBytes
}

// opaquePorts contains all opaque ports of a Pod: those that Servers make opaque, and those from
// the Pod's annotation or from the defaults. The zero value means that no Server adds opaque ports,
// and that only the ports from the annotation or from the defaults apply. Equal values share
// memory.
type opaquePorts = unique.Handle[Ports]

const (
	// maxPolicy is the maximum total cost of the Servers in one namespace. Servers are counted in
	// order of name, and Servers beyond the limit are ignored.
	//
	// Matching a Pod with 500 labels against Servers with this total cost takes 0.4 ms. If each
	// Server has a different port, matching takes a few tenths of a millisecond longer. After each
	// change to a Server, the worker matches every set of sibling Pods in the namespace against the
	// namespace's Servers.
	maxPolicy = 10_000
	// maxOpaqueBytes is the maximum number of bytes for the opaque ports of the Pods in a
	// namespace. Equal sets of ports are counted only once. If storing the opaque ports of a Pod
	// would exceed the limit, Servers are ignored for that Pod.
	maxOpaqueBytes = 1 << 20
)

// portsOf returns all opaque ports of a Pod in the namespace. If no Server makes a port of the Pod
// opaque, portsOf returns its second argument. The receiver may be nil.
func (p *policy) portsOf(of *pod, own Ports) Ports {
	if p != nil {
		if set := p.pods[of]; set != nil && set.opaque != (opaquePorts{}) {
			return set.opaque.Value()
		}
	}
	return own
}

// The join method adds a Pod to the set of its siblings. If a Pod's siblings have no set yet, the
// second argument of the join method becomes their set. If the siblings have no set and the second
// argument is nil, the join method creates a set.
func (p *policy) join(of *pod, evaluated *podSet) *podSet {
	facts := of.facts.withoutNode()
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

// If caching the opaque ports of a set would exceed maxOpaqueBytes, the ports are not cached.
func (p *policy) cacheOpaque(set *podSet) {
	set.lacks = false
	if set.opaque == (opaquePorts{}) || p.lists[set.opaque] {
		return
	}
	size := 64 + len(set.opaque.Value().ranges)
	if p.size+size > maxOpaqueBytes {
		set.opaque = opaquePorts{}
		set.lacks = true
		p.lacking = true
		return
	}
	p.lists[set.opaque] = true
	p.size += size
}

// setOpaque stores the results of an evaluation, and returns the previous opaque ports of all sets.
// If the results exceed maxOpaqueBytes, sets that already had opaque ports from Servers take
// precedence.
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

type excess uint8

const (
	noExcess   excess = iota // all Servers apply to all Pods
	costly                   // the Servers cost more than maxPolicy
	manyOpaque               // the opaque ports need more than maxOpaqueBytes
)

// If the Servers of a namespace exceed a limit, the excess method returns this limit and a message
// about the affected Servers or Pods.
func (p *policy) excess() (excess, string) {
	switch {
	case p.used.cost > maxPolicy:
		return costly, fmt.Sprintf("evaluating the %d Servers that make ports opaque would have a total cost of %d "+
			"(each Server costs 1, plus 1 for each key and value in its selectors), but the limit is %d: "+
			"Isthmus evaluates the Servers in alphabetical order, and ignores those beyond the limit; "+
			"use fewer Servers or shorter selectors",
			len(p.servers), p.used.cost, maxPolicy)
	case p.lacking:
		return manyOpaque, fmt.Sprintf("the opaque ports of Pods in the namespace need more than %d MiB of memory: "+
			"for Pods beyond the limit, Isthmus ignores the Servers; "+
			"use fewer different sets of opaque ports for the Pods, or make fewer ports opaque", maxOpaqueBytes>>20)
	}
	return noExcess, ""
}

// usedServers is an immutable list of the Servers that are evaluated in a namespace.
type usedServers struct {
	list []*serverFacts
	cost int // total cost of all Servers, including those that are not evaluated
}

// useServers returns the Servers to evaluate. Malformed Servers are omitted. If the total cost
// exceeds maxPolicy, the Servers whose names sort last are omitted.
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

// The opaque method determines the opaque ports of a Pod from the cached data about the Pod. If any
// Server makes additional ports opaque, the method returns all opaque ports of the Pod, including
// those that are opaque by default or because of an annotation. If no Server makes additional ports
// opaque, the method returns the zero value.
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

type policyIndex struct {
	cache *cache
	dirty *pace.Dirty[string] // namespaces whose policies must be evaluated

	servers     map[string]*serverFacts // by key
	byNamespace map[string]*policy
}

func newPolicyIndex(c *cache) policyIndex {
	return policyIndex{
		cache:       c,
		dirty:       pace.NewDirty[string](),
		servers:     make(map[string]*serverFacts),
		byNamespace: make(map[string]*policy),
	}
}

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
	x.cache.setUnusable("Server "+key, reason)
	p.changed = true
	x.mark(namespace)
	if len(p.servers) > 0 {
		return
	}
	delete(x.byNamespace, namespace)
	x.cache.setUnusable("Servers of namespace "+namespace, "")
	for of, set := range p.pods { // without Servers, only opaque ports of the Pods themselves apply
		if set.opaque != (opaquePorts{}) {
			x.cache.pods.invalidate(of)
		}
	}
}

func (x *policyIndex) namespaces() []string {
	x.cache.mu.RLock()
	defer x.cache.mu.RUnlock()
	return slices.Collect(maps.Keys(x.byNamespace))
}

// evaluatePod determines the opaque ports of a Pod before the Pod is added to the cache. If the Pod
// belongs to an existing set, evaluatePod does nothing. The caller must not hold cache.mu.
func (x *policyIndex) evaluatePod(key string, o compactedPod) compactedPod {
	if by := x.serversFor(key, o); by != nil {
		o.evaluated = &podSet{facts: o.facts.withoutNode(), by: by, opaque: by.opaque(o.facts)}
	}
	return o
}

// serversFor returns the Servers to evaluate for a Pod, or nil if the Pod belongs to an existing
// set.
func (x *policyIndex) serversFor(key string, o compactedPod) *usedServers {
	x.cache.mu.RLock()
	defer x.cache.mu.RUnlock()
	if p := x.byNamespace[namespaceOfPod(key)]; p != nil && p.sets[o.facts.withoutNode()] == nil {
		return p.used
	}
	return nil
}

// regroup adds a new or changed Pod to the set of its siblings, and removes a deleted Pod from its
// set. If the siblings of the Pod already have a set, regroup ignores the second argument.
func (x *policyIndex) regroup(of *pod, evaluated *podSet) {
	p := x.byNamespace[of.namespace()]
	if p == nil || p.pods == nil { // the first evaluation groups the Pods
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
	if !current || p.lacking { // other sets may fit now
		x.mark(of.namespace())
	}
}

func (x *policyIndex) mark(namespace string) {
	if x.cache.live {
		x.dirty.Add(namespace, namespace, x.cache.now)
	}
}

// The evaluate method updates the opaque ports of each set of Pods that was last evaluated before
// the Servers changed. Sets whose opaque ports exceeded maxOpaqueBytes are also evaluated again. If
// the Servers exceed a limit that they did not exceed before, the result is a message to log. Calls
// for the same namespace must not overlap.
func (x *policyIndex) evaluate(namespace string) (reason string) {
	p, servers, found := x.toEvaluate(namespace)
	if p == nil {
		return ""
	}
	done := false
	defer func() {
		if !done {
			x.noteFailure(namespace, p)
		}
	}()
	by := p.used // only this goroutine writes the used field
	if servers != nil {
		by = useServers(servers)
	}
	for set := range found {
		found[set] = by.opaque(set.facts)
	}
	reason = x.apply(namespace, p, by, found)
	done = true
	return reason
}

// toEvaluate returns a namespace's policy, the namespace's Servers, and the sets of Pods to
// evaluate. If the sets can be evaluated against the same Servers as before, the second result is
// nil. If the namespace has no policy, all results are nil.
func (x *policyIndex) toEvaluate(namespace string) (
	p *policy, servers map[string]*serverFacts, found map[*podSet]opaquePorts,
) {
	x.cache.lock()
	defer x.cache.mu.Unlock()
	if p = x.byNamespace[namespace]; p == nil {
		return nil, nil, nil
	}
	if p.pods == nil || p.failed {
		before := p.sets
		p.pods = make(map[*pod]*podSet)
		p.sets = make(map[podFacts]*podSet)
		for of := range x.cache.pods.inNamespace(namespace) {
			var evaluated *podSet
			if set := before[of.facts.withoutNode()]; set != nil {
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

// The apply method stores the results of an evaluation, and invalidates the Pods whose opaque ports
// have changed. If the Servers exceed a limit that they did not exceed before, the result is a
// message to log.
func (x *policyIndex) apply(
	namespace string, p *policy, by *usedServers, found map[*podSet]opaquePorts,
) (reason string) {
	x.cache.lock()
	defer x.cache.mu.Unlock()
	if x.byNamespace[namespace] != p {
		return ""
	}
	p.used = by
	had := p.setOpaque(found)
	for of, set := range p.pods {
		if p.failed || set.opaque != had[set] {
			x.cache.pods.invalidate(of)
		}
		if set.by != by { // the set is new
			x.mark(namespace)
		}
	}
	p.failed = false
	excess, reason := p.excess()
	x.cache.setUnusable("Servers of namespace "+namespace, reason)
	if !x.cache.live { // the worker reports the reason after the first sync
		return ""
	}
	before := p.logged
	p.logged = excess
	if before == excess {
		return ""
	}
	return reason
}

// noteFailure records that the evaluation of a policy panicked. A Pod that was not updated before
// the panic keeps its previous opaque ports.
func (x *policyIndex) noteFailure(namespace string, p *policy) {
	x.cache.lock()
	defer x.cache.mu.Unlock()
	if x.byNamespace[namespace] == p {
		p.failed = true
		x.cache.setUnusable("Servers of namespace "+namespace,
			"Isthmus panicked while evaluating the Servers, because of a bug; "+
				"Isthmus retries, and keeps the previous opaque ports until the evaluation succeeds")
	}
}

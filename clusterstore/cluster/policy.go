package cluster

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/labels"

	"isthmus/clusterstore/follow"
)

// policy is the Servers of one namespace that make ports opaque, or can't be read, and which
// ports these make opaque of its Pods and ExternalWorkloads. All is under state.mu.
//
// When a Server changes, a worker evaluates each distinct set of labels and ports once, in the
// namespace's turn; until then, Pods have the opaque ports that they had. That worker does nothing
// else, so that no change of a service waits for it. When a Pod changes, its set is evaluated before it
// is put into the state. Neither holds state.mu.
type policy struct {
	servers map[string]*serverFacts // by name
	cost    int                     // of them all
	logged  bool                    // that not all are used
	changed bool                    // all Pods are to be evaluated: a Server has changed, or there is room for more of opaque
	used    *compiledServers        // by which Pods were evaluated last; nil: never
	busy    bool                    // a worker evaluates
	changes []*pod                  // that have changed meanwhile
	opaque  map[*pod]*opaquePorts   // of those that have others than their own
	sets    map[Ports]*opaquePorts  // those of opaque: equal ones share memory
	lacking map[*pod]struct{}       // those that have their own opaque ports only, for maxRemembered

	remembered int // bytes that sets take
}

// opaquePorts are all that are opaque of so many Pods.
type opaquePorts struct {
	ports Ports
	pods  int
}

// size is what it takes, in bytes.
func (o *opaquePorts) size() int { return 64 + len(o.ports.ranges) }

const (
	// maxPolicy is how much the Servers of one namespace may cost: those beyond it, by
	// name, are ignored. Matching a Pod with 500 labels against that much takes 0.4 ms, with
	// a port of its own for each Server some tenths more, and each change of a Server has all
	// Pods of its namespace matched again.
	maxPolicy = 10_000
	// maxRemembered is how many bytes the opaque ports of a namespace's Pods take at most, equal ones
	// once. Of further Pods only their own ports are opaque.
	maxRemembered = 1 << 20
)

// alike is the same for Pods or ExternalWorkloads with the same labels and ports.
func (f podFacts) alike() podFacts { return podFacts{template: f.template, traits: f.traits} }

// portsOf returns all opaque ports of a Pod of the namespace, given its own. p may be nil.
func (p *policy) portsOf(of *pod, own Ports) Ports {
	if p != nil {
		if set := p.opaque[of]; set != nil {
			return set.ports
		}
	}
	return own
}

// policyFor returns the policy of the namespace of the Pod with that key; nil: that has no Servers.
func (s *state) policyFor(key string) *policy {
	if len(s.policies) == 0 {
		return nil
	}
	return s.policies[namespaceOfPod(key)]
}

// evaluate evaluates a Pod that is to be put into the state. state.mu is not held.
func (s *state) evaluate(key string, o placedPod) placedPod {
	s.mu.RLock()
	if p := s.policyFor(key); p != nil {
		if old := s.pods.get(key); old == nil || !old.facts.siblings(o.facts) {
			o.by = p.used
		}
	}
	s.mu.RUnlock()
	if o.by != nil {
		t := o.facts.fullTemplate()
		o.opaque = o.by.opaque(&t)
	}
	return o
}

// putEvaluated stores what was evaluated of a Pod that is put into the state, or has gone.
func (s *state) putEvaluated(of *pod, o placedPod) {
	p := s.policyFor(of.key)
	switch {
	case p == nil:
	case !of.facts.isRead():
		s.forgetOpaque(p, of)
		s.reportPolicy(of.namespace(), p)
	case p.used != nil || p.busy: // otherwise a worker will evaluate all
		if o.by != nil {
			s.setOpaque(p, map[*pod]Ports{of: o.opaque})
			s.reportPolicy(of.namespace(), p)
		}
		if p.busy || p.used != o.by {
			p.changes = append(p.changes, of)
			s.markPolicy(of.namespace())
		}
	}
}

// reportPolicy notes why not all Servers are used, or not for all Pods.
func (s *state) reportPolicy(namespace string, p *policy) {
	s.setUnusable("Servers of namespace "+namespace, p.excess())
}

// setOpaque stores the opaque ports of Pods, and returns those that have others than before. It forgets what they
// had first: so what takes no more fits. Those that had others than their own get theirs before the rest.
func (s *state) setOpaque(p *policy, all map[*pod]Ports) (changed []*pod) {
	before := make(map[*pod]Ports)
	for of, ports := range all {
		own := of.facts.template.Value().opaque
		if has := p.portsOf(of, own); ports != has || ports == own {
			before[of] = has
			s.forgetOpaque(p, of)
		}
	}
	for _, more := range []bool{true, false} {
		for of, had := range before {
			own := of.facts.template.Value().opaque
			if (had != own) != more {
				continue
			}
			if ports := all[of]; ports != own {
				p.remember(of, ports)
			}
			if p.portsOf(of, own) != had {
				changed = append(changed, of)
			}
		}
	}
	return changed
}

// remember stores the opaque ports of a Pod of which none are stored, if there is room.
func (p *policy) remember(of *pod, ports Ports) {
	set := p.sets[ports]
	if set == nil {
		set = &opaquePorts{ports: ports}
		if p.remembered+set.size() > maxRemembered {
			p.lacking[of] = struct{}{}
			return
		}
		p.sets[ports] = set
		p.remembered += set.size()
	}
	set.pods++
	p.opaque[of] = set
}

// forgetOpaque leaves a Pod its own opaque ports. Where that makes room for those of others, all are
// evaluated again.
func (s *state) forgetOpaque(p *policy, of *pod) {
	delete(p.lacking, of)
	set := p.opaque[of]
	if set == nil {
		return
	}
	delete(p.opaque, of)
	if set.pods--; set.pods > 0 {
		return
	}
	delete(p.sets, set.ports)
	p.remembered -= set.size()
	if len(p.lacking) > 0 {
		p.changed = true
		s.markPolicy(of.namespace())
	}
}

// markPolicy has the worker evaluate a namespace's policy.
func (s *state) markPolicy(namespace string) {
	if s.live {
		s.dirtyPolicies.Add(namespace, namespace, s.now)
	}
}

// evaluatePolicy evaluates what has changed of a namespace's Pods, or all after a change of a
// Server. It is not called twice at the same time for a namespace.
func (s *state) evaluatePolicy(namespace string, _ time.Time) {
	s.lock()
	p := s.policies[namespace]
	if p == nil {
		s.mu.Unlock()
		return
	}
	by, pods, servers := p.used, p.changes, map[string]*serverFacts(nil)
	if p.changed {
		pods, servers = slices.Collect(s.podsOf(namespace)), maps.Clone(p.servers)
	}
	p.changes, p.changed, p.busy = nil, false, true
	asked := make(map[podFacts]Ports)
	for _, of := range pods {
		if of.facts.isRead() {
			asked[of.facts.alike()] = Ports{}
		}
	}
	s.mu.Unlock()
	if servers != nil {
		by = compileServers(servers)
	}
	for about := range asked {
		t := about.fullTemplate()
		asked[about] = by.opaque(&t)
	}
	s.lock()
	defer s.mu.Unlock()
	if s.policies[namespace] != p {
		return
	}
	p.used, p.busy = by, false
	if servers != nil {
		clear(p.lacking) // each is asked for
	}
	found := make(map[*pod]Ports)
	for _, of := range pods { // some may have changed again
		if ports, ok := asked[of.facts.alike()]; ok {
			found[of] = ports
		}
	}
	for _, of := range s.setOpaque(p, found) {
		s.touchPod(of)
	}
	s.reportPolicy(namespace, p)
}

// excess describes, for people, why not all Servers are used, or not for all Pods; empty: all are.
func (p *policy) excess() string {
	switch {
	case p.cost > maxPolicy:
		return fmt.Sprintf("the %d that make ports opaque cost %d (each 1, and 1 for each key and value of its selectors), more than %d: "+
			"in the order of their names, those from the first that goes beyond it make no port opaque; use fewer Servers or shorter selectors",
			len(p.servers), p.cost, maxPolicy)
	case len(p.lacking) > 0:
		return fmt.Sprintf("what they make opaque of its Pods takes more than %d MiB: of further Pods they make no port opaque; "+
			"let Servers select more Pods alike, or name fewer ports", maxRemembered>>20)
	}
	return ""
}

// logExcess logs once that a namespace's policy is too large.
func (c *Cluster) logExcess(key string) {
	namespace, _ := follow.SplitKey(key)
	c.state.mu.Lock()
	p, reason := c.state.policies[namespace], ""
	if p != nil && !p.logged {
		reason = p.excess()
		p.logged = reason != ""
	}
	c.state.mu.Unlock()
	if reason != "" {
		c.cfg.Log.Warn("not all Servers of a namespace are used", zap.String("namespace", namespace), zap.String("reason", reason))
	}
}

// compiledServers are the Servers of a namespace, by the ports that they are about. They are
// immutable.
type compiledServers struct {
	byNumber []portServers // sorted, so that sets of ports are made in their order
	byName   map[string][]*serverFacts
}

// portServers are the Servers about one port number.
type portServers struct {
	port    uint16
	servers []*serverFacts
}

// compileServers leaves out malformed Servers, and those beyond maxPolicy.
func compileServers(servers map[string]*serverFacts) *compiledServers {
	c := &compiledServers{byName: make(map[string][]*serverFacts)}
	byNumber, cost := make(map[uint16][]*serverFacts), 0
	for _, name := range slices.Sorted(maps.Keys(servers)) {
		f := servers[name]
		if cost += f.cost(); cost > maxPolicy {
			break
		}
		switch {
		case f.invalid != "":
		case f.name != "":
			c.byName[f.name] = append(c.byName[f.name], f)
		default:
			byNumber[f.number] = append(byNumber[f.number], f)
		}
	}
	for _, port := range slices.Sorted(maps.Keys(byNumber)) {
		c.byNumber = append(c.byNumber, portServers{port, byNumber[port]})
	}
	return c
}

// opaque returns the opaque ports of a template: its own, and those that a Server makes
// so, by number or by name.
func (c *compiledServers) opaque(t *template) Ports {
	of := labels.Set(maps.Collect(t.labels.all))
	selects := func(f *serverFacts) bool {
		if t.external() {
			return f.workloads.Matches(of)
		}
		return f.pods.Matches(of)
	}
	var more []portRange
	for _, n := range c.byNumber {
		if slices.ContainsFunc(n.servers, selects) {
			more = append(more, portRange{n.port, n.port})
		}
	}
	for name, port := range t.ports.all {
		if slices.ContainsFunc(c.byName[name], selects) {
			more = append(more, portRange{port, port})
		}
	}
	if more == nil {
		return t.opaque
	}
	return newPorts(t.opaque.appendTo(more))
}

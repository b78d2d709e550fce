package cluster

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"unique"

	"go.uber.org/zap"

	"isthmus/clusterstore/follow"
	"isthmus/federation"
)

// policy is the Servers of one namespace that make ports opaque. It is written under
// state.mu.
type policy struct {
	servers map[string]*serverFacts // by name
	cost    int                     // of them all
	rules   *rules                  // of the servers as they are now: each change makes new ones
	logged  bool                    // that the policy is too large
}

// maxPolicy is how much the Servers of one namespace may cost: those beyond it, by
// name, are ignored. Matching a Pod with 500 labels against that much takes 0.1 ms, with
// a port of its own for each Server some tenths more, and each change of a Server has all
// Pods of its namespace matched again.
const maxPolicy = 10_000

func (p *policy) set(s *state, name string, f *serverFacts) {
	if old := p.servers[name]; old != nil {
		p.cost -= old.cost()
		delete(p.servers, name)
	}
	if f != nil {
		p.cost += f.cost()
		p.servers[name] = f
	}
	if p.rules != nil {
		p.rules.forget(true)
	}
	p.rules = &rules{state: s, policy: p}
}

// excess describes, for people, why not all Servers are used; empty: all are.
func (p *policy) excess() string {
	if p.cost <= maxPolicy {
		return ""
	}
	return fmt.Sprintf("the %d that make ports opaque cost %d (each 1, and 1 for each key and value of its selectors), more than %d: "+
		"in the order of their names, those from the first that goes beyond it make no port opaque; use fewer Servers or shorter selectors",
		len(p.servers), p.cost, maxPolicy)
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

// rules answer which ports are opaque where a namespace has Servers, and remember it. The
// work is done without state.mu, by who asks first: see [policyReader].
type rules struct {
	state  *state  // fixed
	policy *policy // fixed

	once     sync.Once
	compiled atomic.Pointer[compiledRules] // nil: nobody has asked yet

	mu       sync.Mutex // a leaf: may be taken under state.mu; held for map access only
	answers  map[subject]Ports
	sets     map[Ports]Ports // those of the answers: equal ones share memory
	answered int64           // what the answers take, as state.answered
	replaced bool            // nothing is to be remembered any more
}

// subject is the Pods or ExternalWorkloads with one template.
type subject struct {
	template unique.Handle[template]
	traits   string
}

// maxAnswered is how many bytes all answers that are remembered in a cluster take at most,
// with what they refer to. Beyond that all are forgotten, so that those about Pods that are
// gone do not add up, in however many namespaces.
const maxAnswered = 8 << 20

// answerSize is what an answer takes without the texts that it refers to, in bytes.
const answerSize = 64

// concern returns false only if no Server is about the port; with AnyPort, about any.
func (r *rules) concern(port uint16) bool {
	c := r.compiled.Load()
	if c == nil || len(c.byName) > 0 {
		return true
	}
	_, ok := slices.BinarySearchFunc(c.byNumber, port, numberRules.compare)
	return ok || port == federation.AnyPort && len(c.byNumber) > 0
}

// known returns the opaque ports. Not ok: they must be evaluated.
func (r *rules) known(s subject) (opaque Ports, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	opaque, ok = r.answers[s]
	return opaque, ok
}

// evaluate answers what is asked, and remembers it. It takes state.mu to find the
// Servers; it may find newer ones, but then the policy has newer rules, too.
func (r *rules) evaluate(asked []subject, answers map[subject]Ports) {
	r.once.Do(func() {
		r.state.mu.RLock()
		servers := maps.Clone(r.policy.servers)
		r.state.mu.RUnlock()
		r.compiled.Store(compileRules(servers))
	})
	c := r.compiled.Load()
	labels := newKnown(c.keys)
	for _, s := range asked {
		if _, ok := answers[s]; ok {
			continue
		}
		t := podFacts{template: s.template, traits: s.traits}.fullTemplate()
		answers[s] = r.remember(s, c.opaque(&t, labels), int64(answerSize+len(s.traits)+len(t.labels.keys)+len(t.ports)))
	}
}

// remember keeps an answer that takes so many bytes, and returns an equal one. state.mu is
// not held.
func (r *rules) remember(s subject, opaque Ports, bytes int64) Ports {
	if r.state.answered.Add(bytes) > maxAnswered {
		r.state.forgetAnswers()
	}
	same, takes := r.keep(s, opaque, bytes)
	r.state.answered.Add(takes - bytes)
	return same
}

// keep is remember, but for the count of the cluster. It returns how many bytes are kept.
func (r *rules) keep(s subject, opaque Ports, bytes int64) (same Ports, takes int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	same, ok := r.sets[opaque]
	if !ok {
		same, bytes = opaque, bytes+int64(len(opaque.ranges))
	}
	if r.replaced || bytes > maxAnswered {
		return same, 0
	}
	if r.answers == nil {
		r.answers, r.sets = make(map[subject]Ports), make(map[Ports]Ports)
	}
	r.answers[s], r.sets[same] = same, same
	r.answered += bytes
	return same, bytes
}

// forget drops all answers, and those to come if the rules are replaced.
func (r *rules) forget(replaced bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state.answered.Add(-r.answered)
	r.answers, r.sets, r.answered, r.replaced = nil, nil, 0, r.replaced || replaced
}

// forgetAnswers makes the rules of all namespaces begin anew.
func (s *state) forgetAnswers() {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, p := range s.policies {
		p.rules.forget(false)
	}
}

// compiledRules are the Servers of a namespace, by the ports that they are about. They are
// immutable.
type compiledRules struct {
	keys     vocabulary
	byNumber []numberRules // sorted
	byName   map[string][]*rule
}

// numberRules are the rules about one port number.
type numberRules struct {
	port  uint16
	rules []*rule
}

func (n numberRules) compare(port uint16) int { return cmp.Compare(n.port, port) }

type rule struct{ pods, workloads matcher }

// compileRules leaves out malformed Servers, and those beyond maxPolicy.
func compileRules(servers map[string]*serverFacts) *compiledRules {
	c := &compiledRules{keys: make(vocabulary), byName: make(map[string][]*rule)}
	byNumber, cost := make(map[uint16][]*rule), 0
	for _, name := range slices.Sorted(maps.Keys(servers)) {
		f := servers[name]
		if cost += f.cost(); cost > maxPolicy {
			break
		}
		if f.invalid != "" {
			continue
		}
		r := &rule{newMatcher(f.pods, c.keys), newMatcher(f.workloads, c.keys)}
		if f.name != "" {
			c.byName[f.name] = append(c.byName[f.name], r)
		} else {
			byNumber[f.number] = append(byNumber[f.number], r)
		}
	}
	for _, port := range slices.Sorted(maps.Keys(byNumber)) {
		c.byNumber = append(c.byNumber, numberRules{port, byNumber[port]})
	}
	return c
}

// opaque returns the opaque ports of a template: its own, and those that a Server makes
// so, by number or by name.
func (c *compiledRules) opaque(t *template, labels *known) Ports {
	labels.read(&t.labels)
	selects := func(r *rule) bool {
		if t.external() {
			return r.workloads.selects(labels)
		}
		return r.pods.selects(labels)
	}
	var more []portRange
	for _, n := range c.byNumber {
		if slices.ContainsFunc(n.rules, selects) {
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

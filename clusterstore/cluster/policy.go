package cluster

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"unique"

	"go.uber.org/zap"

	"isthmus/clusterstore/follow"
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
// name, are ignored. Matching a Pod with 500 labels against that much takes 0.1 ms, and
// each change of a Server has all Pods of its namespace matched again.
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

// rules answer which ports the Servers of a namespace make opaque, and remember it. The
// work is done without state.mu, by who asks first: see [policyReader].
type rules struct {
	state  *state  // fixed
	policy *policy // fixed

	once     sync.Once
	compiled atomic.Pointer[compiledRules] // nil: nobody has asked yet

	mu       sync.Mutex // a leaf: may be taken under state.mu; held for map access only
	answers  map[subject]bool
	answered int64 // what the answers take, as state.answered
	replaced bool  // nothing is to be remembered any more
}

// subject is a port of the Pods or ExternalWorkloads with one template.
type subject struct {
	template unique.Handle[template]
	traits   string
	port     uint16
}

// maxAnswered is how many bytes all answers that are remembered in a cluster take at most,
// with what they refer to. Beyond that all are forgotten, so that those about Pods that are
// gone do not add up, in however many namespaces.
const maxAnswered = 8 << 20

// answerSize is what an answer takes without the texts that it refers to, in bytes.
const answerSize = 64

// known returns whether the port is opaque. Not ok: that must be evaluated.
func (r *rules) known(s subject) (opaque, ok bool) {
	c := r.compiled.Load()
	if c == nil {
		return false, false
	}
	if len(c.byName) == 0 && len(c.byNumber[s.port]) == 0 {
		return false, true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	opaque, ok = r.answers[s]
	return opaque, ok
}

// evaluate answers what is asked, and remembers it. It takes state.mu to find the
// Servers; it may find newer ones, but then the policy has newer rules, too.
func (r *rules) evaluate(asked []subject, answers map[subject]bool) {
	r.once.Do(func() {
		r.state.mu.RLock()
		servers := maps.Clone(r.policy.servers)
		r.state.mu.RUnlock()
		r.compiled.Store(compileRules(servers))
	})
	c := r.compiled.Load()
	labels, fresh, bytes := newKnown(c.keys), make(map[subject]bool), 0
	for _, s := range asked {
		if _, ok := answers[s]; ok {
			continue
		}
		t := podFacts{template: s.template, traits: s.traits}.fullTemplate()
		opaque := c.opaque(&t, s.port, labels)
		answers[s], fresh[s] = opaque, opaque
		bytes += answerSize + len(s.traits) + len(t.labels.keys) + len(t.ports)
	}
	r.remember(fresh, int64(bytes))
}

// remember keeps answers that take so many bytes. state.mu is not held.
func (r *rules) remember(answers map[subject]bool, bytes int64) {
	if r.state.answered.Add(bytes) > maxAnswered {
		r.state.forgetAnswers()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.replaced || bytes > maxAnswered {
		r.state.answered.Add(-bytes)
		return
	}
	if r.answers == nil {
		r.answers = make(map[subject]bool, len(answers))
	}
	maps.Copy(r.answers, answers)
	r.answered += bytes
}

// forget drops all answers, and those to come if the rules are replaced.
func (r *rules) forget(replaced bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state.answered.Add(-r.answered)
	r.answers, r.answered, r.replaced = nil, 0, r.replaced || replaced
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
	byNumber map[uint16][]*rule
	byName   map[string][]*rule
}

type rule struct{ pods, workloads matcher }

// compileRules leaves out malformed Servers, and those beyond maxPolicy.
func compileRules(servers map[string]*serverFacts) *compiledRules {
	c := &compiledRules{keys: make(vocabulary), byNumber: make(map[uint16][]*rule), byName: make(map[string][]*rule)}
	cost := 0
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
			c.byNumber[f.number] = append(c.byNumber[f.number], r)
		}
	}
	return c
}

// opaque reports whether a Server makes the port opaque, by its number or, if the
// template has ports of that number with names, by one of these.
func (c *compiledRules) opaque(t *template, port uint16, labels *known) bool {
	labels.read(&t.labels)
	selects := func(r *rule) bool {
		if t.external() {
			return r.workloads.selects(labels)
		}
		return r.pods.selects(labels)
	}
	if slices.ContainsFunc(c.byNumber[port], selects) {
		return true
	}
	for _, name := range t.ports.names(port) {
		if slices.ContainsFunc(c.byName[name], selects) {
			return true
		}
	}
	return false
}

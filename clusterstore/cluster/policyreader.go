package cluster

import "isthmus/federation"

// policyReader answers, for one read, which ports Servers make opaque. Under state.mu
// it only looks up what is known. What is not, it notes, and evaluates once state.mu is
// released; then the caller reads again. The zero value is ready to use.
//
// From its first question about a namespace that is not known, it uses the rules that
// the namespace had then: a namespace whose Servers change faster than they can be
// evaluated is still read. The change has marked what it affects, so that is read again.
// If Pods change faster than that, [reader.Read] leaves their slices as they were.
type policyReader struct {
	views    map[string]*policyView // by namespace
	missing  bool                   // something is to be evaluated: what has been read is not to be used
	rounds   int                    // how often something was
	outdated bool                   // a namespace has other rules by now
}

// policyView is the part of one namespace.
type policyView struct {
	rules   *rules
	asked   []subject
	answers map[subject]Ports
}

// opaque reports whether a Server of the namespace makes the port opaque for a Pod or
// ExternalWorkload with these facts. Where it is not known it sets missing. state.mu is
// held.
func (q *policyReader) opaque(s *state, namespace string, facts podFacts, port uint16) bool {
	ports, _ := q.ask(s, namespace, facts, port)
	return ports.Contains(port)
}

// opaquePorts returns all ports that are opaque for a Pod or ExternalWorkload with these
// facts and that template: those of the template, and those that Servers make so. Where
// it is not known it sets missing. state.mu is held.
func (q *policyReader) opaquePorts(s *state, namespace string, facts podFacts, t *template) Ports {
	if ports, ok := q.ask(s, namespace, facts, federation.AnyPort); ok {
		return ports
	}
	return t.opaque
}

// ask returns all ports that are opaque for a Pod or ExternalWorkload with these facts,
// those of its template too. Not ok: no Server of the namespace is about that port, or
// any with AnyPort.
func (q *policyReader) ask(s *state, namespace string, facts podFacts, port uint16) (opaque Ports, ok bool) {
	p, v := s.policies[namespace], q.views[namespace]
	if p == nil && v == nil {
		return Ports{}, false
	}
	about := subject{facts.template, facts.traits}
	if v == nil {
		if !p.rules.concern(port) {
			return Ports{}, false
		}
		if opaque, ok = p.rules.known(about); ok {
			return opaque, true
		}
		if q.views == nil {
			q.views = make(map[string]*policyView)
		}
		v = &policyView{rules: p.rules, answers: make(map[subject]Ports)}
		q.views[namespace] = v
	}
	if p == nil || p.rules != v.rules {
		q.outdated = true
	}
	if !v.rules.concern(port) {
		return Ports{}, false
	}
	if opaque, ok = v.answers[about]; !ok {
		opaque, ok = v.rules.known(about)
	}
	if !ok {
		v.asked, q.missing = append(v.asked, about), true
	}
	return opaque, true
}

// evaluate answers what is missing. It returns false if nothing is. state.mu is not
// held.
func (q *policyReader) evaluate() bool {
	if !q.missing {
		return false
	}
	for _, v := range q.views {
		v.rules.evaluate(v.asked, v.answers)
		v.asked = nil
	}
	q.missing = false
	q.rounds++
	return true
}

// read calls f under state.mu, shared, until nothing is missing of policy.
func (s *state) read(f func(*policyReader)) {
	var q policyReader
	once := func() {
		s.mu.RLock()
		defer s.mu.RUnlock()
		f(&q)
	}
	for once(); q.evaluate(); {
		once()
	}
}

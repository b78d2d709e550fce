package cluster

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
	answers map[subject]bool
}

// opaque reports whether a Server of the namespace makes the port opaque for a Pod or
// ExternalWorkload with these facts. Where it is not known it sets missing. state.mu is
// held.
func (q *policyReader) opaque(s *state, namespace string, facts podFacts, port uint16) bool {
	p, v := s.policies[namespace], q.views[namespace]
	if p == nil && v == nil {
		return false
	}
	about := subject{facts.template, facts.traits, port}
	if v == nil {
		if opaque, ok := p.rules.known(about); ok {
			return opaque
		}
		if q.views == nil {
			q.views = make(map[string]*policyView)
		}
		v = &policyView{rules: p.rules, answers: make(map[subject]bool)}
		q.views[namespace] = v
	}
	if p == nil || p.rules != v.rules {
		q.outdated = true
	}
	opaque, ok := v.answers[about]
	if !ok {
		opaque, ok = v.rules.known(about)
	}
	if !ok {
		v.asked, q.missing = append(v.asked, about), true
	}
	return opaque
}

// opaquePorts returns all ports that are opaque for a Pod or ExternalWorkload with these
// facts and that template: those of the template, and those that Servers make so.
// state.mu is held.
func (q *policyReader) opaquePorts(s *state, namespace string, facts podFacts, t *template) Ports {
	p := s.policies[namespace]
	if p == nil {
		return t.opaque
	}
	asked := make(map[uint16]struct{})
	for _, f := range p.servers {
		if f.invalid == "" {
			f.eachPort(t, func(port uint16) { asked[port] = struct{}{} })
		}
	}
	var more []portRange
	for port := range asked {
		if q.opaque(s, namespace, facts, port) {
			more = append(more, portRange{port, port})
		}
	}
	if more == nil {
		return t.opaque
	}
	return newPorts(t.opaque.appendTo(more))
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

package federation

import "slices"

// audience is what is published of a port to the clients of the service, or of one
// instance of it, by their node.
type audience map[string][]*published

// all iterates over all kinds of clients, and reports whether it has come to the end.
func (a audience) all(yield func(*published) bool) bool {
	for _, list := range a {
		for _, to := range list {
			if !yield(to) {
				return false
			}
		}
	}
	return true
}

// each is all, to range over.
func (a audience) each(yield func(*published) bool) { a.all(yield) }

// published is the newest set for one kind of client.
type published struct {
	client   Client // fixed
	refs     int    // watches
	latest   Latest[*Set]
	tiers    *tierView         // nil unless the port is steered
	steering Latest[*steering] // of the port, for Set.Tiers
}

// audience returns that of an instance, or of the whole service (empty).
func (p *port) audience(instance string) audience {
	if instance == "" {
		return p.whole
	}
	return p.instances[instance]
}

// find returns what is published for one kind of client; nil: it is not there.
func (a audience) find(c Client) *published {
	if i := slices.IndexFunc(a[c.Node], func(to *published) bool { return to.client == c }); i >= 0 {
		return a[c.Node][i]
	}
	return nil
}

// join returns what is published for one kind of client, which it adds if there is none.
func (p *port) join(c Client) (to *published, added bool) {
	a := p.audience(c.Instance)
	if a == nil {
		a = make(audience)
		p.instances[c.Instance] = a
	}
	if to := a.find(c); to != nil {
		return to, false
	}
	to = &published{client: c}
	a[c.Node] = append(a[c.Node], to)
	return to, true
}

// leave ends one watch of a kind of client.
func (p *port) leave(c Client) {
	a := p.audience(c.Instance)
	i := slices.IndexFunc(a[c.Node], func(to *published) bool { return to.client == c })
	to := a[c.Node][i]
	if to.refs--; to.refs > 0 {
		return
	}
	delete(p.returning, to)
	if a[c.Node] = slices.Delete(a[c.Node], i, i+1); len(a[c.Node]) == 0 {
		delete(a, c.Node)
	}
	if c.Instance != "" && len(a) == 0 {
		delete(p.instances, c.Instance)
	}
}

// publishAll publishes to all clients what has changed for them.
func (p *port) publishAll(ipv6 bool, why origin) {
	p.publishTo(p.whole, ipv6, p.merged, why)
	if len(p.instances) == 0 {
		return
	}
	byHostname := make(map[string][]*Endpoint)
	for _, e := range p.merged {
		byHostname[e.Hostname] = append(byHostname[e.Hostname], e)
	}
	for instance, a := range p.instances {
		p.publishTo(a, ipv6, byHostname[instance], why)
	}
}

// publishChange publishes what has changed between the merged list of before and the
// one now, while the summary is the same. Clients of an instance, or of a node, are
// concerned if its endpoints have changed: clients may ask for any number of names that
// no endpoint has, and so must not make changes slow for others.
func (p *port) publishChange(ipv6 bool, before []*Endpoint, why origin) {
	if len(p.instances) == 0 && !p.summary.byNode {
		p.publishTo(p.whole, ipv6, p.merged, why)
		return
	}
	var changed []*Endpoint
	concerned := make(map[string][]*Endpoint) // what has changed, by instance
	note := func(e *Endpoint) {
		if e == nil {
			return
		}
		changed = append(changed, e)
		if p.instances[e.Hostname] != nil {
			concerned[e.Hostname] = append(concerned[e.Hostname], e)
		}
	}
	forEachChange(before, p.merged, func(a, b *Endpoint) {
		note(a)
		note(b)
	})
	p.publishChanged(p.whole, ipv6, p.merged, changed, why)
	if len(concerned) == 0 {
		return
	}
	now := make(map[string][]*Endpoint, len(concerned))
	for _, e := range p.merged {
		if concerned[e.Hostname] != nil {
			now[e.Hostname] = append(now[e.Hostname], e)
		}
	}
	for instance, changed := range concerned {
		p.publishChanged(p.instances[instance], ipv6, now[instance], changed, why)
	}
}

// publishChanged publishes to one audience what has changed: these endpoints, as they
// were and as they are. If clients see only their node's and other clusters', clients of
// other nodes are not concerned.
func (p *port) publishChanged(a audience, ipv6 bool, of, changed []*Endpoint, why origin) {
	if !p.summary.byNode || slices.ContainsFunc(changed, func(e *Endpoint) bool { return e.Cluster != Local }) {
		p.publishTo(a, ipv6, of, why)
		return
	}
	nodes := make(map[string]struct{})
	for _, e := range changed {
		nodes[e.Node] = struct{}{}
	}
	for node := range nodes {
		for _, to := range a[node] {
			p.publish(to, choose(of, ipv6, true, to.client), why)
		}
	}
}

// publishTo publishes to one audience. of are all endpoints, or for clients of an
// instance those that it has.
func (p *port) publishTo(a audience, ipv6 bool, of []*Endpoint, why origin) {
	if !p.summary.byNode || len(a) < 2 {
		for _, list := range a {
			for _, to := range list {
				p.publish(to, choose(of, ipv6, p.summary.byNode, to.client), why)
			}
		}
		return
	}
	nodes := make(map[string]struct{})
	for _, e := range of {
		nodes[e.Node] = struct{}{}
	}
	nowhere := choose(of, ipv6, true, Client{}) // for all nodes without endpoints: there may be any number
	for node, list := range a {
		for _, to := range list {
			if _, ok := nodes[node]; ok {
				p.publish(to, choose(of, ipv6, true, to.client), why)
			} else {
				p.publish(to, nowhere, why)
			}
		}
	}
}

// publish publishes these endpoints for one kind of client, if that differs from what
// was published last.
func (p *port) publish(to *published, chosen []*Endpoint, why origin) {
	to.publishSteering(p.steering)
	now := &Set{
		Version: 1, Exists: p.summary.exists, Complete: p.summary.complete, ByNode: p.summary.byNode, Changed: why.at, Origin: why.cluster,
		Endpoints: chosen, Members: len(p.members),
		AnyPort: p.number == AnyPort, Undeclared: p.summary.undeclared, declared: p.declared,
		steering: &to.steering,
	}
	if len(now.Endpoints) == 0 {
		now.Reason, now.Cluster = p.summary.reason, p.summary.cluster
	}
	if old, _ := to.latest.Get(); old != nil {
		if old.Exists == now.Exists && old.Complete == now.Complete && old.ByNode == now.ByNode &&
			old.Undeclared == now.Undeclared && slices.Equal(old.declared, now.declared) &&
			old.Reason == now.Reason && old.Cluster == now.Cluster && same(old.Endpoints, now.Endpoints) {
			return
		}
		now.Version = old.Version + 1
	}
	to.latest.Set(now)
}

package federation

import "slices"

// audience is what is published of a port to the clients of the service, or of one
// instance of it, by their node.
type audience map[string][]*published

// clients appends the kinds of clients of these nodes to a list; nil: of all.
func (a audience) clients(list []*published, nodes map[string]bool) []*published {
	if nodes == nil {
		for _, of := range a {
			list = append(list, of...)
		}
	}
	for node := range nodes {
		list = append(list, a[node]...)
	}
	return list
}

// published is the newest set for one kind of client.
type published struct {
	client   Client // fixed
	refs     int    // watches
	latest   Latest[*Set]
	tiers    *tierView         // nil unless the port is steered
	steering Latest[*steering] // of the port, for Set.Tiers
}

// find returns what is published for one kind of client; nil: it is not there.
func (a audience) find(c Client) *published {
	if i := slices.IndexFunc(a[c.Node], func(to *published) bool { return to.client == c }); i >= 0 {
		return a[c.Node][i]
	}
	return nil
}

// join adds a kind of client, which has no watch yet.
func (p *port) join(c Client) *published {
	a := p.audiences[c.Instance]
	if a == nil {
		a = make(audience)
		p.audiences[c.Instance] = a
	}
	to := &published{client: c}
	a[c.Node] = append(a[c.Node], to)
	return to
}

// removeUnwatched removes the kinds of clients that have no watch: see watchedService.publishFirst.
func (p *port) removeUnwatched() {
	for _, to := range p.all() {
		if to.refs == 0 {
			p.remove(to)
		}
	}
}

// leave ends one watch of a kind of client.
func (p *port) leave(c Client) {
	to := p.audiences[c.Instance].find(c)
	if to.refs--; to.refs == 0 {
		p.remove(to)
	}
}

// remove removes a kind of client.
func (p *port) remove(to *published) {
	c := to.client
	a := p.audiences[c.Instance]
	delete(p.returning, to)
	a[c.Node] = slices.DeleteFunc(a[c.Node], func(o *published) bool { return o == to })
	if len(a[c.Node]) == 0 {
		delete(a, c.Node)
	}
	if len(a) == 0 {
		delete(p.audiences, c.Instance)
	}
}

// all lists all kinds of clients, those of the whole service first: names of instances may be made up.
func (p *port) all() []*published {
	list := p.whole()
	for instance, a := range p.audiences {
		if instance != "" {
			list = a.clients(list, nil)
		}
	}
	return list
}

// whole lists the kinds of clients of the whole service.
func (p *port) whole() []*published { return p.audiences[""].clients(nil, nil) }

// concerned lists, as all, the clients that a change of these lists to those of now may concern, while the
// summary and the steering are the same. Clients of an instance are concerned if its endpoints have
// changed and, where traffic stays on nodes, clients of a node if its endpoints or those of other
// clusters have: clients may ask for any number of names that no endpoint has, and so must not make
// changes slow for others.
func (p *port) concerned(merged, unready []*Endpoint) []*published {
	if len(p.audiences) == 1 && p.audiences[""] != nil && !p.summary.byNode {
		return p.whole()
	}
	instances, nodes, everywhere := make(map[string]bool), make(map[string]bool), !p.summary.byNode
	note := func(a, b *Endpoint) {
		for _, e := range [...]*Endpoint{a, b} {
			if e != nil {
				instances[e.Hostname], nodes[e.Node] = true, true
				everywhere = everywhere || e.Cluster != Local
			}
		}
	}
	forEachChange(merged, p.merged, note)
	forEachChange(unready, p.unready, note)
	if everywhere {
		nodes = nil
	}
	list := p.audiences[""].clients(nil, nodes)
	for instance := range instances {
		if instance != "" {
			list = p.audiences[instance].clients(list, nodes)
		}
	}
	return list
}

// publish publishes these endpoints for one kind of client, if that differs from what
// was published last.
func (p *port) publish(to *published, chosen []*Endpoint, why origin) {
	to.publishSteering(p.steering)
	now := Set{
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
	to.latest.Set(new(now))
}

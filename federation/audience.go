package federation

import "slices"

// audience is what is published of a port to the clients of the service, or of one
// instance of it, by their node.
type audience map[string][]*published

// clients appends the kinds of clients of these nodes to a list. If nodes is nil, it appends those of all nodes:
// first those without node, as Set.HintedTo says.
func (a audience) clients(list []*published, nodes map[string]bool) []*published {
	if nodes == nil {
		list = append(list, a[""]...)
		for node, of := range a {
			if node != "" {
				list = append(list, of...)
			}
		}
	}
	for node := range nodes {
		list = append(list, a[node]...)
	}
	return list
}

// unlessHinted is clients(list, nil) without those for which node hints choose endpoints, unless they are on
// one of these nodes.
func (a audience) unlessHinted(list []*published, nodes map[string]bool) []*published {
	for _, to := range a.clients(nil, nil) {
		if set, _ := to.latest.Get(); nodes[to.client.Node] || !set.Hinted {
			list = append(list, to)
		}
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
// changes slow for others. Clients for which node hints choose endpoints are concerned if endpoints that
// are hinted to their node have changed, or others that make node hints count or not.
func (p *port) concerned(merged, unready []*Endpoint) []*published {
	byNode, whole := p.summary.byNode, p.audiences[""]
	if len(p.audiences) == 1 && whole != nil && !byNode && len(whole) == 1 && whole[""] != nil {
		return p.whole()
	}
	instances, nodes, everywhere := make(map[string]bool), make(map[string]bool), !byNode && p.steering != nil
	note := func(a, b *Endpoint) {
		for _, e := range [...]*Endpoint{a, b} {
			if e == nil {
				continue
			}
			instances[e.Hostname] = true
			on := []string{e.Node}
			if !byNode {
				on = e.Hints.Nodes()
			}
			everywhere = everywhere || e.Cluster != Local || len(on) == 0
			for _, node := range on {
				nodes[node] = true
			}
		}
	}
	forEachChange(merged, p.merged, note)
	forEachChange(unready, p.unready, note)
	concerned := func(list []*published, a audience) []*published {
		switch {
		case everywhere:
			return a.clients(list, nil)
		case byNode:
			return a.clients(list, nodes)
		}
		return a.unlessHinted(list, nodes)
	}
	list := concerned(nil, whole)
	for instance := range instances {
		if instance != "" {
			list = concerned(list, p.audiences[instance])
		}
	}
	return list
}

// publish publishes these endpoints for one kind of client, if that differs from what
// was published last. hinted has all endpoints in use, by the nodes that node hints choose them for.
func (p *port) publish(to *published, chosen []*Endpoint, hinted map[string][]*Endpoint, why origin) {
	to.publishSteering(p.steering)
	now := Set{
		Version: 1, Exists: p.summary.exists, Complete: p.summary.complete, ByNode: p.summary.byNode, Changed: why.at, Origin: why.cluster,
		Endpoints: chosen, Members: len(p.members),
		Undeclared: p.summary.undeclared, steering: &to.steering,
	}
	if node := to.client.Node; node != "" {
		now.Hinted = hinted[node] != nil
	} else {
		now.hinted = hinted
	}
	if len(now.Endpoints) == 0 {
		now.Reason, now.Cluster = p.summary.reason, p.summary.cluster
	}
	if old, _ := to.latest.Get(); old != nil {
		if old.Exists == now.Exists && old.Complete == now.Complete && old.ByNode == now.ByNode &&
			old.Hinted == now.Hinted && sameNodes(old.hinted, now.hinted) &&
			old.Undeclared == now.Undeclared &&
			old.Reason == now.Reason && old.Cluster == now.Cluster && same(old.Endpoints, now.Endpoints) {
			return
		}
		now.Version = old.Version + 1
	}
	to.latest.Set(new(now))
}

// sameNodes reports whether two maps have the same nodes.
func sameNodes(a, b map[string][]*Endpoint) bool {
	if len(a) != len(b) {
		return false
	}
	for node := range a {
		if _, ok := b[node]; !ok {
			return false
		}
	}
	return true
}

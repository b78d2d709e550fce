package federation

import "slices"

// audience is what is published of a port, by kind of client.
type audience map[Client]*published

// published is the newest set for one kind of client.
type published struct {
	refs   int // watches
	latest Latest[*Set]
}

// join returns the audience of an instance, or of the whole service (empty).
func (p *port) join(instance string) audience {
	if instance == "" {
		return p.whole
	}
	a := p.instances[instance]
	if a == nil {
		a = make(audience)
		p.instances[instance] = a
	}
	return a
}

// leave forgets the audience of an instance if nobody is left.
func (p *port) leave(instance string) {
	if instance != "" && len(p.instances[instance]) == 0 {
		delete(p.instances, instance)
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
// one now, while the summary is the same. Clients of an instance are concerned if its
// endpoints have changed: clients may ask for any number of names that no endpoint has,
// and so must not make changes slow for others.
func (p *port) publishChange(ipv6 bool, before []*Endpoint, why origin) {
	p.publishTo(p.whole, ipv6, p.merged, why)
	if len(p.instances) == 0 {
		return
	}
	concerned := make(map[string][]*Endpoint)
	note := func(e *Endpoint) {
		if e != nil && p.instances[e.Hostname] != nil {
			concerned[e.Hostname] = nil
		}
	}
	forEachChange(before, p.merged, func(a, b *Endpoint) {
		note(a)
		note(b)
	})
	if len(concerned) == 0 {
		return
	}
	for _, e := range p.merged {
		if list, ok := concerned[e.Hostname]; ok {
			concerned[e.Hostname] = append(list, e)
		}
	}
	for instance, list := range concerned {
		p.publishTo(p.instances[instance], ipv6, list, why)
	}
}

// publishTo publishes to one audience.
func (p *port) publishTo(a audience, ipv6 bool, of []*Endpoint, why origin) {
	for client, to := range a {
		p.publish(ipv6, of, client, to, why)
	}
}

// publish publishes the newest set for one kind of client, if it differs from the
// one published last. of are all endpoints, or for clients of an instance at least
// those that it has.
func (p *port) publish(ipv6 bool, of []*Endpoint, c Client, to *published, why origin) {
	now := &Set{
		Version: 1, Exists: p.summary.exists, Complete: p.summary.complete, ByNode: p.summary.byNode, Changed: why.at, Origin: why.cluster,
		Endpoints: choose(of, ipv6, p.summary.byNode, c), Members: len(p.members),
		AnyPort: p.number == AnyPort, Undeclared: p.summary.undeclared, declared: p.declared,
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

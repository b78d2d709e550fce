package federation

import (
	"maps"
	"slices"
	"time"
)

// port is one watched port of a service: what its members offer, the merged list,
// and the sets published from it.
type port struct {
	number    uint16
	members   []contribution // in definition order
	steering  *steering      // nil: clients get everything
	offers    offers         // of the members, without what is refused or withdrawn: see steering.offers
	merged    []*Endpoint
	unready   []*Endpoint // known besides merged, if that makes a difference
	contested contested   // among the offers
	summary   summary
	hinted    hintIndex               // of merged, or of what is in use of it
	audiences map[string]audience     // by the name of the instance that clients ask for; empty: the whole service
	returning map[*published]struct{} // clients for whom a tier leaves by itself: see tierView.due
}

func newPort(number uint16) *port {
	return &port{number: number, audiences: make(map[string]audience), returning: make(map[*published]struct{})}
}

// summary is what all sets of a port have in common.
type summary struct {
	exists, complete, byNode, undeclared bool
	reason                               Reason      // of sets without endpoints
	cluster                              ClusterName // that the reason is about
}

// origin is the cluster and the time of the change that causes sets to be
// published. The zero value: not one cluster's change, but a definition or a link.
type origin struct {
	cluster ClusterName
	at      time.Time
}

// rebuildPort reads the members of a port that are new, or have another source or another Strict,
// and keeps the contributions of the others. With scratch, it reads all members, counts all their
// addresses as offered, and publishes to all clients. It stores the parts of the port in one step,
// after everything that may panic, because functions that describe a port rely on that order.
func (s *watchedService) rebuildPort(p *port, in inputs, scratch bool) {
	members := make([]contribution, 0, len(in.links))
	for i, l := range in.links {
		c := contribution{member: in.definition.Members[i], src: l.Source, strict: in.definition.Strict}
		before := memberIn(p.members, c.member)
		if before != nil {
			c.updates, c.total, c.changed = before.updates, before.total, before.changed
			if scratch || before.src != c.src {
				c.noteChange(s.table.opts.Now())
			}
		}
		switch {
		case l.Source == nil:
		case !scratch && before != nil && before.src == c.src && before.strict == c.strict:
			c = *before
		default:
			c.reader = l.Source.Reader(c.member.Service, p.number)
			c.raw = c.read()
			c.kept = c.raw
		}
		c.status.Link = l.State
		members = append(members, c)
	}
	before := p.members
	if scratch {
		s.countOffered(nil, members)
	} else {
		s.countOffered(before, members)
	}
	kept := make([]offer, 0, len(in.links))
	for i, l := range in.links {
		c := &members[i]
		if b := l.bounds(c.member.Cluster, in.owner); c.bounds != b {
			c.bounds = b
			c.screen(c.raw, func(int, *Slice) bool { return true })
		}
		kept = append(kept, c.kept)
	}
	st := newSteering(in, s.table.opts.Now)
	offers := st.offers(kept)
	merged, contested := merge(offers)
	merged = keepPointers(p.merged, merged)
	whole := scratch || p.steering != nil || st != nil

	s.table.countUpdates(p.number, before, members)
	s.steered = s.steered || st != nil
	p.members, p.offers, p.contested = members, offers, contested
	p.setSteering(st)

	s.update(p, in.definition, merged, whole, origin{})
	for i := range members {
		s.reportRefused(p, &members[i], memberIn(before, members[i].member))
	}
	s.table.report(s.id, in.definition, p.members)
}

// memberChange is what a member contributes now.
type memberChange struct {
	place int // in port.members
	contribution
}

// setMembers stores members' contributions, and publishes what has changed, at once. It leaves
// in list those of before.
func (s *watchedService) setMembers(p *port, list []memberChange, why origin) {
	if len(list) == 0 {
		return
	}
	merged, publish, recount, report := p.merged, p.steering.countsUnready(), false, false
	for k := range list {
		before, now := &list[k].contribution, &p.members[list[k].place]
		*before, *now = *now, *before
		last := merged
		merged = p.replaceOffer(merged, list[k].place, now.kept)
		otherStatus := before.status != now.status
		if !same(merged, last) || otherStatus || before.nodeLocal != now.nodeLocal {
			now.noteChange(s.table.opts.Now())
			publish = true
		}
		publish = publish || before.undeclared != now.undeclared
		recount = recount || p.steering != nil && !sameBehind(before.kept, now.kept)
		report = report || otherStatus
	}
	if publish || recount {
		d := s.table.definition(s.id)
		s.update(p, d, merged, recount, why)
		if report {
			s.table.report(s.id, d, p.members)
		}
	}
	for k := range list {
		s.reportRefused(p, &p.members[list[k].place], &list[k].contribution)
	}
}

// replaceOffer stores what is kept of a member's offer, and returns the merged list that
// follows from it, given the one before.
func (p *port) replaceOffer(merged []*Endpoint, i int, kept offer) []*Endpoint {
	inService, lastResort := p.steering.divide(i, kept)
	for at := range p.offers {
		o := &p.offers[at]
		if o.member != i {
			continue
		}
		old := o.offer
		if o.offer = inService; at >= len(p.members) {
			o.offer = lastResort
		}
		merged, p.contested = remerge(merged, p.contested, p.offers, at, old)
	}
	return merged
}

// countOffered counts what members offer in place of what others did before.
func (s *watchedService) countOffered(before, now []contribution) {
	count := func(m Member, old, new *contribution) {
		var from, to offer
		if old != nil {
			from = old.raw
		}
		if new != nil {
			to = new.raw
		}
		if m.Cluster != Local {
			s.table.offered.replace(s.number, from, to)
		}
	}
	for i := range now {
		count(now[i].member, memberIn(before, now[i].member), &now[i])
	}
	for i := range before {
		if m := before[i].member; memberIn(now, m) == nil {
			count(m, &before[i], nil)
		}
	}
}

// reportRefused calls Options.ReportRefused if something is refused of a member and,
// before, nothing was.
func (s *watchedService) reportRefused(p *port, now, before *contribution) {
	if s.table.opts.ReportRefused == nil || now.partial == nil || before != nil && before.refusesAny() {
		return
	}
	all := now.refused()
	if all.total() == 0 {
		return // only of addresses that are not ready
	}
	s.table.opts.ReportRefused(s.id, p.number, now.member, all.Examples[0], all.total())
}

// update stores a port's merged list and summary, and publishes what that changes; whole:
// for all clients.
func (s *watchedService) update(p *port, d *Definition, merged []*Endpoint, whole bool, why origin) {
	sum := summarize(d, p.members, p.steering)
	before, unready, all := p.merged, p.unready, whole || sum != p.summary
	if sum.undeclared != p.summary.undeclared {
		s.table.countUpdates(p.number, slices.Clone(p.members), p.members)
	}
	p.merged, p.summary = merged, sum
	s.byNode.Store(sum.byNode)
	p.unready = p.steering.unready(p.offers, merged)
	switch {
	case all:
		s.publish(p, p.all(), why)
	case !same(before, merged) || !same(unready, p.unready):
		s.publish(p, p.concerned(before, unready), why)
	}
}

// summarize derives a port's summary from its members. A service that is not
// federated is treated as a list of one member or none. While its cluster is withdrawn it
// exists, and is empty, unless it has nothing to withdraw: an ExternalName is elsewhere.
func summarize(d *Definition, members []contribution, st *steering) summary {
	switch {
	case d == nil:
		return summary{complete: true, reason: Undefined}
	case !d.Federated && len(members) == 0:
		return summary{exists: true, complete: true, reason: NoRemoteService}
	}
	sum := summary{exists: true, complete: true, undeclared: undeclared(members)}
	if !d.Federated && st.withdrawn(0) && members[0].status.Service != ExternalName {
		return sum
	}
	for i, c := range members {
		switch {
		case st.unused(i):
		case c.status.Link == Pending:
			sum.complete, sum.reason = false, Unknown
		case c.status.Link == Unreachable:
			sum.reason = Unknown
		case c.member.Cluster == Local && c.status.Service == Present:
			sum.byNode = c.nodeLocal
		}
	}
	if !d.Federated {
		switch s := members[0].status; {
		case s.Link == Unlinked:
			sum.exists, sum.reason, sum.cluster = false, NotLinked, members[0].member.Cluster
		case s.Link == Ready && s.Service == Missing:
			sum.exists = false
		case s.Link == Ready && s.Service == ExternalName:
			sum.reason = External
		}
	}
	return sum
}

// undeclared reports whether no member declares the port, as far as is known.
func undeclared(members []contribution) bool {
	serving := false
	for _, c := range members {
		if c.status.Link == Pending || c.declares() {
			return false
		}
		serving = serving || c.status.Serving()
	}
	return serving
}

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

// publish publishes to clients of a port what has changed for them.
func (s *watchedService) publish(p *port, clients []*published, why origin) {
	now, x := s.table.opts.Now(), newPass(p, s.table.opts.IPv6, clients...)
	for _, to := range clients {
		x.publish(to, now, why)
		s.tiers.changed = s.tiers.changed || to.tiers != nil && to.tiers.reported != to.tiers.inUse && to.client.Instance == ""
	}
}

// publish publishes to one kind of client what has changed for it.
func (x *pass) publish(to *published, now time.Time, why origin) {
	t, use := x.tally(to.client), use("")
	if x.port.steering != nil {
		use = to.decide(x.port.steering, t, now)
		if to.tiers.due.IsZero() {
			delete(x.port.returning, to)
		} else {
			x.port.returning[to] = struct{}{}
		}
	}
	x.port.publish(to, x.get(t, use, to.client), x.byHintedNode(t, use), why)
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

// setSteering sets what steers the port's clients.
func (p *port) setSteering(st *steering) {
	if st == nil && p.steering != nil {
		for _, to := range p.all() {
			to.tiers = nil
		}
		clear(p.returning)
	}
	p.steering = st
}

// dueBy lists the clients for whom something changes by itself at that time, or before.
func (p *port) dueBy(now time.Time) (list []*published) {
	for to := range p.returning {
		if !to.tiers.due.After(now) {
			list = append(list, to)
		}
	}
	return list
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

// removeUnwatched removes the kinds of clients that have no watch: see watchedService.publishFirst.
func (p *port) removeUnwatched() {
	for _, to := range p.all() {
		if to.refs == 0 {
			p.remove(to)
		}
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

// linkerdGateways returns what of the offers counts with what is behind it.
func (p *port) linkerdGateways() (list []linkerdGateways) {
	for _, o := range p.offers {
		for _, l := range o.offer {
			if l.Behind != nil {
				list = append(list, linkerdGateways{l, p.members[o.member].member.Cluster})
			}
		}
	}
	return list
}

// copyTo copies the port, without its clients, to be read without the service's lock. It uses the
// memory of what to had before.
func (p *port) copyTo(to *port) {
	*to = port{
		number: p.number, members: append(to.members[:0], p.members...), steering: p.steering, offers: append(to.offers[:0], p.offers...),
		merged: p.merged, unready: p.unready, summary: p.summary,
	}
	if len(p.contested) > 0 {
		to.contested = maps.Clone(p.contested)
	}
}

package federation

import (
	"maps"
	"net/netip"
	"slices"
	"time"
)

// port is one watched port of a service: what its members offer, the merged list,
// and the sets published from it. The lock of the service guards it.
type port struct {
	service     *watchedService // fixed, as is number. A copy that is only described has no service
	number      uint16
	members     []contribution // in definition order
	steering    *steering      // nil: clients get everything
	offers      offers         // of the members, without what is refused or withdrawn: see steering.offers
	merged      []*Endpoint
	unready     []*Endpoint // known besides merged, if that makes a difference
	contested   contested   // among the offers
	summary     summary
	hinted      hintIndex               // of merged, or of what is in use of it
	audiences   map[string]audience     // by the name of the instance that clients ask for; empty: the whole service
	failingBack map[*published]struct{} // clients for whom a tier leaves by itself: see tierView.due
}

func newPort(s *watchedService, number uint16) *port {
	return &port{
		service:     s,
		number:      number,
		audiences:   make(map[string]audience),
		failingBack: make(map[*published]struct{}),
	}
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

// rebuild reads the members that are new, or have another source or another Strict,
// and keeps the contributions of the others. With scratch, it reads all members, counts all their
// addresses as offered, and publishes to all clients. It stores the parts of the port in one step,
// after everything that may panic, because functions that describe a port rely on that order.
func (p *port) rebuild(in inputs, scratch bool) {
	s := p.service
	before := p.members

	members := p.readMembers(in, scratch)
	if scratch {
		p.countOffered(nil, members)
	} else {
		p.countOffered(before, members)
	}
	allowed := screenMembers(members, in)

	st := newSteering(in, s.table.opts.Now)
	offers := st.offers(allowed)
	merged, contested := merge(offers)
	merged = keepPointers(p.merged, merged)
	all := scratch || p.steering != nil || st != nil

	s.table.countUpdates(p.number, before, members)
	s.steered = s.steered || st != nil
	p.members = members
	p.offers = offers
	p.contested = contested
	p.setSteering(st)

	p.update(in.definition, merged, all, origin{})
	for i := range members {
		p.reportRefused(&members[i], memberIn(before, members[i].member))
	}
	s.table.report(s.id, in.definition, p.members)
}

// readMembers returns the contributions of the members. It does not screen those that it has read.
func (p *port) readMembers(in inputs, scratch bool) []contribution {
	members := make([]contribution, 0, len(in.links))
	for i, l := range in.links {
		c := contribution{
			member: in.definition.Members[i],
			src:    l.Source,
			strict: in.definition.Strict,
		}
		before := memberIn(p.members, c.member)
		if before != nil {
			c.updates = before.updates
			c.total = before.total
			c.changed = before.changed
			if scratch || before.src != c.src {
				c.noteChange(p.service.table.opts.Now())
			}
		}
		switch {
		case l.Source == nil:
		case !scratch && before != nil && before.src == c.src && before.strict == c.strict:
			c = *before
		default:
			c.reader = l.Source.Reader(c.member.Service, p.number)
			c.raw = c.read()
			c.allowed = c.raw
		}
		c.status.Link = l.State
		members = append(members, c)
	}
	return members
}

// screenMembers screens the members whose bounds differ from before. It returns what may be served
// of each member.
func screenMembers(members []contribution, in inputs) []offer {
	allowed := make([]offer, 0, len(members))
	for i, l := range in.links {
		c := &members[i]
		if b := l.bounds(c.member.Cluster, in.owners); c.bounds != b {
			c.bounds = b
			c.screen(c.raw, func(int, *Slice) bool { return true })
		}
		allowed = append(allowed, c.allowed)
	}
	return allowed
}

// setSteering sets what steers the port's clients.
func (p *port) setSteering(st *steering) {
	if st == nil && p.steering != nil {
		for _, to := range p.all() {
			to.tierView = nil
		}
		clear(p.failingBack)
	}
	p.steering = st
}

// read reads one member again, and publishes what has changed.
func (p *port) read(m Member, at time.Time) {
	i := slices.IndexFunc(p.members, func(c contribution) bool { return c.member == m })
	if i < 0 || p.members[i].reader == nil {
		return // no longer a member, or its cluster is not ready: rebuild publishes that
	}
	now := p.members[i]
	raw := now.read()
	if m.Cluster != Local {
		// Before owners are asked for: see Table.AddressOwnerChanged.
		p.service.table.offered.replace(p.service.number, now.raw, raw)
	}
	now.replace(raw)
	p.replaceMembers([]memberChange{{i, now}}, origin{m.Cluster, at})
}

// screenAddr screens again what linked clusters offer at an address, and publishes what
// has changed: once for all members, since otherwise an address that two of them offer, and that
// has got an owner, would be taken from the second one for a moment.
func (p *port) screenAddr(a netip.Addr) {
	var now []memberChange
	for i, c := range p.members {
		has := func(l *Slice) bool { return l.hasAddr(a) }
		if c.bounds.owners != nil && slices.ContainsFunc(c.raw, has) {
			c.screen(c.raw, func(_ int, l *Slice) bool { return has(l) })
			now = append(now, memberChange{i, c})
		}
	}
	p.replaceMembers(now, origin{})
}

// tick publishes what has changed by the passing of time.
func (p *port) tick(now time.Time) {
	if p.steering == nil {
		return
	}
	if next := p.steering.next; !next.IsZero() && !next.After(now) {
		p.rebuild(p.service.table.inputs(p.service.id), false)
	}
	if p.steering == nil {
		return // the last cordon is over
	}
	p.publish(p.dueBy(now), origin{})
}

// dueBy lists the clients for whom something changes by itself at that time, or before.
func (p *port) dueBy(now time.Time) (list []*published) {
	for to := range p.failingBack {
		if !to.tierView.due.After(now) {
			list = append(list, to)
		}
	}
	return list
}

// memberChange is what a member contributes now.
type memberChange struct {
	index int // in port.members
	contribution
}

// replaceMembers stores members' contributions, and publishes what has changed, at once. It leaves
// in list those of before.
func (p *port) replaceMembers(list []memberChange, why origin) {
	if len(list) == 0 {
		return
	}
	table := p.service.table
	merged := p.merged
	publish := p.steering.countsUnready()
	recount := false // for all clients: other numbers are behind the Linkerd gateways of a member
	report := false
	for k := range list {
		before, now := &list[k].contribution, &p.members[list[k].index]
		*before, *now = *now, *before

		last := merged
		merged = p.replaceOffer(merged, list[k].index, now.allowed)
		otherStatus := before.status != now.status
		if !same(merged, last) || otherStatus || before.nodeLocal != now.nodeLocal {
			now.noteChange(table.opts.Now())
			publish = true
		}
		publish = publish || before.undeclared != now.undeclared
		recount = recount || p.steering != nil && before.allowed.behind() != now.allowed.behind()
		report = report || otherStatus
	}
	if publish || recount {
		d := table.definition(p.service.id)
		p.update(d, merged, recount, why)
		if report {
			table.report(p.service.id, d, p.members)
		}
	}
	for k := range list {
		p.reportRefused(&p.members[list[k].index], &list[k].contribution)
	}
}

// replaceOffer stores what may be served of a member's offer, and returns the merged list that
// follows from it, given the one before.
func (p *port) replaceOffer(merged []*Endpoint, i int, allowed offer) []*Endpoint {
	inService, lastResort := p.steering.divide(i, allowed)
	for at := range p.offers {
		o := &p.offers[at]
		if o.member != i {
			continue
		}
		old := o.offer
		if at < len(p.members) {
			o.offer = inService
		} else {
			o.offer = lastResort
		}
		merged, p.contested = remerge(merged, p.contested, p.offers, at, old)
	}
	return merged
}

// update stores the merged list and the summary, and publishes what that changes: to all clients if
// all is set or the summary differs, and otherwise to those whom the change concerns.
func (p *port) update(d *Definition, merged []*Endpoint, all bool, why origin) {
	s := p.service
	sum := summarize(d, p.members, p.steering)
	if sum.undeclared != p.summary.undeclared {
		s.table.countUpdates(p.number, slices.Clone(p.members), p.members)
	}
	all = all || sum != p.summary
	before := p.merged
	beforeUnready := p.unready

	p.merged = merged
	p.summary = sum
	p.unready = p.steering.unready(p.offers, merged)
	s.byNode.Store(sum.byNode)

	switch {
	case all:
		p.publish(p.all(), why)
	case !same(before, merged) || !same(beforeUnready, p.unready):
		p.publish(p.concerned(before, beforeUnready), why)
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
			sum.complete = false
			sum.reason = Unknown
		case c.status.Link == Unreachable:
			sum.reason = Unknown
		case c.member.Cluster == Local && c.status.Service == Present:
			sum.byNode = c.nodeLocal
		}
	}
	if !d.Federated {
		switch s := members[0].status; {
		case s.Link == Unlinked:
			sum.exists = false
			sum.reason = NotLinked
			sum.cluster = members[0].member.Cluster
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
	byNode := p.summary.byNode
	whole := p.audiences[""]
	if len(p.audiences) == 1 && whole != nil && !byNode && len(whole) == 1 && whole[""] != nil {
		return p.whole()
	}
	instances := make(map[string]bool)
	nodes := make(map[string]bool)
	everywhere := !byNode && p.steering != nil
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

// publish chooses what each of these kinds of clients gets now, and publishes that. Clients of a
// steered port and of others take the same way: without steering, all endpoints are in use.
func (p *port) publish(clients []*published, why origin) {
	opts := &p.service.table.opts
	now := opts.Now()
	x := newPass(p, opts.IPv6, clients...)
	for _, to := range clients {
		t := x.tally(to.client)
		u := p.decideTiers(to, t, now)
		set := p.newSet(to, x.get(t, u, to.client), x.byHintedNode(t, u), why)
		to.publish(set, p.steering)
		p.service.noteTiers(to)
	}
}

// decideTiers returns how much of each tier clients of a kind use now.
func (p *port) decideTiers(to *published, t *tally, now time.Time) use {
	if p.steering == nil {
		return everything
	}
	u := to.decideTiers(p.steering, t, now)
	if to.tierView.due.IsZero() {
		delete(p.failingBack, to)
	} else {
		p.failingBack[to] = struct{}{}
	}
	return u
}

// newSet returns a set of the chosen endpoints. hinted has all endpoints in use, by the nodes that node
// hints choose them for.
func (p *port) newSet(to *published, chosen []*Endpoint, hinted map[string][]*Endpoint, why origin) Set {
	set := Set{
		Version:    1,
		Exists:     p.summary.exists,
		Complete:   p.summary.complete,
		ByNode:     p.summary.byNode,
		Undeclared: p.summary.undeclared,
		Changed:    why.at,
		Origin:     why.cluster,
		Endpoints:  chosen,
		Members:    len(p.members),
		steering:   &to.steering,
	}
	if node := to.client.Node; node != "" {
		set.Hinted = hinted[node] != nil
	} else {
		set.hinted = hinted
	}
	if len(chosen) == 0 {
		set.Reason = p.summary.reason
		set.Cluster = p.summary.cluster
	}
	return set
}

// countOffered counts what members offer in place of what others did before.
func (p *port) countOffered(before, now []contribution) {
	s := p.service
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
func (p *port) reportRefused(now, before *contribution) {
	s := p.service
	if s.table.opts.ReportRefused == nil || now.partial == nil || before != nil && before.refusesAny() {
		return
	}
	all := now.refused()
	if all.total() == 0 {
		return // only of addresses that are not ready
	}
	s.table.opts.ReportRefused(s.id, p.number, now.member, all.Examples[0], all.total())
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
	delete(p.failingBack, to)
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

// gatewaySlices returns the slices of Linkerd gateways on offer, which count with what is behind them.
func (p *port) gatewaySlices() (list []gatewaySlice) {
	for _, o := range p.offers {
		for _, l := range o.offer {
			if l.Behind != nil {
				list = append(list, gatewaySlice{l, p.members[o.member].member.Cluster})
			}
		}
	}
	return list
}

// copyTo copies the port, without its clients, to be read without the service's lock. It uses the
// memory of what to had before.
func (p *port) copyTo(to *port) {
	*to = port{
		number:   p.number,
		members:  append(to.members[:0], p.members...),
		steering: p.steering,
		offers:   append(to.offers[:0], p.offers...),
		merged:   p.merged,
		unready:  p.unready,
		summary:  p.summary,
	}
	if len(p.contested) > 0 {
		to.contested = maps.Clone(p.contested)
	}
}

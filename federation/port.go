package federation

import (
	"maps"
	"net/netip"
	"slices"
	"time"
)

// port is a watched port of a service. A port holds the offers of the service's members, the merged
// list of endpoints, and the sets published from that list. The service's lock guards the port.
type port struct {
	service     *watchedService // fixed, as is number; nil in a copy that only describes the port
	number      uint16
	members     []contribution // in definition order
	steering    *steering      // nil if clients get everything
	offers      offers         // the members' offers without refused and withdrawn endpoints (see steering.offers)
	merged      []*Endpoint
	unready     []*Endpoint // nil if the number of unready endpoints does not matter
	contested   contested   // addresses that several slices in offers contain
	summary     summary
	hinted      hintIndex               // index of merged, or of the part in use
	audiences   map[string]audience     // by the requested instance; empty for the whole service
	failingBack map[*published]struct{} // clients that are about to drop tiers (see tierUsage.due)
}

func newPort(s *watchedService, number uint16) *port {
	return &port{
		service:     s,
		number:      number,
		audiences:   make(map[string]audience),
		failingBack: make(map[*published]struct{}),
	}
}

type summary struct {
	exists, complete, byNode, undeclared bool
	reason                               Reason      // the Reason of sets without endpoints
	cluster                              ClusterName // the Cluster of sets without endpoints
}

// origin contains the cluster and the time of the change that causes new sets of endpoints to be
// published. If the cause is not a call to Table.Changed, origin is the zero value.
type origin struct {
	cluster ClusterName
	at      time.Time
}

// The rebuild method reads new members, and members whose source or strictness has changed. The
// contributions of all other members are reused. If scratch is true, rebuild reads all members,
// records the addresses that linked clusters offer, and updates the sets of all clients.
//
// The port is modified only after the last call that may panic, so that the port can still be
// described after a panic.
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

// setSteering sets the steering for the port's clients. If st is nil, setSteering discards the
// clients' tier usage.
func (p *port) setSteering(st *steering) {
	if st == nil && p.steering != nil {
		for _, to := range p.all() {
			to.tierUsage = nil
		}
		clear(p.failingBack)
	}
	p.steering = st
}

func (p *port) read(m Member, at time.Time) {
	i := slices.IndexFunc(p.members, func(c contribution) bool { return c.member == m })
	if i < 0 || p.members[i].reader == nil {
		return // it is no longer a member, or its cluster is not ready; rebuild publishes such changes
	}
	now := p.members[i]
	raw := now.read()
	if m.Cluster != Local {
		// Update the offered addresses before looking up their owners, so that
		// Table.AddressOwnerChanged does not miss a new owner.
		p.service.table.offered.replace(p.service.number, now.raw, raw)
	}
	now.replace(raw)
	p.replaceMembers([]memberChange{{i, now}}, origin{m.Cluster, at})
}

// screenAddr checks again whether linked clusters may offer an address, and publishes all changes
// in one step. If the members were updated one by one, an address that is no longer allowed could
// briefly be served from another member.
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

func (p *port) tick(now time.Time) {
	if p.steering == nil {
		return
	}
	if next := p.steering.next; !next.IsZero() && !next.After(now) {
		p.rebuild(p.service.table.inputs(p.service.id), false)
	}
	if p.steering == nil {
		return // the last cordon has ended
	}
	p.publish(p.dueBy(now), origin{})
}

func (p *port) dueBy(now time.Time) (list []*published) {
	for to := range p.failingBack {
		if !to.tierUsage.due.After(now) {
			list = append(list, to)
		}
	}
	return list
}

type memberChange struct {
	index int // index in port.members
	contribution
}

// replaceMembers stores new contributions of members, and publishes all resulting changes in one
// step. After the call, the given list contains the previous contributions.
func (p *port) replaceMembers(list []memberChange, why origin) {
	if len(list) == 0 {
		return
	}
	table := p.service.table
	merged := p.merged
	publish := p.steering.countsUnready()
	recount := false // whether a changed Behind may affect all clients
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

// The update method stores the merged list and the summary, and publishes the changes to affected
// clients. If the summary has changed, or if the third argument is true, the changes are published
// to all clients.
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

// summarize derives a port's summary from its members. If a service is neither federated nor of
// type ExternalName, and its cluster is withdrawn, the service counts as existing but empty.
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

// The undeclared function returns true if at least one member contributes endpoints and no member
// declares the port. While any member's cluster is pending, the function returns false.
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

// port.concerned compares the port's lists before and after a change, and returns the clients that
// the change may affect. The clients are in the same order as in the result of port.all. If the
// port's summary or steering has changed as well, port.concerned must not be called.
//
// Clients may send any number of hostnames and node names that do not exist. To keep updates fast
// for the remaining clients, each client that the change cannot affect is omitted:
//
//   - Clients of an instance are affected only by changes to endpoints of this instance.
//   - If traffic must stay on the client's node, clients are affected only by changes to endpoints
//     on their own node or in other clusters.
//   - Clients with node hints are affected only by changes to endpoints with hints for their node,
//     and by changes that enable or disable node hints.
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

func (p *port) decideTiers(to *published, t *tally, now time.Time) use {
	if p.steering == nil {
		return everything
	}
	u := to.decideTiers(p.steering, t, now)
	if to.tierUsage.due.IsZero() {
		delete(p.failingBack, to)
	} else {
		p.failingBack[to] = struct{}{}
	}
	return u
}

// newSet returns a set of the chosen endpoints. The third argument contains the endpoints in use,
// grouped by the nodes in their hints.
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

// reportRefused calls Options.ReportRefused if addresses of a member are refused now, but none were
// refused before.
func (p *port) reportRefused(now, before *contribution) {
	s := p.service
	if s.table.opts.ReportRefused == nil || now.partial == nil || before != nil && before.refusesAny() {
		return
	}
	all := now.refused()
	if all.total() == 0 {
		return // only addresses that are not ready are refused
	}
	s.table.opts.ReportRefused(s.id, p.number, now.member, all.Examples[0], all.total())
}

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

func (p *port) leave(c Client) {
	to := p.audiences[c.Instance].find(c)
	if to.refs--; to.refs == 0 {
		p.remove(to)
	}
}

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

// removeUnwatched removes the entry of every kind of client that has no watches. If
// watchedService.add panics, an entry that has no watches may remain in the port.
func (p *port) removeUnwatched() {
	for _, to := range p.all() {
		if to.refs == 0 {
			p.remove(to)
		}
	}
}

// The all method returns one entry for each kind of client. Clients of the whole service come
// first, so that they do not have to wait for clients that request nonexistent instances.
func (p *port) all() []*published {
	list := p.whole()
	for instance, a := range p.audiences {
		if instance != "" {
			list = a.clients(list, nil)
		}
	}
	return list
}

func (p *port) whole() []*published { return p.audiences[""].clients(nil, nil) }

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

// copyTo copies everything in the port except the clients, so that the copy can be read without the
// service's lock. The copy replaces the previous content of the destination. To avoid allocations,
// copyTo reuses the memory of the destination's lists.
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

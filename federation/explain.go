package federation

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"net/netip"
	"slices"
	"time"
)

// Question is what Table.Explain is asked about.
type Question struct {
	Key   Key
	Addr  netip.Addr // only this address, at any port; zero: all
	Limit int        // how many addresses are listed; the others are counted
}

// Explanation is what clients of a key get at a moment, and why not the rest.
type Explanation struct {
	Definition *Definition     // nil: the service is not defined
	Set        *Set            // what clients get
	Broken     bool            // an update has panicked; clients keep Set, and nothing else is explained
	Steered    *SteeredClient  // the tiers that they use; nil if they are not steered
	Members    []WatchedMember // in definition order
	// Addresses are sorted by member and slice. Within one slice, those of the Share come first. If there is no
	// room for all, those that are not served come before all others.
	Addresses []ExplainedAddress
	Verdicts  map[Verdict]int // how many addresses have which, listed or not
	More      int             // how many are not listed
}

// ExplainedAddress is an address of a member's slice.
type ExplainedAddress struct {
	Considered
	Member   int       // its place among the members
	Endpoint *Endpoint // what is known of it; nil: it is not in the Share
	Tier     string    // that it belongs to for these clients; empty: they are not steered, or no tier names it
}

// Explain explains what clients of a key get. The key must be watched while it is asked
// about; not ok: it is not, or ctx has ended. It copies what is there under the service's
// lock, and does all else without. Where a source says nothing of what is not in its
// Shares, that is missing.
func (t *Table) Explain(ctx context.Context, q Question) (*Explanation, bool) {
	s := t.watchedService(q.Key.Service)
	if s == nil {
		return nil, false
	}
	x, ok := s.inquire(q)
	if !ok {
		return nil, false
	}
	if x.result.Broken {
		return x.result, true
	}
	x.choose()
	for i := range x.port.members {
		x.member(ctx, i)
	}
	x.list()
	return x.result, ctx.Err() == nil
}

// inquiry is a copy of what a key's set is made of, while it is explained.
type inquiry struct {
	Question
	ipv6    bool
	port    *port // a copy, without clients
	use     use   // how much of each tier the clients get
	won     []*Endpoint
	omitted omitted
	result  *Explanation

	added            int               // addresses
	served, unserved []numberedAddress // the first of these, up to Limit each
}

// numberedAddress is an address in the order of their explanations.
type numberedAddress struct {
	number int
	ExplainedAddress
}

// inquire copies what the key's set is made of; not ok: the key is not watched.
func (s *watchedService) inquire(q Question) (x *inquiry, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.ports[q.Key.Port]
	if p == nil {
		return nil, false
	}
	to := p.audiences[q.Key.Client.Instance].find(q.Key.Client)
	if to == nil {
		return nil, false
	}
	x = &inquiry{
		Question: q,
		ipv6:     s.table.opts.IPv6,
		port:     new(port),
		omitted:  make(omitted),
		result:   &Explanation{Verdicts: make(map[Verdict]int)},
	}
	x.result.Definition = s.table.inputs(s.id).definition
	x.result.Set, _ = to.latest.Get()
	if x.result.Broken = s.broken; x.result.Broken {
		return x, x.result.Set != nil
	}
	p.copyTo(x.port)
	if p.steering != nil {
		x.use = to.tierView.use
		x.result.Steered = p.describeClient(to)
	}
	return x, true
}

// choose lets what decides do so again, and say why.
func (x *inquiry) choose() {
	p := x.port
	x.result.Members = p.describe(nil)
	x.won, _ = merge(p.offers)
	pass := newPass(p, x.ipv6, &published{client: x.Key.Client})
	pass.omitted = x.omitted
	pass.get(pass.tally(x.Key.Client), x.use, x.Key.Client)
}

// member explains a member's addresses.
func (x *inquiry) member(ctx context.Context, i int) {
	c := &x.port.members[i]
	byName := make(map[string]*Slice, len(c.raw))
	for k, l := range c.raw {
		byName[l.Name] = l
		for _, e := range l.Endpoints {
			a := newExplainedAddress(i, l, e)
			a.Verdict = x.judge(c.allowed[k], &a)
			x.add(a)
		}
		for _, e := range l.Unready {
			if _, ready := find(l.Endpoints, e.Addr); ready {
				continue
			}
			a := newExplainedAddress(i, l, e)
			a.Verdict = NotReady
			x.add(a)
		}
	}
	if source, ok := c.src.(Explainer); ok {
		changed := x.leftOut(ctx, i, byName, source)
		for _, list := range [...][]numberedAddress{x.served, x.unserved} {
			for k := range list {
				if a := &list[k]; a.Member == i {
					a.Changed = changed[a.Slice]
				}
			}
		}
	}
	slices.Sort(x.result.Members[i].Ports)
}

// judge returns the verdict on an endpoint of a share, of which allowed is what the bounds leave
// of its slice. Each step of the way to the clients left it out, or did not.
func (x *inquiry) judge(allowed *Slice, a *ExplainedAddress) Verdict {
	c := &x.port.members[a.Member]
	st := x.port.steering
	if at, ok := find(allowed.Endpoints, a.Addr); !ok || allowed.Endpoints[at] != a.Endpoint {
		why, _ := c.bounds.refuses(a.Addr)
		a.Detail = why.Owner // empty also if the owner has just gone
		if c.bounds.within != nil && !c.bounds.within.Contains(a.Addr.Addr()) {
			return OutsideRanges
		}
		return Owned
	}
	if st != nil { // see divide
		switch p := &st.members[a.Member]; {
		case p.standingOf(a.Endpoint) == Withdrawn && p.lost:
			return ClusterLost
		case p.standingOf(a.Endpoint) == Withdrawn:
			return ClusterCordoned
		case p.unused:
			return Unpreferred
		}
	}
	if at, _ := find(x.won, a.Addr); x.won[at] != a.Endpoint {
		return Taken
	}
	at, _ := find(x.port.merged, a.Addr)
	e := x.port.merged[at]
	why := x.omitted[e]
	if why == TierNotUsed && st.tierOf(e, x.Key.Client.Zone) == st.unnamed() {
		return Unpreferred
	}
	return why
}

// newExplainedAddress returns an address of a slice in a member's share, without a verdict.
func newExplainedAddress(member int, l *Slice, e *Endpoint) ExplainedAddress {
	return ExplainedAddress{
		Considered: Considered{Slice: l.Name, Addr: e.Addr, Target: e.Twin},
		Member:     member,
		Endpoint:   e,
	}
}

// leftOut adds the addresses that are not in the member's share as it was read last, and
// returns when the slices changed.
func (x *inquiry) leftOut(
	ctx context.Context, i int, byName map[string]*Slice, source Explainer,
) (changed map[string]time.Time) {
	changed = make(map[string]time.Time)
	in := func(list []*Endpoint, a netip.AddrPort) bool {
		at, ok := find(list, a)
		return ok || a.Port() == 0 && at < len(list) && list[at].Addr.Addr() == a.Addr()
	}
	slice := ""
	added := make(map[netip.AddrPort]bool) // of that slice
	for a := range source.Explain(x.port.members[i].member.Service, x.Key.Port) {
		if ctx.Err() != nil {
			return nil
		}
		if a.Slice != slice {
			slice = a.Slice
			changed[a.Slice] = a.Changed
			clear(added)
		}
		l := byName[a.Slice]
		if added[a.Addr] || l != nil && (in(l.Endpoints, a.Addr) || in(l.Unready, a.Addr)) {
			continue
		}
		if a.Addr.IsValid() {
			added[a.Addr] = true
			added[netip.AddrPortFrom(a.Addr.Addr(), 0)] = true
		}
		switch c := &x.port.members[i]; {
		case c.strict && c.undeclared:
			a.Verdict = PortUndeclared
			a.Detail = ""
		case a.Verdict == Served:
			a.Verdict = Unread
		}
		x.add(ExplainedAddress{Considered: a, Member: i})
	}
	return changed
}

// add counts an address, and keeps it while there is room.
func (x *inquiry) add(a ExplainedAddress) {
	m, port := &x.result.Members[a.Member], a.Addr.Port()
	if port != 0 && !slices.Contains(m.Ports, port) && len(m.Ports) < maxExamples {
		m.Ports = append(m.Ports, port)
	}
	if x.Addr.IsValid() && a.Addr.Addr() != x.Addr {
		return
	}
	x.result.Verdicts[a.Verdict]++
	x.added++
	list := &x.unserved
	if a.Verdict == Served {
		list = &x.served
	}
	if len(*list) < x.Limit {
		x.describe(&a)
		*list = append(*list, numberedAddress{x.added, a})
	}
}

// describe adds to the verdict on an address what takes longer to find out.
func (x *inquiry) describe(a *ExplainedAddress) {
	st := x.port.steering
	if st != nil && a.Endpoint != nil && st.members[a.Member].standingOf(a.Endpoint) != Withdrawn {
		if i := st.tierOf(a.Endpoint, x.Key.Client.Zone); i < st.unnamed() {
			a.Tier = st.preference.tierName(i)
		}
	}
	switch a.Verdict {
	case OtherInstance:
		ofGateways := func(l *Slice) bool { return l.Behind != nil && l.Name == a.Slice }
		if slices.ContainsFunc(x.port.members[a.Member].raw, ofGateways) {
			a.Detail = "an instance can't be addressed through a gateway"
		}
	case Taken:
		for i, l := range x.port.offers.at(a.Addr) {
			a.Detail = fmt.Sprintf("clients get it from %v, slice %s", x.port.members[i].member, l.Name)
			break
		}
	}
}

// list lists the addresses in order or, if there is no room for all, those that are not served
// before all others.
func (x *inquiry) list() {
	all := append(x.unserved, x.served...)
	if x.added <= x.Limit {
		slices.SortFunc(all, func(a, b numberedAddress) int { return cmp.Compare(a.number, b.number) })
	}
	x.result.Addresses = make([]ExplainedAddress, 0, min(len(all), x.Limit))
	for _, a := range all[:min(len(all), x.Limit)] {
		x.result.Addresses = append(x.result.Addresses, a.ExplainedAddress)
	}
	x.result.More = x.added - len(x.result.Addresses)
}

// Verdict is whether clients get an address or, if not, the one reason that keeps it out:
// of several that which is decided first.
type Verdict uint8

const (
	// Served: clients get it. Of a Source: it is in the Share.
	Served Verdict = iota

	// What keeps it out of a Share.

	// NoSuchService: the cluster has no such Service, or one of type ExternalName.
	NoSuchService
	// NoSuchPort: its slice does not have the port for TCP.
	NoSuchPort
	// Terminating: it is shutting down, and so will not be ready again.
	Terminating
	// NotReady: its slice has it as not ready.
	NotReady
	// OtherTarget: it stands for something that is neither a Pod nor an ExternalWorkload.
	OtherTarget
	// UnusableText: it can't be read, or a text of its endpoint can't be sent.
	UnusableText
	// NotRoutable: no other host can have it.
	NotRoutable
	// PodUnknown: its Pod or ExternalWorkload is not known yet, or no longer.
	PodUnknown
	// Unusable: its ExternalWorkload can't be used.
	Unusable
	// BehindGateway: its cluster is on another network, and clients reach it through the
	// cluster's Linkerd gateways.
	BehindGateway
	// GatewayDead: it is a Linkerd gateway that does not answer, and another of its cluster does.
	GatewayDead
	// NothingBehind: it is a Linkerd gateway, and the Service has no ready endpoint behind it.
	NothingBehind

	// What keeps it out of all sets.

	// PortUndeclared: the member's Service does not declare the port for TCP, and the service is Strict.
	PortUndeclared
	// Unread: it has just changed in its cluster, and not been read yet.
	Unread
	// OutsideRanges: it is not one that the cluster's link may offer.
	OutsideRanges
	// Owned: it belongs to an object of the local cluster.
	Owned
	// ClusterCordoned: the cluster is withdrawn by hand.
	ClusterCordoned
	// ClusterLost: the cluster is withdrawn while its API is not followed.
	ClusterLost
	// Taken: clients get the address from another member, or from another slice.
	Taken

	// What keeps it out of the client's set.

	// OtherInstance: it does not have the hostname that was asked for.
	OtherInstance
	// OtherNode: traffic has to stay on the client's node.
	OtherNode
	// Unpreferred: no tier of the service's preference names it.
	Unpreferred
	// TierNotUsed: its tier is not in use, or it has left that already.
	TierNotUsed
	// HintedToOtherNodes: it is hinted to other nodes than the client's, and another endpoint is hinted to that.
	HintedToOtherNodes
	// OtherZones: it is hinted to other zones than the client's.
	OtherZones
	// IPv6Off: the gateway does not serve IPv6.
	IPv6Off
	// OtherFamily: clients get its Pod by an IPv6 address.
	OtherFamily
)

var verdictWords = [...]string{
	Served:             "served",
	NoSuchService:      "no-such-service",
	NoSuchPort:         "no-such-port",
	Terminating:        "terminating",
	NotReady:           "not-ready",
	OtherTarget:        "stands-for-something-else",
	UnusableText:       "unusable-text",
	NotRoutable:        "not-routable",
	PodUnknown:         "pod-not-known",
	Unusable:           "unusable",
	BehindGateway:      "behind-a-gateway",
	GatewayDead:        "gateway-dead",
	NothingBehind:      "nothing-behind-the-gateway",
	PortUndeclared:     "port-not-declared",
	Unread:             "just-changed",
	OutsideRanges:      "outside-ranges",
	Owned:              "owned-by-local-cluster",
	ClusterCordoned:    "cluster-cordoned",
	ClusterLost:        "cluster-lost",
	Taken:              "taken",
	OtherInstance:      "other-instance",
	OtherNode:          "other-node",
	Unpreferred:        "in-no-tier",
	TierNotUsed:        "tier-not-in-use",
	HintedToOtherNodes: "hinted-to-other-nodes",
	OtherZones:         "hinted-to-other-zones",
	IPv6Off:            "ipv6-off",
	OtherFamily:        "other-address-preferred",
}

// String is the verdict in words, as programs may rely on.
func (v Verdict) String() string { return verdictWords[v] }

// Explainer may be implemented by a Source: it explains addresses that are in none of its
// Shares why. It is safe for concurrent use and never calls back into the Table.
type Explainer interface {
	// Explain iterates over the addresses of all slices of a Service, as they are now, with
	// what a Share of that port makes of each, slice by slice. An address that a slice has
	// twice comes twice, where it has a port first.
	Explain(ServiceID, uint16) iter.Seq[Considered]
}

// Considered is an address of a slice, and what its Source makes of it.
type Considered struct {
	Slice   string         // as in Slice.Name
	Addr    netip.AddrPort // its port is 0 if the slice does not have the port; not valid: see Text
	Text    string         // what is written in place of an address that can't be read, or the beginning of it
	Target  string         // what it stands for; empty: nothing, or not known
	Verdict Verdict        // Served: it is in the Share
	Detail  string         // more about the verdict, if there is more
	Changed time.Time      // when what the slice offers changed last, or was first known; zero: not known
}

// omitted collects why a client does not get endpoints that others may get. nil collects nothing.
type omitted map[*Endpoint]Verdict

// note notes why endpoints of a list are not in what is left of it, which it returns.
func (o omitted) note(why Verdict, list, left []*Endpoint) []*Endpoint {
	if o == nil || len(list) == len(left) {
		return left
	}
	rest := left
	for _, e := range list {
		if len(rest) > 0 && rest[0] == e {
			rest = rest[1:]
		} else {
			o[e] = why
		}
	}
	return left
}

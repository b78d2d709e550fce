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

// Question contains the arguments of Table.Explain.
type Question struct {
	Key   Key
	Addr  netip.Addr // limits the explanation to this address, on any port; the zero Addr means all addresses
	Limit int        // maximum number of addresses to list; further addresses are only counted
}

// Explanation says which endpoints the clients of a key receive, and why they do not receive the
// other endpoints.
type Explanation struct {
	Definition *Definition     // nil if the service is not defined
	Set        *Set            // the set that clients receive
	Broken     bool            // whether an update panicked; clients keep Set, and nothing else is explained
	Steered    *SteeredClient  // the tiers that the clients use; nil if they are not steered
	Members    []WatchedMember // in definition order
	// Addresses is sorted by member and slice. In each slice, addresses in the Share come first. If
	// there are more than Question.Limit addresses, all unserved addresses come before the served
	// ones.
	Addresses []ExplainedAddress
	Verdicts  map[Verdict]int // number of addresses with each verdict, listed or not
	More      int             // number of addresses that are not listed
}

// ExplainedAddress describes an address in one of a member's slices.
type ExplainedAddress struct {
	Considered
	Member   int       // index of the member
	Endpoint *Endpoint // nil if the address is not in the Share
	Tier     string    // its tier for these clients; empty if they are not steered, or if it is outside all tiers
}

// inquiry holds the explanation of a key's set, and a copy of the state that determines this set.
type inquiry struct {
	Question
	ipv6    bool
	port    *port // a copy without clients
	use     use   // what share of each tier the clients receive
	won     []*Endpoint
	omitted omitted
	result  *Explanation

	added            int               // number of explained addresses so far
	served, unserved []numberedAddress // the first of these addresses, up to Limit of each kind
}

type numberedAddress struct {
	number int
	ExplainedAddress
}

// inquire copies the state that determines the key's set, or returns false if the key is not
// watched.
func inquire(s *watchedService, q Question) (x *inquiry, ok bool) {
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
		x.use = to.tierUsage.use
		x.result.Steered = describeClient(p, to)
	}
	return x, true
}

func (x *inquiry) choose() {
	p := x.port
	x.result.Members = describePort(p, nil)
	x.won, _ = merge(p.offers)
	pass := newPass(p, x.ipv6, &published{client: x.Key.Client})
	pass.omitted = x.omitted
	pass.get(pass.tally(x.Key.Client), x.use, x.Key.Client)
}

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

// judge returns the verdict on an endpoint in a share. The first argument is the endpoint's slice
// without the refused addresses.
func (x *inquiry) judge(allowed *Slice, a *ExplainedAddress) Verdict {
	c := &x.port.members[a.Member]
	st := x.port.steering
	if at, ok := find(allowed.Endpoints, a.Addr); !ok || allowed.Endpoints[at] != a.Endpoint {
		why, _ := c.bounds.refuses(a.Addr)
		a.Detail = why.Owner // also empty if the address has just lost its owner
		if c.bounds.within != nil && !c.bounds.within.Contains(a.Addr.Addr()) {
			return OutsideRanges
		}
		return Owned
	}
	if st != nil { // see steering.divide
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

func newExplainedAddress(member int, l *Slice, e *Endpoint) ExplainedAddress {
	return ExplainedAddress{
		Considered: Considered{Slice: l.Name, Addr: e.Addr, Target: e.Twin},
		Member:     member,
		Endpoint:   e,
	}
}

// leftOut explains why some addresses of a member are missing from the member's cached Share. The
// result maps the name of each slice to the time of the slice's last change.
func (x *inquiry) leftOut(
	ctx context.Context, i int, byName map[string]*Slice, source Explainer,
) (changed map[string]time.Time) {
	changed = make(map[string]time.Time)
	in := func(list []*Endpoint, a netip.AddrPort) bool {
		at, ok := find(list, a)
		return ok || a.Port() == 0 && at < len(list) && list[at].Addr.Addr() == a.Addr()
	}
	slice := ""
	added := make(map[netip.AddrPort]bool) // addresses of the current slice
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

func (x *inquiry) add(a ExplainedAddress) {
	m := &x.result.Members[a.Member]
	port := a.Addr.Port()
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
			a.Detail = "clients cannot reach a specific instance through a Linkerd gateway"
		}
	case Taken:
		for i, l := range x.port.offers.at(a.Addr) {
			a.Detail = fmt.Sprintf("clients get it from %v, slice %s", x.port.members[i].member, l.Name)
			break
		}
	}
}

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

// Verdict says whether clients receive an address and, if not, why. If several reasons exclude an
// address, the verdict is the first one that Isthmus checks.
type Verdict uint8

const (
	// Served means that clients receive the address. In the results of an Explainer, Served means
	// only that the address is in the Share.
	Served Verdict = iota

	// The following verdicts exclude an address from a Share.

	// NoSuchService means that the Service does not exist in the cluster, or is of type
	// ExternalName.
	NoSuchService
	// NoSuchPort means that the slice does not contain the TCP port, or that the Service behind a
	// Linkerd gateway does not declare the port.
	NoSuchPort
	Terminating
	NotReady
	// OtherTarget means that the endpoint refers to something other than a Pod or an
	// ExternalWorkload.
	OtherTarget
	// UnusableText means that the address cannot be parsed, or that a string in the endpoint cannot
	// be sent to proxies.
	UnusableText
	// NotRoutable means that the address cannot be reached from other hosts.
	NotRoutable
	// PodUnknown means that the Pod or ExternalWorkload is not cached.
	PodUnknown
	// Unusable means that the ExternalWorkload is invalid.
	Unusable
	// BehindGateway means that the cluster is on another network, so clients reach the endpoint
	// through the cluster's Linkerd gateways.
	BehindGateway
	// GatewayDead means that the address belongs to an unresponsive Linkerd gateway, while another
	// gateway of the cluster responds.
	GatewayDead
	// NothingBehind means that the address belongs to a Linkerd gateway, but that the Service has
	// no ready endpoint behind this gateway.
	NothingBehind

	// The following verdicts exclude an address from all sets.

	// PortUndeclared means that the service is strict, but the member's Service does not declare
	// the TCP port.
	PortUndeclared
	// Unread means that the address has changed in its cluster, but that the table has not read the
	// change yet.
	Unread
	// OutsideRanges means that the cluster's link does not allow the address.
	OutsideRanges
	// Owned means that the address is assigned to an object in the local cluster.
	Owned
	// ClusterCordoned means that the address is not served because a user has cordoned its cluster.
	ClusterCordoned
	// ClusterLost means that the cluster is withdrawn until its API can be watched again.
	ClusterLost
	// Taken means that clients receive the address from another member or another slice.
	Taken

	// The following verdicts exclude an address from the client's set.

	// OtherInstance means that the endpoint's hostname is not the requested one.
	OtherInstance
	// OtherNode means that traffic must stay on the client's node, and that the endpoint is on
	// another node.
	OtherNode
	// Unpreferred means that the address is outside all tiers of the service's preference.
	Unpreferred
	// TierNotUsed means that clients do not use the tier of the address, or have already dropped
	// the part of the tier that contains the address.
	TierNotUsed
	// HintedToOtherNodes means that the endpoint has hints only for nodes other than the client's,
	// while another endpoint has a hint for the client's node.
	HintedToOtherNodes
	// OtherZones means that the endpoint has hints only for zones other than the client's.
	OtherZones
	// IPv6Off means that Isthmus does not serve IPv6 addresses.
	IPv6Off
	// OtherFamily means that clients reach the same Pod at an IPv6 address instead.
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

// String returns the verdict as a fixed word that scripts may rely on.
func (v Verdict) String() string { return verdictWords[v] }

// Explainer is an interface that a Source may implement to explain why a Share does not contain an
// address. An Explainer must be safe for concurrent use, and must never call the Table.
type Explainer interface {
	// Explain iterates over the current addresses in all slices of a Service, one slice after
	// another. If a Share of the port contains an address, the verdict on this address is Served.
	// If a slice contains an address both with and without a port, the one with the port comes
	// first.
	Explain(ServiceID, uint16) iter.Seq[Considered]
}

// Considered describes an address in a slice, with the verdict of the cluster's Source.
type Considered struct {
	Slice   string         // Slice.Name
	Addr    netip.AddrPort // port 0 if the slice does not have the port; invalid if it cannot be parsed
	Text    string         // the start of the original text, if the address cannot be parsed
	Target  string         // the object that the address refers to; empty if unknown or there is none
	Verdict Verdict        // Served means that the address is in the Share
	Detail  string         // details of the verdict, if any
	Changed time.Time      // when the slice's offer last changed or was first cached; zero if unknown
}

// omitted records why a client does not receive endpoints that other clients may receive. A nil map
// records nothing.
type omitted map[*Endpoint]Verdict

// The note method records a verdict on each endpoint that is in the first list but not in the
// second, and returns the second list.
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

package cluster

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"unique"

	"isthmus/federation"
)

// reader is a [federation.Reader] of one service port. It keeps the joined endpoints
// of each slice, with the stamp that the slice had.
type reader struct {
	// fixed
	state   *state
	service federation.ServiceID
	port    uint16

	share federation.Share
	spec  *Service      // that the share is of
	parts []joinedSlice // sorted by key
	// explained gets what becomes of each address; nil: nobody asks.
	explained *[]federation.Considered
}

// joinedSlice is the result of joining one slice.
type joinedSlice struct {
	key     string
	stamp   uint64
	portRef portRef
	slice   *federation.Slice
}

// Read returns what the cluster offers now. Without the Service that is nothing, even
// if there are slices of it. While nothing has changed it returns the same slices, and
// in a changed slice the same pointers to equal endpoints.
func (r *reader) Read() federation.Share {
	r.state.mu.RLock()
	defer r.state.mu.RUnlock()
	e := r.state.services.byID[r.service]
	r.share.State = e.state()
	if r.share.State != federation.Present {
		return federation.Share{State: r.share.State}
	}
	if r.spec != e.spec {
		r.useSpec(e.spec)
	}
	if ref := e.spec.portRef(r.port); !r.current(e.slices, ref) {
		r.read(e.slices, ref)
	}
	return r.share
}

// useSpec stores what the share takes from the Service.
func (r *reader) useSpec(s *Service) {
	r.spec = s
	r.share.NodeLocal = s.NodeLocal
	r.share.Undeclared = !s.HasPort(r.port)
}

// current reports whether no slice has changed since the parts were made.
func (r *reader) current(list []*slice, ref portRef) bool {
	return slices.EqualFunc(r.parts, list, func(p joinedSlice, l *slice) bool {
		return p.stamp == l.stamp && p.portRef == ref
	})
}

// read joins the slices that have changed.
func (r *reader) read(list []*slice, ref portRef) {
	parts := make([]joinedSlice, 0, len(list))
	offered := make([]*federation.Slice, 0, len(list))
	old := r.parts
	for _, l := range list {
		for len(old) > 0 && old[0].key < l.key {
			old = old[1:]
		}
		before := joinedSlice{slice: &federation.Slice{}}
		if len(old) > 0 && old[0].key == l.key {
			before = old[0]
		}
		p := joinedSlice{key: l.key, stamp: l.stamp, portRef: ref, slice: before.slice}
		if before.stamp != l.stamp || before.portRef != ref {
			p.slice = r.join(l, ref, before.slice)
		}
		parts = append(parts, p)
		if len(p.slice.Endpoints)+len(p.slice.Unready) > 0 {
			offered = append(offered, p.slice)
		}
	}
	r.parts = parts
	r.share.Slices = offered
}

// join makes endpoints of a slice's addresses, ready or not. before is the previous
// result: it is returned if nothing has changed, and otherwise its equal endpoints are
// used again.
func (r *reader) join(l *slice, ref portRef, before *federation.Slice) *federation.Slice {
	j := joiner{state: r.state, requested: r.port, mirror: &l.mirror, group: groupLabels(l, r.state.cluster)}
	if len(before.Endpoints) > 0 {
		j.common = before.Endpoints[0].Common // what changes shares it with what does not
	}
	made := &federation.Slice{Name: l.key}
	for i := range l.subsets {
		sub := &l.subsets[i]
		port, ok := sub.port(ref)
		if ok {
			made.Endpoints = slices.Grow(made.Endpoints, sub.ready)
		}
		for k := range sub.addresses {
			a := &sub.addresses[k]
			j.useAddress(a.facts)
			why := j.atFacts.why
			at := port
			switch {
			case j.atFacts.leftOut:
				at = 0
			case !ok:
				why, at = federation.NoSuchPort, 0
			case k < sub.ready:
				made.Endpoints, why = j.endpoint(made.Endpoints, a, port, before.Endpoints)
			default:
				made.Unready = j.unready(made.Unready, a, port, before.Unready)
			}
			if r.explained != nil {
				*r.explained = append(*r.explained, considered(l, a, &j.atFacts, at, why))
			}
		}
	}
	made.Endpoints = sortByAddr(made.Endpoints)
	made.Unready = slices.DeleteFunc(sortByAddr(made.Unready), func(e *federation.Endpoint) bool {
		_, served := findAddr(made.Endpoints, e.Addr)
		return served
	})
	if slices.Equal(made.Endpoints, before.Endpoints) && slices.Equal(made.Unready, before.Unready) {
		return before
	}
	return made
}

// joiner makes the endpoints of one slice. Node, identity, opaque and skipped ports
// and the proxy's ports are the Pod's; the zone is the slice's.
type joiner struct {
	state     *state
	requested uint16  // the service port
	behind    uint16  // the container port, if endpoints have the port of a host port; otherwise zero
	mirror    *mirror // of the slice
	group     []federation.Label

	made   federation.Endpoint // in the making
	common *federation.Common  // of the previous endpoint: its siblings share it

	// The Pod of the previous address, and what follows from it: the next one
	// usually is its sibling, and has the same on another node.
	prefix    string // of the keys of all Pods of its namespace
	facts     podFacts
	template  template
	namespace string
	policy    *policy // of the namespace; nil: it has no Servers
	identity  federation.Identity
	labels    []federation.Label
	node      unique.Handle[string]
	nodeName  string
	at        unique.Handle[addressFacts]
	atFacts   addressFacts
	hints     *federation.Hints
}

// useAddress sets the joiner's fields that depend on where an address is.
func (j *joiner) useAddress(at unique.Handle[addressFacts]) {
	if j.at != at {
		j.at = at
		j.atFacts = at.Value()
		j.hints = newHints(&j.atFacts)
	}
}

// endpoint adds the endpoint of an address to a list, or an equal one from before, unless there
// is none that can be served. It returns why.
func (j *joiner) endpoint(
	list []*federation.Endpoint, a *address, port uint16, before []*federation.Endpoint,
) ([]*federation.Endpoint, federation.Verdict) {
	j.made = federation.Endpoint{
		Addr:     netip.AddrPortFrom(a.ip, port),
		Cluster:  j.state.cluster,
		Hostname: value(a.hostname),
		Hints:    j.hints,
	}
	zone := j.atFacts.zone
	if a.target != "" {
		if why := j.pod(&j.made, a.pod); why != federation.Served {
			return list, why
		}
	} else if j.bare(&j.made); !sendableText(zone) {
		zone = ""
	}
	j.made.Zone = zone
	return j.take(list, before)
}

// unready adds what is counted of an address that is not ready, unless, were it ready, it could not be sent.
func (j *joiner) unready(
	list []*federation.Endpoint, a *address, port uint16, before []*federation.Endpoint,
) []*federation.Endpoint {
	j.made = federation.Endpoint{
		Addr:     netip.AddrPortFrom(a.ip, port),
		Kind:     targetKind(a.target),
		Cluster:  j.state.cluster,
		Zone:     j.atFacts.zone,
		Node:     j.atFacts.node,
		Hostname: value(a.hostname),
		Twin:     a.target,
	}
	list, _ = j.take(list, before)
	return list
}

// take adds the endpoint in the making to a list, or an equal one from before, unless it can't be sent. It returns why.
func (j *joiner) take(list, before []*federation.Endpoint) ([]*federation.Endpoint, federation.Verdict) {
	if i, ok := findAddr(before, j.made.Addr); ok && before[i].Equal(&j.made) {
		j.common = before[i].Common // not the equal one that share may have made
		return append(list, before[i]), federation.Served
	}
	if !sendable(&j.made) {
		return list, federation.UnusableText
	}
	e := j.made
	return append(list, &e), federation.Served
}

// share returns what an endpoint has in common with its siblings: that of the previous one, if
// it is the same.
func (j *joiner) share(c federation.Common) *federation.Common {
	c.Group = j.group
	if !j.common.Equal(&c) {
		another := c
		j.common = &another
	}
	return j.common
}

// bare fills in an endpoint for an address without Pod or ExternalWorkload: one that
// was written by hand, or a gateway to another cluster.
func (j *joiner) bare(e *federation.Endpoint) {
	e.Kind = federation.Address
	common := federation.Common{Identity: federation.Identity{DNS: j.mirror.identity}}
	if name := j.mirror.remoteName; name != "" {
		common.Authority = name + ":" + strconv.Itoa(int(j.requested))
	}
	e.Common = j.share(common)
}

// pod fills in an endpoint of a Pod or ExternalWorkload. It returns Served, or why it can't:
// that has not been read yet, or can't be used.
func (j *joiner) pod(e *federation.Endpoint, p *pod) federation.Verdict {
	if p == nil || !p.facts.isRead() {
		return federation.PodUnknown
	}
	j.usePod(p)
	t := &j.template
	if t.invalid != "" {
		return federation.Unusable
	}
	opaque := j.policy.portsOf(p, t.opaque)
	port := e.Addr.Port()
	e.Kind = federation.Pod
	e.Twin = p.key
	e.Node = j.nodeName
	if t.external() {
		e.Kind = federation.Workload
	}
	common := federation.Common{Labels: j.labels, Identity: j.identity}
	e.Opaque = j.hasPort(opaque, port)
	if j.hasPort(t.skip, port) {
		common.Identity = federation.Identity{}
	} else {
		e.Meshed = t.controlPlane != "" || t.external()
	}
	e.Common = j.share(common)
	if j.behind == 0 && port != t.proxy.admin && port != t.proxy.control {
		e.InboundPort = t.proxy.inbound // the proxy listens at the Pod's IPs, not at its node's
	}
	return federation.Served
}

// hasPort reports whether a set has the port of an endpoint. For a host port, the set may have the
// container port, which is the one that proxies know, or the host port's own number.
func (j *joiner) hasPort(set Ports, port uint16) bool {
	return set.Contains(port) || j.behind != 0 && set.Contains(j.behind)
}

// usePod sets the joiner's fields that depend on the Pod and its namespace, unless the
// previous Pod had the same.
func (j *joiner) usePod(p *pod) {
	if j.node != p.facts.node {
		j.node = p.facts.node
		j.nodeName = p.facts.node.Value()
	}
	if j.facts.siblings(p.facts) && strings.HasPrefix(p.key, j.prefix) {
		return
	}
	j.facts = p.facts
	j.template = p.facts.fullTemplate()
	namespace, name := p.id(&j.template)
	j.prefix = strings.TrimSuffix(p.key, name)
	j.identity = j.proxyIdentity(namespace, &j.template)
	j.labels = podLabels(p, &j.template)
	j.namespace = namespace
	j.policy = j.state.policies.byNamespace[namespace]
}

// proxyIdentity is the TLS identity of a Pod's proxy. That of Pods of other control planes
// is not known. ExternalWorkloads have theirs in their spec.
func (j *joiner) proxyIdentity(namespace string, t *template) federation.Identity {
	s := j.state
	if t.external() {
		return t.identity.Value()
	}
	if s.trustDomain == "" || t.controlPlane == "" || t.controlPlane != s.controllerNamespace {
		return federation.Identity{}
	}
	name := t.serviceAccount + "." + namespace +
		".serviceaccount.identity." + s.controllerNamespace + "." + s.trustDomain
	return federation.Identity{DNS: name, ServerName: name}
}

// newHints returns the hints of the endpoints at a place; nil if they have none.
func newHints(at *addressFacts) *federation.Hints {
	if at.zones == "" && at.nodes == "" {
		return nil
	}
	return &federation.Hints{ForZones: splitHints(at.zones), ForNodes: splitHints(at.nodes)}
}

// splitHints returns the names that joinHints has joined.
func splitHints(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(s, hintEnd), hintEnd)
}

// sortByAddr sorts a list, and keeps the first endpoint of each address.
func sortByAddr(list []*federation.Endpoint) []*federation.Endpoint {
	slices.SortStableFunc(list, func(a, b *federation.Endpoint) int { return a.Addr.Compare(b.Addr) })
	return slices.CompactFunc(list, func(a, b *federation.Endpoint) bool { return a.Addr == b.Addr })
}

// findAddr returns where an address is in a sorted list.
func findAddr(list []*federation.Endpoint, at netip.AddrPort) (int, bool) {
	compare := func(e *federation.Endpoint, at netip.AddrPort) int { return e.Addr.Compare(at) }
	return slices.BinarySearchFunc(list, at, compare)
}

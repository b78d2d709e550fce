package cluster

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"unique"

	"isthmus/federation"
)

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
	at        unique.Handle[place]
	place     place
	hints     *federation.Hints
}

// usePlace sets the joiner's fields that depend on where an address is.
func (j *joiner) usePlace(at unique.Handle[place]) {
	if j.at != at {
		j.at, j.place = at, at.Value()
		j.hints = newHints(&j.place)
	}
}

// endpoint adds the endpoint of an address to a list, or an equal one from before, unless there
// is none that can be served. It returns why.
func (j *joiner) endpoint(list []*federation.Endpoint, a *address, port uint16, before []*federation.Endpoint) ([]*federation.Endpoint, federation.Verdict) {
	j.made = federation.Endpoint{
		Addr:     netip.AddrPortFrom(a.ip, port),
		Cluster:  j.state.cluster,
		Hostname: value(a.hostname),
		Hints:    j.hints,
	}
	zone := j.place.zone
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
func (j *joiner) unready(list []*federation.Endpoint, a *address, port uint16, before []*federation.Endpoint) []*federation.Endpoint {
	j.made = federation.Endpoint{
		Addr:     netip.AddrPortFrom(a.ip, port),
		Kind:     targetKind(a.target),
		Cluster:  j.state.cluster,
		Zone:     j.place.zone,
		Node:     j.place.node,
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
	opaque, port := j.policy.portsOf(p, t.opaque), e.Addr.Port()
	e.Kind, e.Twin, e.Node = federation.Pod, p.key, j.nodeName
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
		j.node, j.nodeName = p.facts.node, p.facts.node.Value()
	}
	if j.facts.siblings(p.facts) && strings.HasPrefix(p.key, j.prefix) {
		return
	}
	j.facts, j.template = p.facts, p.facts.fullTemplate()
	namespace, name := p.id(&j.template)
	j.prefix = strings.TrimSuffix(p.key, name)
	j.identity = j.state.identity(namespace, &j.template)
	j.labels = p.labels(&j.template)
	j.namespace, j.policy = namespace, j.state.policies[namespace]
}

// identity is the TLS identity of a Pod's proxy. That of Pods of other control planes
// is not known. ExternalWorkloads have theirs in their spec.
func (s *state) identity(namespace string, t *template) federation.Identity {
	if t.external() {
		return t.identity.Value()
	}
	if s.trustDomain == "" || t.controlPlane == "" || t.controlPlane != s.controllerNamespace {
		return federation.Identity{}
	}
	name := t.serviceAccount + "." + namespace + ".serviceaccount.identity." + s.controllerNamespace + "." + s.trustDomain
	return federation.Identity{DNS: name, ServerName: name}
}

// newHints returns the hints of the endpoints at a place; nil if they have none.
func newHints(at *place) *federation.Hints {
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
	return slices.BinarySearchFunc(list, at, func(e *federation.Endpoint, at netip.AddrPort) int { return e.Addr.Compare(at) })
}

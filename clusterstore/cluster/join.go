package cluster

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"unique"

	"isthmus/federation"
)

// reader is a [federation.Reader] for one port of a Service. A reader caches the endpoints of each
// slice, together with the stamp of the slice.
type reader struct {
	cache   *cache
	service federation.ServiceID
	port    uint16

	share federation.Share
	spec  *Service      // the Service from which share was created
	parts []joinedSlice // sorted by key
	// If this field is not nil, the reader appends its verdict on each address to the list to which
	// the field points.
	explained *[]federation.Considered
}

type joinedSlice struct {
	key     string
	stamp   uint64
	portRef portRef
	slice   *federation.Slice
}

// Read returns the current endpoints in this cluster for the Service and port. If the Service does
// not exist, the Share is empty, even if slices for the Service exist. For an unchanged slice, Read
// returns the same pointer as before. In a changed slice, unchanged endpoints keep their pointers.
func (r *reader) Read() federation.Share {
	r.cache.mu.RLock()
	defer r.cache.mu.RUnlock()
	e := r.cache.services.byID[r.service]
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

func (r *reader) useSpec(s *Service) {
	r.spec = s
	r.share.NodeLocal = s.NodeLocal
	r.share.Undeclared = !s.HasPort(r.port)
}

func (r *reader) current(list []*slice, ref portRef) bool {
	return slices.EqualFunc(r.parts, list, func(p joinedSlice, l *slice) bool {
		return p.stamp == l.stamp && p.portRef == ref
	})
}

// The read method calls join for each slice that has changed since the last call.
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

// join creates endpoints from the ready and unready addresses of a slice. The last argument is the
// result of the previous join. If nothing has changed, the previous result is returned. After a
// change, the endpoints that have not changed are reused.
func (r *reader) join(l *slice, ref portRef, before *federation.Slice) *federation.Slice {
	j := joiner{cache: r.cache, requested: r.port, mirror: &l.mirror, group: groupLabels(l, r.cache.cluster)}
	if len(before.Endpoints) > 0 {
		j.common = before.Endpoints[0].Common // changed endpoints share the Common value of unchanged endpoints
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
				made.Endpoints, why = j.addReady(made.Endpoints, a, port, before.Endpoints)
			default:
				made.Unready = j.addUnready(made.Unready, a, port, before.Unready)
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

// joiner creates the endpoints of one slice. The Pod determines the node, identity, opaque ports,
// skipped ports and proxy ports of an endpoint, and the slice determines the zone.
type joiner struct {
	cache     *cache
	requested uint16  // the service port
	behind    uint16  // container port behind a host port; zero if the port is not a host port
	mirror    *mirror // of the slice
	group     []federation.Label

	made   federation.Endpoint // the endpoint being built
	common *federation.Common  // of the previous endpoint; endpoints of siblings share this value

	// The following fields cache data about the Pod at the previous address. The Pod at the next
	// address is usually a sibling that differs only in its node.
	prefix    string // common prefix of all Pod keys in the namespace
	facts     podFacts
	template  template
	namespace string
	policy    *policy // policy of the namespace; nil if the namespace has no Servers
	identity  federation.Identity
	labels    []federation.Label
	node      unique.Handle[string]
	nodeName  string
	at        unique.Handle[addressFacts]
	atFacts   addressFacts
	hints     *federation.Hints
}

func (j *joiner) useAddress(at unique.Handle[addressFacts]) {
	if j.at != at {
		j.at = at
		j.atFacts = at.Value()
		j.hints = newHints(&j.atFacts)
	}
}

// addReady creates the endpoint for a ready address and appends the endpoint to the list. If the
// previous result contains an endpoint equal to the new one, addReady appends the previous endpoint
// instead. If the address cannot be served, addReady returns the reason, and does not change the
// list.
func (j *joiner) addReady(
	list []*federation.Endpoint, a *address, port uint16, before []*federation.Endpoint,
) ([]*federation.Endpoint, federation.Verdict) {
	j.made = federation.Endpoint{
		Addr:     netip.AddrPortFrom(a.ip, port),
		Cluster:  j.cache.cluster,
		Hostname: value(a.hostname),
		Hints:    j.hints,
	}
	zone := j.atFacts.zone
	if a.target != "" {
		if why := j.setPod(&j.made, a.pod); why != federation.Served {
			return list, why
		}
	} else if j.setBare(&j.made); !sendableText(zone) {
		zone = ""
	}
	j.made.Zone = zone
	return j.add(list, before)
}

// addUnready appends an endpoint for an address that is not ready. Only the endpoint fields that
// are required for counting the address are set. If the endpoint contains a string that cannot be
// sent to proxies, addUnready does not add the endpoint.
func (j *joiner) addUnready(
	list []*federation.Endpoint, a *address, port uint16, before []*federation.Endpoint,
) []*federation.Endpoint {
	j.made = federation.Endpoint{
		Addr:     netip.AddrPortFrom(a.ip, port),
		Kind:     targetKind(a.target),
		Cluster:  j.cache.cluster,
		Zone:     j.atFacts.zone,
		Node:     j.atFacts.node,
		Hostname: value(a.hostname),
		Twin:     a.target,
	}
	list, _ = j.add(list, before)
	return list
}

// add appends the endpoint under construction to the list. If the previous result contains an equal
// endpoint, that endpoint is appended instead. If the endpoint cannot be sent to proxies, the list
// does not change, and the second result is the reason.
func (j *joiner) add(list, before []*federation.Endpoint) ([]*federation.Endpoint, federation.Verdict) {
	if i, ok := findAddr(before, j.made.Addr); ok && before[i].Equal(&j.made) {
		j.common = before[i].Common // discards an equal value that shareCommon may have created
		return append(list, before[i]), federation.Served
	}
	if !sendable(&j.made) {
		return list, federation.UnusableText
	}
	e := j.made
	return append(list, &e), federation.Served
}

// shareCommon returns a pointer to the fields that an endpoint shares with its siblings. If the
// shared fields of the new endpoint equal those of the previous endpoint, shareCommon returns the
// previous endpoint's pointer to these fields.
func (j *joiner) shareCommon(c federation.Common) *federation.Common {
	c.Group = j.group
	if !j.common.Equal(&c) {
		another := c
		j.common = &another
	}
	return j.common
}

// setBare sets the fields of an endpoint without a Pod or ExternalWorkload. An address without a
// Pod or ExternalWorkload was added by a user, or belongs to a Linkerd gateway of another cluster.
func (j *joiner) setBare(e *federation.Endpoint) {
	e.Kind = federation.Address
	common := federation.Common{Identity: federation.Identity{DNS: j.mirror.identity}}
	if name := j.mirror.remoteName; name != "" {
		common.Authority = name + ":" + strconv.Itoa(int(j.requested))
	}
	e.Common = j.shareCommon(common)
}

// setPod sets the fields of an endpoint of a Pod or ExternalWorkload, and returns
// federation.Served. If the object is not cached or cannot be used, setPod returns the reason
// instead.
func (j *joiner) setPod(e *federation.Endpoint, p *pod) federation.Verdict {
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
	e.Common = j.shareCommon(common)
	if j.behind == 0 && port != t.proxy.admin && port != t.proxy.control {
		e.InboundPort = t.proxy.inbound // the proxy listens on the IPs of the Pod, not on those of the node
	}
	return federation.Served
}

// hasPort reports whether a set contains the port of the endpoint. For a host port, the result is
// also true if the set contains the container port behind the host port.
func (j *joiner) hasPort(set Ports, port uint16) bool {
	return set.Contains(port) || j.behind != 0 && set.Contains(j.behind)
}

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
	j.policy = j.cache.policies.byNamespace[namespace]
}

// proxyIdentity returns the TLS identity of the proxy of a Pod or ExternalWorkload. The identity of
// a Pod is unknown if another control plane injected its proxy. The identity of an ExternalWorkload
// comes from its spec.
func (j *joiner) proxyIdentity(namespace string, t *template) federation.Identity {
	c := j.cache
	if t.external() {
		return t.identity.Value()
	}
	if c.trustDomain == "" || t.controlPlane == "" || t.controlPlane != c.controllerNamespace {
		return federation.Identity{}
	}
	name := t.serviceAccount + "." + namespace +
		".serviceaccount.identity." + c.controllerNamespace + "." + c.trustDomain
	return federation.Identity{DNS: name, ServerName: name}
}

func newHints(at *addressFacts) *federation.Hints {
	if at.zones == "" && at.nodes == "" {
		return nil
	}
	return &federation.Hints{ForZones: splitHints(at.zones), ForNodes: splitHints(at.nodes)}
}

func splitHints(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(s, hintEnd), hintEnd)
}

// sortByAddr sorts a list of endpoints by address. If several endpoints have the same address, only
// the first endpoint remains.
func sortByAddr(list []*federation.Endpoint) []*federation.Endpoint {
	slices.SortStableFunc(list, func(a, b *federation.Endpoint) int { return a.Addr.Compare(b.Addr) })
	return slices.CompactFunc(list, func(a, b *federation.Endpoint) bool { return a.Addr == b.Addr })
}

func findAddr(list []*federation.Endpoint, at netip.AddrPort) (int, bool) {
	compare := func(e *federation.Endpoint, at netip.AddrPort) int { return e.Addr.Compare(at) }
	return slices.BinarySearchFunc(list, at, compare)
}

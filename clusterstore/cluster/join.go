package cluster

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"unique"

	"isthmus/federation"
)

// joiner makes the endpoints of one slice. A Pod's facts (node, identity, opaque and
// skipped ports, proxy) are its own; the zone is the slice's.
type joiner struct {
	state     *state
	requested uint16 // the port asked for
	data      *sliceData
	group     []federation.Label

	// The endpoint in the making, and room for its labels.
	made   federation.Endpoint
	labels []federation.Label

	// What the address before had, since siblings have much in common.
	prefix   string // of the keys of all Pods of its namespace
	facts    podFacts
	template template
	inNS     string // its namespace
	asked    uint16 // the port that policed is about; zero: not asked yet
	policed  bool   // whether Servers make that port opaque
	identity federation.Identity
	node     string
	hints    unique.Handle[string]
	zones    []string
}

// endpoint returns the endpoint for an address: the one of before, if that says
// the same; nil: there is none to serve.
func (j *joiner) endpoint(a *address, port uint16, before []*federation.Endpoint) *federation.Endpoint {
	if j.hints != a.hints {
		j.hints, j.zones = a.hints, splitHints(a.hints.Value())
	}
	j.made = federation.Endpoint{
		Addr:     netip.AddrPortFrom(a.ip, port),
		Cluster:  j.state.cluster,
		Hostname: a.hostname,
		Hints:    j.zones,
		Group:    j.group,
	}
	switch {
	case a.target == "":
		j.bare(&j.made)
	case j.pod(&j.made, a.pod):
		j.made.Zone = a.zone.Value()
	default:
		return nil
	}
	i, ok := slices.BinarySearchFunc(before, j.made.Addr, func(e *federation.Endpoint, at netip.AddrPort) int { return e.Addr.Compare(at) })
	if ok && before[i].Equal(&j.made) {
		return before[i]
	}
	if !clean(&j.made) {
		return nil
	}
	e := j.made
	e.Labels = slices.Clone(e.Labels)
	return &e
}

// bare fills in what is told of an address that nothing stands behind: a manual
// endpoint, or a gateway to another cluster. It has no zone.
func (j *joiner) bare(e *federation.Endpoint) {
	e.Kind = federation.Address
	e.Identity.DNS = j.data.mirror.identity
	if name := j.data.mirror.remoteName; name != "" {
		e.Authority = name + ":" + strconv.Itoa(int(j.requested))
	}
}

// pod fills in what is told of a Pod or ExternalWorkload. It reports false while
// that is unknown, or unusable.
func (j *joiner) pod(e *federation.Endpoint, p *pod) bool {
	if p == nil || !p.facts.known() {
		return false
	}
	j.take(p)
	t := &j.template
	if t.invalid != "" {
		return false
	}
	port := e.Addr.Port()
	e.Kind, e.Twin, e.Node = federation.Pod, p.key, j.node
	if t.external() {
		e.Kind = federation.Workload
	}
	j.labels = p.labels(j.labels[:0], t)
	e.Labels = j.labels
	if j.asked != port {
		j.asked, j.policed = port, j.state.policed(j.inNS, t, port)
	}
	e.Opaque = t.opaque.Contains(port) || j.policed
	if skipped := t.skip.Contains(port); !skipped {
		e.Meshed = t.controlPlane != "" || t.external()
		e.Identity = j.identity
	}
	if port != t.proxy.admin && port != t.proxy.control {
		e.InboundPort = t.proxy.inbound
	}
	return true
}

// take makes the pod's shared facts, and what follows from them and its
// namespace, the current ones.
func (j *joiner) take(p *pod) {
	if j.facts == p.facts && strings.HasPrefix(p.key, j.prefix) {
		return
	}
	j.facts, j.template, j.node = p.facts, p.facts.said(), p.facts.node.Value()
	namespace, name := p.id(&j.template)
	j.prefix = strings.TrimSuffix(p.key, name)
	j.identity = j.state.identity(namespace, &j.template)
	j.inNS, j.asked = namespace, 0
}

// identity is the name that a pod's proxy proves to have. Pods of other control
// planes have one that we know nothing about. ExternalWorkloads say theirs.
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

func splitHints(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(s, hintEnd), hintEnd)
}

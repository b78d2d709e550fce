package cluster

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"isthmus/clusterstore/decode"
	"isthmus/clusterstore/follow"
	"isthmus/federation"
	"isthmus/internal/adminapi"
	"isthmus/internal/pace"
	"isthmus/internal/panics"
)

// Local is the gateway's own cluster. Besides its endpoints it has what profiles are made of, who
// has an address, and the zones of its Nodes. All methods but Run are safe for concurrent use.
type Local struct{ *Cluster }

// LocalConfig is called when what only the own cluster has may have changed. All functions are
// needed, unless noted otherwise, and none may block but ProfileChanged.
type LocalConfig struct {
	// ServiceChanged is called for every Service added, changed or deleted, in order, from one goroutine.
	ServiceChanged func(federation.ServiceID)
	// NodeChanged gets every Node added, changed or deleted, in order, from one goroutine.
	NodeChanged func(name, zone string, exists bool)
	// ProfileChanged is called when a result of LookupAddress, Owner, Instance, ServiceProfile or Service may
	// have changed; at is when the first event behind it came. It has a goroutine of its own, so that
	// it does not wait for Config.Changed.
	ProfileChanged func(about Topic, at time.Time)

	// SliceManager, if set, is the mark of EndpointSlices that are written for ExternalWorkloads: their
	// label endpointslice.kubernetes.io/managed-by. The cluster then keeps what these are made of, and
	// Config.Changed is called after each change of one of them, or of their Service.
	SliceManager string
	// WorkloadChanged, which is needed with SliceManager, gets every ExternalWorkload that was added,
	// changed or deleted, in order, from one goroutine: as it was and as it is; nil: it was or is not there.
	WorkloadChanged func(before, after *decode.ExternalWorkload)
}

// sliceManager is LocalConfig.SliceManager; empty: there is none.
func (c *Config) sliceManager() string {
	if c.own == nil {
		return ""
	}
	return c.own.SliceManager
}

// NewLocal checks the configuration. It does no network IO and starts nothing.
func NewLocal(cfg Config, own LocalConfig) (*Local, error) {
	cfg.own = &own
	c, err := New(cfg)
	if err != nil {
		return nil, err
	}
	return &Local{c}, nil
}

// Reads reports whether a kind of object, such as services, has been listed, and why it can't be read now;
// nil: it can.
func (c *Local) Reads(resource string) (listed bool, err error) { return c.group.Reads(resource) }

// Found is the owner of an address.
type Found struct {
	// The Service with that cluster IP.
	ID      federation.ServiceID
	Service *Service // nil: the address is not a cluster IP

	// Endpoint is of the Pod or ExternalWorkload at the address or, if none is
	// known, of the bare address; nil: it is a cluster IP, or ambiguous.
	Endpoint *federation.Endpoint

	// Claimed describes the owners of an ambiguous address ("2 Pods with IP
	// 10.0.0.1"); empty: it is not ambiguous.
	Claimed string
}

// LookupAddress returns the owner of an address, now. A Pod owns its addresses from
// when it gets them until it ends, but until it runs the endpoint is that of the bare
// address.
func (c *Local) LookupAddress(addr netip.AddrPort) Found {
	s := c.state
	s.mu.RLock()
	defer s.mu.RUnlock()
	switch ids := s.own.services[addr.Addr()]; {
	case len(ids) == 1:
		return Found{ID: ids[0], Service: s.services[ids[0]].spec}
	case len(ids) > 1:
		return Found{Claimed: claimedAsClusterIP(len(ids), addr.Addr())}
	}
	list, by := s.own.claimants(addr)
	switch {
	case len(list) == 0:
		return Found{Endpoint: c.bareAddress(addr)}
	case len(list) == 1:
		return Found{Endpoint: c.endpointAt(list[0], addr, s.own.locations[list[0]].portBehind(addr))}
	}
	return Found{Claimed: claimed(len(list), by, addr)}
}

// Instance returns the endpoint of a service with that hostname, ready or not, for a
// client that connects to that port of it; nil: there is none, or its Pod has not been
// read yet.
func (c *Local) Instance(id federation.ServiceID, hostname string, port uint16) *federation.Endpoint {
	s := c.state
	s.mu.RLock()
	defer s.mu.RUnlock()
	e := s.services[id]
	if e == nil {
		return nil
	}
	l, a := e.byHostname(hostname)
	switch {
	case a == nil:
		return nil
	case a.target == "":
		addr := netip.AddrPortFrom(a.ip, port)
		made := c.bareAddress(addr)
		j := joiner{state: s, requested: port, mirror: &l.mirror}
		if j.bare(made); !sendable(made) {
			return c.bareAddress(addr)
		}
		return made
	case !a.pod.facts.isRead() || s.own.locations[a.pod] == nil:
		return nil
	}
	at := s.own.locations[a.pod]
	ip := a.ip
	if !at.workload {
		if len(at.ips) == 0 {
			return nil
		}
		ip = at.ips[0]
	}
	return c.endpointAt(a.pod, netip.AddrPortFrom(ip, port), 0)
}

// bareAddress is the endpoint of an address without known owner.
func (c *Local) bareAddress(addr netip.AddrPort) *federation.Endpoint {
	return &federation.Endpoint{Addr: addr, Cluster: c.cfg.Name, Opaque: c.cfg.Rules.DefaultOpaquePorts.Contains(addr.Port())}
}

// endpointAt returns the endpoint of a Pod or ExternalWorkload at an address. It is that
// of the bare address until it runs, and if it has a text that can't be sent. With the port of a
// host port, behind is the container port behind it; otherwise behind is zero.
func (c *Local) endpointAt(p *pod, addr netip.AddrPort, behind uint16) *federation.Endpoint {
	made := federation.Endpoint{Addr: addr, Cluster: c.cfg.Name}
	j := joiner{state: c.state, behind: behind}
	if !c.state.own.locations[p].life.runs() || j.pod(&made, p) != federation.Served {
		return c.bareAddress(addr)
	}
	common := *made.Common.Get()
	common.Labels = append(slices.Clip(common.Labels), federation.Label{Name: "namespace", Value: j.namespace})
	slices.SortFunc(common.Labels, func(a, b federation.Label) int { return cmp.Compare(a.Name, b.Name) })
	made.Common = &common
	if !sendable(&made) {
		return c.bareAddress(addr)
	}
	return &made
}

var _ federation.AddressOwners = (*Local)(nil)

// AddressOwner names the Service or Pod that has an address; empty: none has. A Service has
// its cluster IPs. A Pod has its IPs from when it gets them until it ends: those of its
// node too if it is on the node's network, or has ports there. ExternalWorkloads own
// nothing: a machine outside of all clusters may belong to several. Nor does a Pod own an
// address only because a host port is bound to it: whoever writes Pods may name any address.
func (c *Local) AddressOwner(ip netip.Addr) string {
	s := c.state
	s.mu.RLock()
	defer s.mu.RUnlock()
	if ids := s.own.services[ip]; len(ids) > 0 {
		return "Service " + ids[0].String()
	}
	for _, p := range s.own.pods[ip] {
		if s.own.locations[p].has(ip) {
			return "Pod " + p.key
		}
	}
	return ""
}

// AssignedTo names a Service, Node or Pod that a request to the address would reach. It returns the empty
// string if the cache has none.
//
// AssignedTo covers more than Owner: Nodes, addresses by which a Service is reached from outside (externalIPs and
// those of its load balancer), and every address that a Pod's host ports are bound to.
func (c *Local) AssignedTo(ip netip.Addr) string {
	s := c.state
	s.mu.RLock()
	defer s.mu.RUnlock()
	if ids := s.own.services[ip]; len(ids) > 0 {
		return "Service " + ids[0].String()
	}
	if names := s.own.nodes[ip]; len(names) > 0 {
		return "Node " + names[0]
	}
	if pods := s.own.pods[ip]; len(pods) > 0 {
		return "Pod " + pods[0].key
	}
	if ids := s.own.exposed[ip]; len(ids) > 0 {
		return "Service " + ids[0].String()
	}
	return ""
}

// AddressConflicts returns the ambiguous addresses of the cluster, the oldest conflicts first, and
// how many more there are.
func (c *Local) AddressConflicts() (list []adminapi.AddressConflict, more int) {
	all := c.state.own.conflicts.all()
	for _, x := range all[:min(len(all), maxConflicts)] {
		list = append(list, adminapi.AddressConflict{
			Address: x.address(),
			Claimed: x.claimed,
			Objects: x.objects,
			Since:   x.since,
		})
	}
	return list, len(all) - len(list)
}

// ServiceProfile returns a ServiceProfile, and whether it exists; nil, if it exists: it
// can't be used.
func (c *Local) ServiceProfile(namespace, name string) (p *federation.ServiceProfile, exists bool) {
	s := c.state
	s.mu.RLock()
	defer s.mu.RUnlock()
	f := s.own.profiles[follow.JoinKey(namespace, name)]
	if f == nil {
		return nil, false
	}
	return f.Profile, true
}

// ServiceProfileProblem returns why a ServiceProfile, or a part of it, can't be used, and whether
// the ServiceProfile exists.
func (c *Local) ServiceProfileProblem(namespace, name string) (problem string, exists bool) {
	s := c.state
	s.mu.RLock()
	defer s.mu.RUnlock()
	f := s.own.profiles[follow.JoinKey(namespace, name)]
	if f == nil {
		return "", false
	}
	return f.Problem, true
}

// What EndpointSlices for ExternalWorkloads are made of is kept for whoever writes them. The mark is
// LocalConfig.SliceManager: the value of the label by which slices name who manages them.

// Selecting returns a Service with what its slices for ExternalWorkloads are made of. It has no
// selector if it selects nothing. nil: there is no such Service.
func (c *Local) Selecting(id federation.ServiceID) *corev1.Service {
	if s := c.Service(id); s != nil {
		return s.decodeSelecting(id)
	}
	return nil
}

// SelectingIn returns the Services of a namespace that have a selector.
func (c *Local) SelectingIn(namespace string) (list []*corev1.Service) {
	c.state.mu.RLock()
	found := maps.Clone(c.state.own.selecting[namespace])
	c.state.mu.RUnlock()
	for name, s := range found {
		list = append(list, s.decodeSelecting(federation.ServiceID{Namespace: namespace, Name: name}))
	}
	return list
}

// Workloads returns the ExternalWorkloads of a namespace, or of all (""), with what slices have of them.
func (c *Local) Workloads(namespace string) (list []*decode.ExternalWorkload) {
	c.state.mu.RLock()
	defer c.state.mu.RUnlock()
	if namespace != "" {
		return slices.Collect(maps.Values(c.state.own.selected[namespace]))
	}
	for _, all := range c.state.own.selected {
		list = slices.AppendSeq(list, maps.Values(all))
	}
	return list
}

// HasWorkloads reports whether a namespace has ExternalWorkloads. It takes no longer if it has many.
func (c *Local) HasWorkloads(namespace string) bool {
	c.state.mu.RLock()
	defer c.state.mu.RUnlock()
	return len(c.state.own.selected[namespace]) > 0
}

// ManagedSlices returns how many of a Service's slices have the mark.
func (c *Local) ManagedSlices(id federation.ServiceID) int {
	c.state.mu.RLock()
	defer c.state.mu.RUnlock()
	return c.state.own.marked[id]
}

// AllManagedSlices returns how many slices have the mark, by Service, without Services that have none.
func (c *Local) AllManagedSlices() map[federation.ServiceID]int {
	c.state.mu.RLock()
	defer c.state.mu.RUnlock()
	return maps.Clone(c.state.own.marked)
}

// LinkerdMirrors returns the Services that Linkerd's service mirror has written, by the cluster that they
// mirror. Services that Isthmus has written or adopted are not among them, nor are federated ones.
func (c *Local) LinkerdMirrors() map[string][]federation.ServiceID {
	c.state.mu.RLock()
	defer c.state.mu.RUnlock()
	mirrors := make(map[string][]federation.ServiceID)
	for id, e := range c.state.services {
		if e.spec == nil || e.spec.Labels["mirror.linkerd.io/mirrored-service"] != "true" {
			continue
		}
		_, written := e.spec.Labels["isthmus.io/written-by"]
		if cluster := e.spec.Labels[mirrorClusterLabel]; cluster != "" && !written {
			mirrors[cluster] = append(mirrors[cluster], id)
		}
	}
	return mirrors
}

// Topic is what a change is about: an address or, with AddressOwner, only who has it, or else a Service and
// its ServiceProfiles, or, with Instances, the Service's hostnames.
type Topic struct {
	IP           netip.Addr
	AddressOwner bool
	Service      federation.ServiceID
	Instances    bool
}

// String names the topic: different topics have different names.
func (t Topic) String() string {
	switch {
	case t.AddressOwner:
		return "owner of " + t.IP.String()
	case t.IP.IsValid():
		return t.IP.String()
	case t.Instances:
		return "hostnames"
	}
	return "profiles"
}

// markTopic reports that profiles of that topic may have changed, because of an object
// of the namespace.
func (s *state) markTopic(namespace string, t Topic) {
	if s.live && s.own != nil {
		s.own.dirty.Add(namespace, t, s.now)
	}
}

// markAddress reports that what LookupAddress returns for an address may have changed,
// because of an object of the namespace.
func (s *state) markAddress(namespace string, ip netip.Addr) { s.markTopic(namespace, Topic{IP: ip}) }

// markInstances reports that the owner of a hostname of the service, or its endpoint,
// may have changed.
func (s *state) markInstances(id federation.ServiceID) {
	s.markTopic(id.Namespace, Topic{Service: id, Instances: true})
}

// markOwner reports besides that the result of Owner may have changed.
func (s *state) markOwner(namespace string, ip netip.Addr) {
	s.markAddress(namespace, ip)
	s.markTopic(namespace, Topic{IP: ip, AddressOwner: true})
}

func (s *state) markLocation(p *pod) {
	for ip := range s.own.location(p).all {
		s.markAddress(p.namespace(), ip)
	}
}

// topicChanged looks for conflicts at an address that other objects claim, and then reports the
// topic.
func (c *Cluster) topicChanged(about Topic, at time.Time) {
	if about.AddressOwner {
		work := panics.Work{Where: panics.Change, Object: "conflicts at " + about.IP.String()}
		find := func() { c.state.findConflicts(about.IP, at) }
		again := func() { c.state.own.dirty.Add("", about, at) } // for the worker, which alone finds conflicts
		c.cfg.Supervisor.Do(work, find, again)
	}
	c.profileChanged(about, at)
}

// findConflicts updates the conflicts at an IP. It is not called twice at the same time.
func (s *state) findConflicts(ip netip.Addr, at time.Time) {
	s.own.conflicts.set(ip, s.conflictsAt(ip, at))
}

// conflictsAt returns the conflicts at an IP, sorted by port.
func (s *state) conflictsAt(ip netip.Addr, since time.Time) []conflict {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.own.conflictsAt(ip, since)
}

// markCrowded has the worker look for conflicts at all IPs that several objects have.
func (s *state) markCrowded() {
	if s.own == nil {
		return
	}
	for ip, list := range s.own.services {
		if len(list) > 1 {
			s.markTopic(list[0].Namespace, Topic{IP: ip, AddressOwner: true})
		}
	}
	for _, index := range []map[netip.Addr][]*pod{s.own.pods, s.own.workloads} {
		for ip, list := range index {
			if len(list) > 1 {
				s.markTopic(list[0].namespace(), Topic{IP: ip, AddressOwner: true})
			}
		}
	}
}

// setLocation sets the addresses of a Pod or ExternalWorkload; nil: it has none.
func (s *state) setLocation(p *pod, to *location) {
	a := s.own
	if a == nil || a.locations[p].equal(to) {
		return
	}
	namespace := p.namespace()
	for ip := range a.locations[p].all {
		unindex(a.index(a.locations[p]), ip, p)
		s.markOwner(namespace, ip)
	}
	if to == nil {
		delete(a.locations, p)
	} else {
		a.locations[p] = to
	}
	for ip := range to.all {
		all := a.index(to)
		all[ip] = append(all[ip], p)
		s.markOwner(namespace, ip)
	}
	for _, l := range p.slices { // some may have it with a hostname
		s.markInstances(l.service)
	}
}

// ownIndex is the part of the state that only the own cluster has: the index of addresses, and
// ServiceProfiles.
type ownIndex struct {
	dirty     *pace.Dirty[Topic] // by the namespace of the object that has changed
	locations map[*pod]*location
	pods      map[netip.Addr][]*pod                 // Pods with that IP, their own or their node's
	workloads map[netip.Addr][]*pod                 // ExternalWorkloads with that IP
	services  map[netip.Addr][]federation.ServiceID // Services with that cluster IP
	exposed   map[netip.Addr][]federation.ServiceID // Services that are reached from outside by that address
	nodes     map[netip.Addr][]string               // names of the Nodes with that address
	marked    map[federation.ServiceID]int          // how many slices of a Service have the mark; none with 0
	profiles  map[string]*Translated
	rejected  int                                   // how many of profiles can't be used at all
	conflicts conflicts                             // has its own mutex
	selecting byNamespace[*Service]                 // Services that have a selector
	selected  byNamespace[*decode.ExternalWorkload] // what slices have of ExternalWorkloads
	replaced  *decode.ExternalWorkload              // what was there of the one that was put or dropped last; of the goroutine that does so
}

func newOwnIndex() *ownIndex {
	return &ownIndex{
		dirty:     pace.NewDirty[Topic](),
		locations: make(map[*pod]*location),
		pods:      make(map[netip.Addr][]*pod),
		workloads: make(map[netip.Addr][]*pod),
		services:  make(map[netip.Addr][]federation.ServiceID),
		exposed:   make(map[netip.Addr][]federation.ServiceID),
		nodes:     make(map[netip.Addr][]string),
		marked:    make(map[federation.ServiceID]int),
		profiles:  make(map[string]*Translated),
		conflicts: conflicts{byIP: make(map[netip.Addr][]conflict)},
		selecting: make(byNamespace[*Service]),
		selected:  make(byNamespace[*decode.ExternalWorkload]),
	}
}

// location returns where a Pod or ExternalWorkload is; nil: that is not known, or the cluster is
// not the own one.
func (x *ownIndex) location(p *pod) *location {
	if x == nil {
		return nil
	}
	return x.locations[p]
}

// setSelecting keeps a Service if it has a selector; nil: there is no such Service. x may be nil.
func (x *ownIndex) setSelecting(id federation.ServiceID, to *Service) {
	switch {
	case x == nil:
	case to == nil || to.selecting == nil:
		x.selecting.drop(id.Namespace, id.Name)
	default:
		x.selecting.set(id.Namespace, id.Name, to)
	}
}

// selectedAt returns what slices have of the ExternalWorkload with that key; nil: nothing. x may be nil.
func (x *ownIndex) selectedAt(key string) *decode.ExternalWorkload {
	if x == nil {
		return nil
	}
	namespace, name := follow.SplitKey(key)
	return x.selected[namespace][name]
}

// setSelected keeps what slices have of the ExternalWorkload with that key; nil: nothing. x may be nil.
func (x *ownIndex) setSelected(key string, to *decode.ExternalWorkload) {
	if x == nil {
		return
	}
	x.replaced = x.selectedAt(key)
	namespace, name := follow.SplitKey(key)
	if to == nil {
		x.selected.drop(namespace, name)
	} else {
		x.selected.set(namespace, name, to)
	}
}

// countMarked adds n to how many slices of a Service have the mark, if the slice has it. x may be nil.
func (x *ownIndex) countMarked(l *slice, n int) {
	if x == nil || l == nil || l.marked == "" {
		return
	}
	if x.marked[l.service] += n; x.marked[l.service] == 0 {
		delete(x.marked, l.service)
	}
}

// byNamespace has something of objects, by namespace and name. Namespaces without any have no map.
type byNamespace[V any] map[string]map[string]V

func (b byNamespace[V]) set(namespace, name string, v V) {
	if b[namespace] == nil {
		b[namespace] = make(map[string]V)
	}
	b[namespace][name] = v
}

func (b byNamespace[V]) drop(namespace, name string) {
	if delete(b[namespace], name); len(b[namespace]) == 0 {
		delete(b, namespace)
	}
}

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

// Local is the cluster that Isthmus runs in. Besides its endpoints it has the objects that addresses are
// assigned to, ServiceProfiles, and the zones of its Nodes. All methods but Run are safe for concurrent use.
//
// Other files of this package call methods of Local through state.local. It is nil if the cluster is a linked one, and
// the methods that they call accept that.
type Local struct {
	*Cluster
	dirty     *pace.Dirty[Topic] // fixed; by the namespace of the object that has changed
	conflicts conflicts          // has its own mutex

	// All under state.mu.
	addresses addressIndex
	profiles  profileIndex
	managed   map[federation.ServiceID]int          // how many slices LocalConfig.SliceManager manages; none with 0
	selecting byNamespace[*Service]                 // Services that have a selector
	selected  byNamespace[*decode.ExternalWorkload] // what slices have of ExternalWorkloads

	// replaced is the previous version of the ExternalWorkload that was put or dropped last. Only the goroutine that
	// does so uses it.
	replaced *decode.ExternalWorkload
}

// LocalConfig is called when what only the local cluster has may have changed. All functions are
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

// NewLocal checks the configuration. It does no network IO and starts nothing.
func NewLocal(cfg Config, local LocalConfig) (*Local, error) {
	cfg.local = &local
	c, err := New(cfg)
	if err != nil {
		return nil, err
	}
	return c.state.local, nil
}

func newLocal(c *Cluster) *Local {
	l := &Local{
		Cluster:   c,
		dirty:     pace.NewDirty[Topic](),
		conflicts: conflicts{byIP: make(map[netip.Addr][]conflict)},
		addresses: newAddressIndex(),
		managed:   make(map[federation.ServiceID]int),
		selecting: make(byNamespace[*Service]),
		selected:  make(byNamespace[*decode.ExternalWorkload]),
	}
	l.profiles = newProfileIndex(l)
	return l
}

// Reads reports whether a kind of object, such as services, has been listed, and why it can't be read now;
// nil: it can.
func (l *Local) Reads(resource string) (listed bool, err error) { return l.group.Reads(resource) }

// Found is what an address is assigned to.
type Found struct {
	// The Service with that cluster IP.
	ID      federation.ServiceID
	Service *Service // nil: the address is not a cluster IP

	// Endpoint is of the Pod or ExternalWorkload at the address or, if none is
	// known, of the bare address; nil: it is a cluster IP, or ambiguous.
	Endpoint *federation.Endpoint

	// Claimed describes the objects that claim an ambiguous address ("2 Pods with IP 10.0.0.1"). It is empty if the
	// address is not ambiguous.
	Claimed string
}

// LookupAddress returns what an address is assigned to now. A Pod has its addresses from when it gets them until it
// ends. Until the Pod runs, the endpoint is that of the bare address.
func (l *Local) LookupAddress(addr netip.AddrPort) Found {
	s := l.state
	s.mu.RLock()
	defer s.mu.RUnlock()
	switch ids := l.addresses.services[addr.Addr()]; {
	case len(ids) == 1:
		return Found{ID: ids[0], Service: s.services.byID[ids[0]].spec}
	case len(ids) > 1:
		return Found{Claimed: claimedAsClusterIP(len(ids), addr.Addr())}
	}
	list, by := l.addresses.claimants(addr)
	switch {
	case len(list) == 0:
		return Found{Endpoint: l.bareAddress(addr)}
	case len(list) == 1:
		return Found{Endpoint: l.endpointAt(list[0], addr, l.addresses.locations[list[0]].portBehind(addr))}
	}
	return Found{Claimed: claimed(len(list), by, addr)}
}

// Instance returns the endpoint of a service with that hostname, ready or not, for a
// client that connects to that port of it; nil: there is none, or its Pod has not been
// read yet.
func (l *Local) Instance(id federation.ServiceID, hostname string, port uint16) *federation.Endpoint {
	s := l.state
	s.mu.RLock()
	defer s.mu.RUnlock()
	e := s.services.byID[id]
	if e == nil {
		return nil
	}
	from, a := e.byHostname(hostname)
	switch {
	case a == nil:
		return nil
	case a.target == "":
		addr := netip.AddrPortFrom(a.ip, port)
		made := l.bareAddress(addr)
		j := joiner{state: s, requested: port, mirror: &from.mirror}
		if j.bare(made); !sendable(made) {
			return l.bareAddress(addr)
		}
		return made
	case !a.pod.facts.isRead() || l.addresses.locations[a.pod] == nil:
		return nil
	}
	at := l.addresses.locations[a.pod]
	ip := a.ip
	if !at.workload {
		if len(at.ips) == 0 {
			return nil
		}
		ip = at.ips[0]
	}
	return l.endpointAt(a.pod, netip.AddrPortFrom(ip, port), 0)
}

// bareAddress is the endpoint of an address that no cached object has.
func (l *Local) bareAddress(addr netip.AddrPort) *federation.Endpoint {
	return &federation.Endpoint{
		Addr:    addr,
		Cluster: l.cfg.Name,
		Opaque:  l.cfg.Rules.DefaultOpaquePorts.Contains(addr.Port()),
	}
}

// endpointAt returns the endpoint of a Pod or ExternalWorkload at an address. It is that
// of the bare address until it runs, and if it has a text that can't be sent. With the port of a
// host port, behind is the container port behind it; otherwise behind is zero.
func (l *Local) endpointAt(p *pod, addr netip.AddrPort, behind uint16) *federation.Endpoint {
	made := federation.Endpoint{Addr: addr, Cluster: l.cfg.Name}
	j := joiner{state: l.state, behind: behind}
	if !l.addresses.locations[p].life.runs() || j.pod(&made, p) != federation.Served {
		return l.bareAddress(addr)
	}
	common := *made.Common.Get()
	common.Labels = append(slices.Clip(common.Labels), federation.Label{Name: "namespace", Value: j.namespace})
	slices.SortFunc(common.Labels, func(a, b federation.Label) int { return cmp.Compare(a.Name, b.Name) })
	made.Common = &common
	if !sendable(&made) {
		return l.bareAddress(addr)
	}
	return &made
}

var _ federation.AddressOwners = (*Local)(nil)

// AddressOwner names the Service or Pod that has an address; empty: none has. A Service has
// its cluster IPs. A Pod has its IPs from when it gets them until it ends: those of its
// node too if it is on the node's network, or has ports there. ExternalWorkloads own
// nothing: a machine outside of all clusters may belong to several. Nor does a Pod own an
// address only because a host port is bound to it: whoever writes Pods may name any address.
func (l *Local) AddressOwner(ip netip.Addr) string {
	s := l.state
	s.mu.RLock()
	defer s.mu.RUnlock()
	if ids := l.addresses.services[ip]; len(ids) > 0 {
		return "Service " + ids[0].String()
	}
	for _, p := range l.addresses.pods[ip] {
		if l.addresses.locations[p].has(ip) {
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
func (l *Local) AssignedTo(ip netip.Addr) string {
	s := l.state
	s.mu.RLock()
	defer s.mu.RUnlock()
	if ids := l.addresses.services[ip]; len(ids) > 0 {
		return "Service " + ids[0].String()
	}
	if names := l.addresses.nodes[ip]; len(names) > 0 {
		return "Node " + names[0]
	}
	if pods := l.addresses.pods[ip]; len(pods) > 0 {
		return "Pod " + pods[0].key
	}
	if ids := l.addresses.exposed[ip]; len(ids) > 0 {
		return "Service " + ids[0].String()
	}
	return ""
}

// AddressConflicts returns the ambiguous addresses of the cluster, the oldest conflicts first, and
// how many more there are.
func (l *Local) AddressConflicts() (list []adminapi.AddressConflict, more int) {
	all := l.conflicts.all()
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
func (l *Local) ServiceProfile(namespace, name string) (p *federation.ServiceProfile, exists bool) {
	s := l.state
	s.mu.RLock()
	defer s.mu.RUnlock()
	f := l.profiles.byKey[follow.JoinKey(namespace, name)]
	if f == nil {
		return nil, false
	}
	return f.Profile, true
}

// ServiceProfileProblem returns why a ServiceProfile, or a part of it, can't be used, and whether
// the ServiceProfile exists.
func (l *Local) ServiceProfileProblem(namespace, name string) (problem string, exists bool) {
	s := l.state
	s.mu.RLock()
	defer s.mu.RUnlock()
	f := l.profiles.byKey[follow.JoinKey(namespace, name)]
	if f == nil {
		return "", false
	}
	return f.Problem, true
}

// What EndpointSlices for ExternalWorkloads are made of is kept for whoever writes them. The mark is
// LocalConfig.SliceManager: the value of the label by which slices name who manages them.

// Selecting returns a Service with what its slices for ExternalWorkloads are made of. It has no
// selector if it selects nothing. nil: there is no such Service.
func (l *Local) Selecting(id federation.ServiceID) *corev1.Service {
	if s := l.Service(id); s != nil {
		return s.decodeSelecting(id)
	}
	return nil
}

// SelectingIn returns the Services of a namespace that have a selector.
func (l *Local) SelectingIn(namespace string) (list []*corev1.Service) {
	l.state.mu.RLock()
	found := maps.Clone(l.selecting[namespace])
	l.state.mu.RUnlock()
	for name, s := range found {
		list = append(list, s.decodeSelecting(federation.ServiceID{Namespace: namespace, Name: name}))
	}
	return list
}

// Workloads returns the ExternalWorkloads of a namespace, or of all (""), with what slices have of them.
func (l *Local) Workloads(namespace string) (list []*decode.ExternalWorkload) {
	l.state.mu.RLock()
	defer l.state.mu.RUnlock()
	if namespace != "" {
		return slices.Collect(maps.Values(l.selected[namespace]))
	}
	for _, all := range l.selected {
		list = slices.AppendSeq(list, maps.Values(all))
	}
	return list
}

// HasWorkloads reports whether a namespace has ExternalWorkloads. It takes no longer if it has many.
func (l *Local) HasWorkloads(namespace string) bool {
	l.state.mu.RLock()
	defer l.state.mu.RUnlock()
	return len(l.selected[namespace]) > 0
}

// ManagedSlices returns how many of a Service's slices have the mark.
func (l *Local) ManagedSlices(id federation.ServiceID) int {
	l.state.mu.RLock()
	defer l.state.mu.RUnlock()
	return l.managed[id]
}

// AllManagedSlices returns how many slices have the mark, by Service, without Services that have none.
func (l *Local) AllManagedSlices() map[federation.ServiceID]int {
	l.state.mu.RLock()
	defer l.state.mu.RUnlock()
	return maps.Clone(l.managed)
}

// LinkerdMirrors returns the Services that Linkerd's service mirror has written, by the cluster that they
// mirror. Services that Isthmus has written or adopted are not among them, nor are federated ones.
func (l *Local) LinkerdMirrors() map[string][]federation.ServiceID {
	l.state.mu.RLock()
	defer l.state.mu.RUnlock()
	mirrors := make(map[string][]federation.ServiceID)
	for id, e := range l.state.services.byID {
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
func (l *Local) markTopic(namespace string, t Topic) {
	if l != nil && l.state.live {
		l.dirty.Add(namespace, t, l.state.now)
	}
}

// markAddress reports that what LookupAddress returns for an address may have changed,
// because of an object of the namespace.
func (l *Local) markAddress(namespace string, ip netip.Addr) { l.markTopic(namespace, Topic{IP: ip}) }

// markInstances reports that the Pod behind a hostname of the service, or its endpoint,
// may have changed.
func (l *Local) markInstances(id federation.ServiceID) {
	l.markTopic(id.Namespace, Topic{Service: id, Instances: true})
}

// markAddressOwner reports besides that the result of Owner may have changed.
func (l *Local) markAddressOwner(namespace string, ip netip.Addr) {
	l.markAddress(namespace, ip)
	l.markTopic(namespace, Topic{IP: ip, AddressOwner: true})
}

func (l *Local) markLocation(p *pod) {
	for ip := range l.location(p).all {
		l.markAddress(p.namespace(), ip)
	}
}

// topicChanged looks for conflicts at an address that other objects claim, and then reports the
// topic.
func (l *Local) topicChanged(about Topic, at time.Time) {
	if about.AddressOwner {
		work := panics.Work{Where: panics.Change, Object: "conflicts at " + about.IP.String()}
		find := func() { l.findConflicts(about.IP, at) }
		again := func() { l.dirty.Add("", about, at) } // for the worker, which alone finds conflicts
		l.cfg.Supervisor.Do(work, find, again)
	}
	l.profileChanged(about, at)
}

// profileChanged reports that what profiles are made of may have changed.
func (l *Local) profileChanged(about Topic, at time.Time) {
	work := panics.Work{Where: panics.Change, Service: about.Service, Object: about.String()}
	report := func() { l.cfg.local.ProfileChanged(about, at) }
	again := func() { l.profileChanged(about, at) }
	l.cfg.Supervisor.Do(work, report, again)
}

// findConflicts updates the conflicts at an IP. It is not called twice at the same time.
func (l *Local) findConflicts(ip netip.Addr, at time.Time) {
	l.conflicts.set(ip, l.conflictsAt(ip, at))
}

// conflictsAt returns the conflicts at an IP, sorted by port.
func (l *Local) conflictsAt(ip netip.Addr, since time.Time) []conflict {
	l.state.mu.RLock()
	defer l.state.mu.RUnlock()
	return l.addresses.conflictsAt(ip, since)
}

// markCrowded has the worker look for conflicts at all IPs that several objects have.
func (l *Local) markCrowded() {
	if l == nil {
		return
	}
	for ip, list := range l.addresses.services {
		if len(list) > 1 {
			l.markTopic(list[0].Namespace, Topic{IP: ip, AddressOwner: true})
		}
	}
	for _, index := range []map[netip.Addr][]*pod{l.addresses.pods, l.addresses.workloads} {
		for ip, list := range index {
			if len(list) > 1 {
				l.markTopic(list[0].namespace(), Topic{IP: ip, AddressOwner: true})
			}
		}
	}
}

// setLocation sets the addresses of a Pod or ExternalWorkload; nil: it has none.
func (l *Local) setLocation(p *pod, to *location) {
	if l == nil {
		return
	}
	a := &l.addresses
	if a.locations[p].equal(to) {
		return
	}
	namespace := p.namespace()
	for ip := range a.locations[p].all {
		unindex(a.index(a.locations[p]), ip, p)
		l.markAddressOwner(namespace, ip)
	}
	if to == nil {
		delete(a.locations, p)
	} else {
		a.locations[p] = to
	}
	for ip := range to.all {
		all := a.index(to)
		all[ip] = append(all[ip], p)
		l.markAddressOwner(namespace, ip)
	}
	for _, of := range p.slices { // some may have it with a hostname
		l.markInstances(of.service)
	}
}

// setServiceAddresses follows a Service, its cluster IPs and its external addresses; nil: there is no Service.
func (l *Local) setServiceAddresses(id federation.ServiceID, from, to *Service) {
	if l == nil {
		return
	}
	a := &l.addresses
	l.markTopic(id.Namespace, Topic{Service: id})
	if from != nil {
		for _, ip := range from.ClusterIPs {
			unindex(a.services, ip, id)
			l.markAddressOwner(id.Namespace, ip)
		}
		for _, ip := range from.External {
			unindex(a.exposed, ip, id)
		}
	}
	if to != nil {
		for _, ip := range to.ClusterIPs {
			a.services[ip] = append(a.services[ip], id)
			l.markAddressOwner(id.Namespace, ip)
		}
		for _, ip := range to.External {
			a.exposed[ip] = append(a.exposed[ip], id)
		}
	}
}

// location returns where a Pod or ExternalWorkload is; nil: that is not known, or the cluster is
// not the local one.
func (l *Local) location(p *pod) *location {
	if l == nil {
		return nil
	}
	return l.addresses.locations[p]
}

// setSelecting keeps a Service if it has a selector; nil: there is no such Service. l may be nil.
func (l *Local) setSelecting(id federation.ServiceID, to *Service) {
	switch {
	case l == nil:
	case to == nil || to.selecting == nil:
		l.selecting.drop(id.Namespace, id.Name)
	default:
		l.selecting.set(id.Namespace, id.Name, to)
	}
}

// selectedAt returns what slices have of the ExternalWorkload with that key; nil: nothing. l may be nil.
func (l *Local) selectedAt(key string) *decode.ExternalWorkload {
	if l == nil {
		return nil
	}
	namespace, name := follow.SplitKey(key)
	return l.selected[namespace][name]
}

// setSelected keeps what slices have of the ExternalWorkload with that key; nil: nothing. l may be nil.
func (l *Local) setSelected(key string, to *decode.ExternalWorkload) {
	if l == nil {
		return
	}
	l.replaced = l.selectedAt(key)
	namespace, name := follow.SplitKey(key)
	if to == nil {
		l.selected.drop(namespace, name)
	} else {
		l.selected.set(namespace, name, to)
	}
}

// countManaged adds n to how many slices of a Service LocalConfig.SliceManager manages, if it manages this slice. l may
// be nil.
func (l *Local) countManaged(of *slice, n int) {
	if l == nil || of == nil || of.managed == "" {
		return
	}
	l.managed[of.service] += n
	if l.managed[of.service] == 0 {
		delete(l.managed, of.service)
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

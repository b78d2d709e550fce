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

// Local represents the cluster that Isthmus runs in. In addition to the objects of a Cluster, a
// Local caches ServiceProfiles, the zones of Nodes, and the objects to which addresses are
// assigned. All methods except Run are safe for concurrent use.
//
// Other files in this package access a cluster's Local through cache.local, which is nil for a
// linked cluster. Methods that are called through cache.local accept a nil receiver.
type Local struct {
	*Cluster
	dirty     *pace.Dirty[Topic] // by the namespace of the changed object
	conflicts conflicts          // guarded by its own mutex

	// cache.mu guards the following fields.
	addresses addressIndex
	profiles  profileIndex
	managed   map[federation.ServiceID]int          // number of managed slices, without zero entries
	selecting byNamespace[*Service]                 // Services with a selector
	selected  byNamespace[*decode.ExternalWorkload] // the fields of each ExternalWorkload that determine EndpointSlices

	// This field contains the previous version of the most recently changed or removed
	// ExternalWorkload. Only the goroutine that stores and removes ExternalWorkloads accesses this
	// field.
	replaced *decode.ExternalWorkload
}

// LocalConfig contains callbacks for changes that are reported only for the local cluster. All
// fields are required unless noted otherwise. Only ProfileChanged may block.
type LocalConfig struct {
	// ServiceChanged is called for every added, changed or deleted Service. A single goroutine
	// makes all calls to ServiceChanged, in the order of the changes.
	ServiceChanged func(federation.ServiceID)
	// NodeChanged is called for every added, changed or deleted Node. A single goroutine makes all
	// calls to NodeChanged, in the order of the changes.
	NodeChanged func(name, zone string, exists bool)
	// ProfileChanged is called when a result of LookupAddress, AddressOwner, Instance,
	// ServiceProfile or Service may have changed. The second argument is the time of the earliest
	// event that led to the call. A dedicated goroutine calls ProfileChanged, so that slow calls to
	// Config.Changed do not delay calls to ProfileChanged.
	ProfileChanged func(about Topic, at time.Time)

	// SliceManager is the value of the endpointslice.kubernetes.io/managed-by label on the
	// EndpointSlices written for ExternalWorkloads. If SliceManager is set, the cluster caches the
	// data required to write EndpointSlices for ExternalWorkloads. If SliceManager is set,
	// Config.Changed is also called after each change to a managed slice or to its Service.
	SliceManager string
	// WorkloadChanged is called for every added, changed or deleted ExternalWorkload. A single
	// goroutine makes all calls to WorkloadChanged, in the order of the changes. The first argument
	// is nil for an added ExternalWorkload, and the second argument is nil for a deleted
	// ExternalWorkload. WorkloadChanged is required if SliceManager is set.
	WorkloadChanged func(before, after *decode.ExternalWorkload)
}

// NewLocal validates the configuration and returns a Local. NewLocal performs no network I/O and
// starts no goroutines.
func NewLocal(cfg Config, local LocalConfig) (*Local, error) {
	cfg.local = &local
	c, err := New(cfg)
	if err != nil {
		return nil, err
	}
	return c.cache.local, nil
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

// Reads reports whether a resource, such as "services", has been listed. If the resource currently
// cannot be read, err says why.
func (l *Local) Reads(resource string) (listed bool, err error) { return l.group.Reads(resource) }

// Found describes the object to which an address is currently assigned.
type Found struct {
	// ID and Service are set if the address is the cluster IP of a Service.
	ID      federation.ServiceID
	Service *Service

	// Endpoint is the endpoint of the Pod or ExternalWorkload at the address. If no Pod or
	// ExternalWorkload at the address is cached, Endpoint contains the address, but no data about
	// an object. Endpoint is nil if the address is ambiguous or is a cluster IP.
	Endpoint *federation.Endpoint

	// Claimed describes the objects that claim an ambiguous address, as in "2 Pods with IP
	// 10.0.0.1". Claimed is empty if the address is not ambiguous.
	Claimed string
}

// LookupAddress returns the object to which an address is currently assigned. A Pod that is being
// deleted keeps its address until the Pod has terminated, or until another Pod claims the address.
// For a Pod that is not running yet, LookupAddress returns an endpoint without data about the Pod.
func (l *Local) LookupAddress(addr netip.AddrPort) Found {
	c := l.cache
	c.mu.RLock()
	defer c.mu.RUnlock()
	switch ids := l.addresses.services[addr.Addr()]; {
	case len(ids) == 1:
		return Found{ID: ids[0], Service: c.services.byID[ids[0]].spec}
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

// Instance returns a Service's endpoint with the given hostname, even if the endpoint is not ready.
// The address of the endpoint contains the port to which the client connects. Instance returns nil
// if the Service has no endpoint with the hostname, or if the Pod of the endpoint is not cached.
func (l *Local) Instance(id federation.ServiceID, hostname string, port uint16) *federation.Endpoint {
	c := l.cache
	c.mu.RLock()
	defer c.mu.RUnlock()
	e := c.services.byID[id]
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
		j := joiner{cache: c, requested: port, mirror: &from.mirror}
		if j.setBare(made); !sendable(made) {
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

func (l *Local) bareAddress(addr netip.AddrPort) *federation.Endpoint {
	return &federation.Endpoint{
		Addr:    addr,
		Cluster: l.cfg.Name,
		Opaque:  l.cfg.Rules.DefaultOpaquePorts.Contains(addr.Port()),
	}
}

// endpointAt returns the endpoint of a Pod or ExternalWorkload at an address. If the object is not
// running, or its endpoint cannot be sent to proxies, endpointAt returns an endpoint without data
// about the object. The containerPort argument is the container port behind a host port, or zero if
// the address does not contain a host port.
func (l *Local) endpointAt(p *pod, addr netip.AddrPort, containerPort uint16) *federation.Endpoint {
	made := federation.Endpoint{Addr: addr, Cluster: l.cfg.Name}
	j := joiner{cache: l.cache, behind: containerPort}
	if !l.addresses.locations[p].life.runs() || j.setPod(&made, p) != federation.Served {
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

// AddressOwner returns the Service or Pod to which an address is assigned, or "" if there is none.
//
// For a cluster IP, AddressOwner returns the Service with this cluster IP. For the IP of a Pod,
// AddressOwner returns the Pod until the Pod has terminated. For the IP of a Node, AddressOwner
// returns one of the Node's Pods that use host networking or host ports.
//
// AddressOwner ignores ExternalWorkloads, because a machine outside of Kubernetes may belong to
// several clusters. AddressOwner ignores the hostIP of a host port, because anyone who creates a
// Pod can specify any hostIP.
func (l *Local) AddressOwner(ip netip.Addr) string {
	c := l.cache
	c.mu.RLock()
	defer c.mu.RUnlock()
	if ids := l.addresses.services[ip]; len(ids) > 0 {
		return "Service " + ids[0].String()
	}
	for _, p := range l.addresses.pods[ip] {
		if l.addresses.locations[p].contains(ip) {
			return "Pod " + p.key
		}
	}
	return ""
}

// AssignedTo returns the Service, Node or Pod that receives requests to an address, or "" if no
// such object is cached.
//
// Unlike AddressOwner, AssignedTo covers the addresses of Nodes and the external addresses of
// Services (externalIPs and load balancers). AssignedTo also covers all addresses to which host
// ports are bound.
func (l *Local) AssignedTo(ip netip.Addr) string {
	c := l.cache
	c.mu.RLock()
	defer c.mu.RUnlock()
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

// AddressConflicts returns up to maxConflicts ambiguous addresses of the cluster, oldest first. The
// second result is the number of conflicts omitted from the list.
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

// ServiceProfile returns the ServiceProfile with the given namespace and name, and reports whether
// the ServiceProfile exists. If the ServiceProfile exists but cannot be used, p is nil and exists
// is true.
func (l *Local) ServiceProfile(namespace, name string) (p *federation.ServiceProfile, exists bool) {
	c := l.cache
	c.mu.RLock()
	defer c.mu.RUnlock()
	f := l.profiles.byKey[follow.JoinKey(namespace, name)]
	if f == nil {
		return nil, false
	}
	return f.Profile, true
}

// ServiceProfileProblem returns the reason why all or part of a ServiceProfile cannot be used. The
// second result reports whether the ServiceProfile exists.
func (l *Local) ServiceProfileProblem(namespace, name string) (problem string, exists bool) {
	c := l.cache
	c.mu.RLock()
	defer c.mu.RUnlock()
	f := l.profiles.byKey[follow.JoinKey(namespace, name)]
	if f == nil {
		return "", false
	}
	return f.Problem, true
}

// The following methods return the data required to write EndpointSlices for ExternalWorkloads. An
// EndpointSlice is managed if its endpointslice.kubernetes.io/managed-by label equals
// LocalConfig.SliceManager.

// Selecting returns a copy of a Service that contains only the fields required to create
// EndpointSlices for ExternalWorkloads. If the Service has no selector or has the type
// ExternalName, the copy has no selector. If the Service does not exist, Selecting returns nil.
func (l *Local) Selecting(id federation.ServiceID) *corev1.Service {
	if s := l.Service(id); s != nil {
		return s.decodeSelecting(id)
	}
	return nil
}

// SelectingIn returns the Services in a namespace that have a selector.
func (l *Local) SelectingIn(namespace string) (list []*corev1.Service) {
	l.cache.mu.RLock()
	found := maps.Clone(l.selecting[namespace])
	l.cache.mu.RUnlock()
	for name, s := range found {
		list = append(list, s.decodeSelecting(federation.ServiceID{Namespace: namespace, Name: name}))
	}
	return list
}

// Workloads returns the ExternalWorkloads in a namespace. Each returned object contains only the
// fields required to create EndpointSlices. If the namespace argument is "", Workloads returns the
// ExternalWorkloads in all namespaces.
func (l *Local) Workloads(namespace string) (list []*decode.ExternalWorkload) {
	l.cache.mu.RLock()
	defer l.cache.mu.RUnlock()
	if namespace != "" {
		return slices.Collect(maps.Values(l.selected[namespace]))
	}
	for _, all := range l.selected {
		list = slices.AppendSeq(list, maps.Values(all))
	}
	return list
}

// HasWorkloads reports in constant time whether a namespace contains ExternalWorkloads.
func (l *Local) HasWorkloads(namespace string) bool {
	l.cache.mu.RLock()
	defer l.cache.mu.RUnlock()
	return len(l.selected[namespace]) > 0
}

// ManagedSlices returns the number of managed EndpointSlices of a Service.
func (l *Local) ManagedSlices(id federation.ServiceID) int {
	l.cache.mu.RLock()
	defer l.cache.mu.RUnlock()
	return l.managed[id]
}

// AllManagedSlices returns the number of managed EndpointSlices for each Service that has any.
func (l *Local) AllManagedSlices() map[federation.ServiceID]int {
	l.cache.mu.RLock()
	defer l.cache.mu.RUnlock()
	return maps.Clone(l.managed)
}

// LinkerdMirrors maps each mirrored cluster to the Services that Linkerd's service mirror has
// created for it. LinkerdMirrors omits federated Services, and Services that Isthmus has created or
// adopted.
func (l *Local) LinkerdMirrors() map[string][]federation.ServiceID {
	l.cache.mu.RLock()
	defer l.cache.mu.RUnlock()
	mirrors := make(map[string][]federation.ServiceID)
	for id, e := range l.cache.services.byID {
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

// Topic is the subject of a change.
//
// If only the IP field is set, the subject is that IP address. If the IP and AddressOwner fields
// are set, the subject is the object to which that IP address is assigned. If the Service and
// Instances fields are set, the subject is the set of hostnames of the Service's endpoints. If only
// the Service field is set, the subject is the Service with its ServiceProfiles.
type Topic struct {
	IP           netip.Addr
	AddressOwner bool
	Service      federation.ServiceID
	Instances    bool
}

func (t Topic) subject() string {
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

func (l *Local) markTopic(namespace string, t Topic) {
	if l != nil && l.cache.live {
		l.dirty.Add(namespace, t, l.cache.now)
	}
}

func (l *Local) markAddress(namespace string, ip netip.Addr) { l.markTopic(namespace, Topic{IP: ip}) }

func (l *Local) markInstances(id federation.ServiceID) {
	l.markTopic(id.Namespace, Topic{Service: id, Instances: true})
}

func (l *Local) markAddressOwner(namespace string, ip netip.Addr) {
	l.markAddress(namespace, ip)
	l.markTopic(namespace, Topic{IP: ip, AddressOwner: true})
}

func (l *Local) markLocation(p *pod) {
	for ip := range l.location(p).addrs {
		l.markAddress(p.namespace(), ip)
	}
}

// topicChanged reports a change to a topic. If the topic is the object to which an address is
// assigned, topicChanged first updates the conflicts that are recorded for that address.
func (l *Local) topicChanged(about Topic, at time.Time) {
	if about.AddressOwner {
		work := panics.Work{Where: panics.Change, Object: "conflicts at " + about.IP.String()}
		find := func() { l.findConflicts(about.IP, at) }
		again := func() { l.dirty.Add("", about, at) } // only this goroutine computes conflicts
		l.cfg.Supervisor.Do(work, find, again)
	}
	l.profileChanged(about, at)
}

func (l *Local) profileChanged(about Topic, at time.Time) {
	work := panics.Work{Where: panics.Change, Service: about.Service, Object: about.subject()}
	report := func() { l.cfg.local.ProfileChanged(about, at) }
	again := func() { l.profileChanged(about, at) }
	l.cfg.Supervisor.Do(work, report, again)
}

// Calls to findConflicts must not overlap.
func (l *Local) findConflicts(ip netip.Addr, at time.Time) {
	l.conflicts.set(ip, l.conflictsAt(ip, at))
}

func (l *Local) conflictsAt(ip netip.Addr, since time.Time) []conflict {
	l.cache.mu.RLock()
	defer l.cache.mu.RUnlock()
	return l.addresses.conflictsAt(ip, since)
}

// markCrowded marks every IP that several objects share, so that the IP is checked for conflicts.
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

// setLocation sets the addresses of a Pod or ExternalWorkload, or removes them if the new location
// is nil.
func (l *Local) setLocation(p *pod, to *location) {
	if l == nil {
		return
	}
	a := &l.addresses
	if a.locations[p].equal(to) {
		return
	}
	namespace := p.namespace()
	for ip := range a.locations[p].addrs {
		unindex(a.index(a.locations[p]), ip, p)
		l.markAddressOwner(namespace, ip)
	}
	if to == nil {
		delete(a.locations, p)
	} else {
		a.locations[p] = to
	}
	for ip := range to.addrs {
		all := a.index(to)
		all[ip] = append(all[ip], p)
		l.markAddressOwner(namespace, ip)
	}
	for _, of := range p.slices { // slices may contain a hostname for the pod
		l.markInstances(of.service)
	}
}

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

// The result is nil if the location is unknown or the cluster is a linked cluster.
func (l *Local) location(p *pod) *location {
	if l == nil {
		return nil
	}
	return l.addresses.locations[p]
}

// The receiver may be nil.
func (l *Local) setSelecting(id federation.ServiceID, to *Service) {
	switch {
	case l == nil:
	case to == nil || to.selecting == nil:
		l.selecting.drop(id.Namespace, id.Name)
	default:
		l.selecting.set(id.Namespace, id.Name, to)
	}
}

// The receiver may be nil.
func (l *Local) selectedAt(key string) *decode.ExternalWorkload {
	if l == nil {
		return nil
	}
	namespace, name := follow.SplitKey(key)
	return l.selected[namespace][name]
}

// The receiver may be nil.
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

// countManaged ignores slices that are not managed. The receiver may be nil.
func (l *Local) countManaged(of *slice, n int) {
	if l == nil || of == nil || of.managed == "" {
		return
	}
	l.managed[of.service] += n
	if l.managed[of.service] == 0 {
		delete(l.managed, of.service)
	}
}

// byNamespace maps each namespace to a non-empty map from names to values.
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

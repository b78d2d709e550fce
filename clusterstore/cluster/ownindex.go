package cluster

import (
	"net/netip"

	"isthmus/clusterstore/decode"

	"isthmus/federation"
	"isthmus/internal/pace"
)

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

// location returns where a Pod or ExternalWorkload is; nil: that is not known, or the cluster is
// not the own one.
func (x *ownIndex) location(p *pod) *location {
	if x == nil {
		return nil
	}
	return x.locations[p]
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

// index returns the index that objects with such a location are in.
func (x *ownIndex) index(at *location) map[netip.Addr][]*pod {
	if at.workload {
		return x.workloads
	}
	return x.pods
}

func unindex[K, V comparable](index map[K][]V, key K, value V) {
	if index[key] = without(index[key], value); len(index[key]) == 0 {
		delete(index, key)
	}
}

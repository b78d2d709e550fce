package cluster

import (
	"net/netip"

	"isthmus/clusterstore/serviceprofile"
	"isthmus/federation"
)

// addresses is a part of a cluster's state that is only there where addresses are
// asked for: who has which, and what else profiles are made of.
type addresses struct {
	dirty     *dirty[Topic]
	sites     map[*pod]*site
	pods      map[netip.Addr][]*pod                 // that may be found there
	workloads map[netip.Addr][]*pod                 // likewise
	services  map[netip.Addr][]federation.ServiceID // whose cluster IP that is
	profiles  map[string]*serviceprofile.Translated
	rejected  int // of the profiles, those that can't be used
}

// Topic is what a change of profiles is about: an address, or else a Service and
// its ServiceProfiles, or, with Instances, its hostnames.
type Topic struct {
	IP        netip.Addr
	Service   federation.ServiceID
	Instances bool
}

func newAddresses() *addresses {
	return &addresses{
		dirty:     newDirty[Topic](),
		sites:     make(map[*pod]*site),
		pods:      make(map[netip.Addr][]*pod),
		workloads: make(map[netip.Addr][]*pod),
		services:  make(map[netip.Addr][]federation.ServiceID),
		profiles:  make(map[string]*serviceprofile.Translated),
	}
}

// markTopic notes that profiles are to be made anew.
func (s *state) markTopic(t Topic) {
	if s.live && s.addresses != nil {
		s.addresses.dirty.add(t, s.now)
	}
}

// markAddress notes that who has the address, or what is told of them, is
// another.
func (s *state) markAddress(ip netip.Addr) { s.markTopic(Topic{IP: ip}) }

// markInstances notes that who has a hostname of the service, or what is told of
// them, is another.
func (s *state) markInstances(id federation.ServiceID) {
	s.markTopic(Topic{Service: id, Instances: true})
}

func (s *state) markSite(p *pod) {
	if s.addresses == nil {
		return
	}
	for ip := range s.addresses.sites[p].all {
		s.markAddress(ip)
	}
}

// movePod notes where a Pod or ExternalWorkload is; nil: nowhere. It reports
// whether that is news.
func (s *state) movePod(p *pod, to *site) bool {
	a := s.addresses
	if a == nil || a.sites[p].equal(to) {
		return false
	}
	for ip := range a.sites[p].all {
		unindex(a.index(a.sites[p]), ip, p)
		s.markAddress(ip)
	}
	if to == nil {
		delete(a.sites, p)
	} else {
		a.sites[p] = to
	}
	for ip := range to.all {
		all := a.index(to)
		all[ip] = append(all[ip], p)
		s.markAddress(ip)
	}
	for _, l := range p.slices { // which name it, some of them by a hostname
		s.markInstances(l.data.service)
	}
	return true
}

// index is where those are found who are at such a site.
func (a *addresses) index(at *site) map[netip.Addr][]*pod {
	if at.workload {
		return a.workloads
	}
	return a.pods
}

func unindex[K, V comparable](index map[K][]V, key K, value V) {
	if index[key] = without(index[key], value); len(index[key]) == 0 {
		delete(index, key)
	}
}

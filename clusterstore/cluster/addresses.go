package cluster

import (
	"cmp"
	"iter"
	"net/netip"
	"slices"
	"sync"
	"time"

	"isthmus/federation"
)

// addressIndex maps each address in the local cluster to the objects with that address. The
// cache.mu mutex guards it. ExternalWorkloads are in a separate map, so that a large number of
// ExternalWorkloads with the same address does not slow down lookups of Pods.
type addressIndex struct {
	locations map[*pod]*location                    // of Pods and ExternalWorkloads
	pods      map[netip.Addr][]*pod                 // Pods with that Pod IP or host IP
	workloads map[netip.Addr][]*pod                 // ExternalWorkloads with that IP
	services  map[netip.Addr][]federation.ServiceID // Services with that cluster IP
	exposed   map[netip.Addr][]federation.ServiceID // Services with that external address
	nodes     map[netip.Addr][]string               // names of the Nodes with that address
}

func newAddressIndex() addressIndex {
	return addressIndex{
		locations: make(map[*pod]*location),
		pods:      make(map[netip.Addr][]*pod),
		workloads: make(map[netip.Addr][]*pod),
		services:  make(map[netip.Addr][]federation.ServiceID),
		exposed:   make(map[netip.Addr][]federation.ServiceID),
		nodes:     make(map[netip.Addr][]string),
	}
}

func (x *addressIndex) index(at *location) map[netip.Addr][]*pod {
	if at.workload {
		return x.workloads
	}
	return x.pods
}

// claimants returns the strongest claim to an address, and the objects with this claim. If no
// object claims the address, the returned claim is noClaim. If the claim of a Pod is stronger than
// every possible claim of an ExternalWorkload, ExternalWorkloads are not looked up. A lookup of
// ExternalWorkloads can be slow, because any number of ExternalWorkloads may have the same address.
func (x *addressIndex) claimants(addr netip.AddrPort) ([]*pod, claim) {
	pods, byPods := x.claimed(x.pods, addr)
	if byPods < byWorkload {
		return pods, byPods
	}
	if workloads, by := x.claimed(x.workloads, addr); by != noClaim {
		return workloads, by
	}
	return pods, byPods
}

func (x *addressIndex) claimed(index map[netip.Addr][]*pod, addr netip.AddrPort) ([]*pod, claim) {
	var by [noClaim][]*pod
	for _, p := range index[addr.Addr()] {
		if c := x.locations[p].claim(addr); c != noClaim {
			by[c] = append(by[c], p)
		}
	}
	for c, list := range by {
		if n := len(list); n == 1 || n > 1 && claim(c) != byDraining {
			return list, claim(c)
		}
	}
	return nil, noClaim
}

func unindex[K, V comparable](index map[K][]V, key K, value V) {
	if index[key] = removeFrom(index[key], value); len(index[key]) == 0 {
		delete(index, key)
	}
}

const (
	maxConflictsAt = 10
	// For each IP, conflictsAt compares at most maxPortsAt ports, and looks up at most maxCrowdedAt
	// duplicate ports. A single Pod can claim all 65,535 ports of an IP as host ports, so
	// maxPortsAt and maxCrowdedAt limit how long cache.mu is held.
	maxPortsAt   = 20_000
	maxCrowdedAt = 1000
	maxConflicts = 100
	maxClaimants = 3
)

func (x *addressIndex) conflictsAt(ip netip.Addr, since time.Time) (list []conflict) {
	add := func(addr netip.AddrPort, claimed string, objects []string) {
		slices.Sort(objects)
		list = append(list, conflict{
			addr:    addr,
			claimed: claimed,
			objects: slices.Clone(objects[:min(len(objects), maxClaimants)]),
			since:   since,
		})
	}
	whole := netip.AddrPortFrom(ip, 0)
	if services := x.services[ip]; len(services) > 0 {
		if len(services) > 1 {
			var objects []string
			for _, id := range services {
				objects = append(objects, "Service "+id.String())
			}
			add(whole, claimedAsClusterIP(len(services), ip), objects)
		}
		return list
	}
	ports := []uint16{0}
	if _, by := x.claimants(whole); by != byIP { // otherwise, Pods with that IP claim all ports
		ports = x.crowdedPorts(ip)
	}
	for _, port := range ports {
		addr := netip.AddrPortFrom(ip, port)
		claimants, by := x.claimants(addr)
		if len(claimants) < 2 {
			continue
		}
		var objects []string
		for _, p := range claimants {
			objects = append(objects, DescribeTarget(p.key))
		}
		if add(addr, claimed(len(claimants), by, addr), objects); len(list) == maxConflictsAt {
			break
		}
	}
	return list
}

// crowdedPorts returns the ports that occur more than once at the given IP, in ascending order. The
// ports at an IP are the host ports of its Pods and the ports of its ExternalWorkloads. To limit
// the running time, crowdedPorts compares only the first maxPortsAt ports and returns at most
// maxCrowdedAt ports.
func (x *addressIndex) crowdedPorts(ip netip.Addr) (list []uint16) {
	pods, workloads := x.pods[ip], x.workloads[ip]
	if len(pods) < 2 && len(workloads) < 2 {
		return nil
	}
	counts := make(map[uint16]int)
	left := maxPortsAt
	for port := range x.portsAt(pods, workloads) {
		if counts[port]++; counts[port] == 2 {
			list = append(list, port)
		}
		if left--; left == 0 || len(list) == maxCrowdedAt {
			break
		}
	}
	slices.Sort(list)
	return list
}

func (x *addressIndex) portsAt(pods, workloads []*pod) iter.Seq[uint16] {
	return func(yield func(uint16) bool) {
		for _, p := range pods {
			for _, h := range x.locations[p].hostPorts {
				if !yield(h.port) {
					return
				}
			}
		}
		for _, p := range workloads {
			for _, port := range x.locations[p].ports {
				if !yield(port) {
					return
				}
			}
		}
	}
}

// conflict describes an address that is not assigned to any object, because several objects claim
// it.
type conflict struct {
	addr    netip.AddrPort // port 0 means all ports
	claimed string         // see Found.Claimed
	objects []string       // the first maxClaimants claiming objects, by name
	since   time.Time      // when the replica detected the conflict
}

func (x *conflict) address() string {
	if x.addr.Port() == 0 {
		return x.addr.Addr().String()
	}
	return x.addr.String()
}

// After each change to an object that claims an address, the goroutine that calls
// LocalConfig.ProfileChanged updates the conflicts.
type conflicts struct {
	mu   sync.Mutex // held only for map access
	byIP map[netip.Addr][]conflict
}

func (c *conflicts) all() (list []conflict) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, found := range c.byIP {
		list = append(list, found...)
	}
	slices.SortFunc(list, func(a, b conflict) int { return cmp.Or(a.since.Compare(b.since), a.addr.Compare(b.addr)) })
	return list
}

// An existing conflict keeps its detection time.
func (c *conflicts) set(ip netip.Addr, found []conflict) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range found {
		x := &found[i]
		if k := slices.IndexFunc(c.byIP[ip], func(y conflict) bool { return y.addr == x.addr }); k >= 0 {
			x.since = c.byIP[ip][k].since
		}
	}
	if len(found) == 0 {
		delete(c.byIP, ip)
	} else {
		c.byIP[ip] = found
	}
}

package gateway

import (
	"net/netip"
	"slices"
	"time"

	"isthmus/clusterstore/cluster"
	"isthmus/federation"
)

// MostAddresses is how many addresses of a cluster's gateways are used: the first ones, as
// the list of targets has them.
const MostAddresses = 16

// Target is something that leads to a cluster: an address, or a name to be resolved.
type Target struct {
	IP       netip.Addr // not valid: Name is to be resolved
	Name     string
	Port     uint16
	Identity string // of the gateway's proxy
	Probe    cluster.Probe
	Within   *federation.Ranges // the addresses that may be used; nil: all
}

// excludes reports whether an address lies outside the target's ranges.
func (x *Target) excludes(ip netip.Addr) bool { return x.Within != nil && !x.Within.Contains(ip) }

// Targets returns what leads to a cluster by its gateway Services, in their order. Those
// without a port or an identity can't be used.
func Targets(list []*cluster.Gateway) (targets []Target) {
	for _, g := range list {
		if g.Port == 0 || g.Identity == "" {
			continue
		}
		for _, ip := range g.IPs {
			targets = append(targets, Target{IP: ip, Port: g.Port, Identity: g.Identity, Probe: g.Probe})
		}
		for _, name := range g.Names {
			targets = append(targets, Target{Name: name, Port: g.Port, Identity: g.Identity, Probe: g.Probe})
		}
	}
	return targets
}

// Address is one address of a gateway, as it is now.
type Address struct {
	Addr     netip.AddrPort
	Identity string
	Name     string // that was resolved to it; empty: none was
	Probe    cluster.Probe
	Outside  bool      // of the link's ranges: the table refuses it, and it is not probed
	IPv6Off  bool      // an IPv6 address, where clients get none: likewise
	Refused  string    // why the Guard refuses to probe it, which is used all the same; empty if it does not
	Dead     bool      // probes fail
	Since    time.Time // since when it is dead, or alive; zero: it has not been probed yet, or is not
	Failure  string    // of the last probe, if it has failed
}

// sameUse reports whether clients use two lists in the same way.
func sameUse(a, b []Address) bool {
	return slices.EqualFunc(a, b, func(a, b Address) bool {
		return a.Addr == b.Addr && a.Identity == b.Identity && a.Outside == b.Outside && a.Dead == b.Dead
	})
}

// usable reports whether clients may get it.
func (a *Address) usable() bool { return !a.Outside && !a.IPv6Off }

// AllDead reports whether there are gateways that may be used, and each is dead.
func AllDead(list []Address) bool {
	dead := false
	for _, a := range list {
		if a.usable() && !a.Dead {
			return false
		}
		dead = dead || a.Dead
	}
	return dead
}

// used returns those that clients get: without dead ones, unless all are.
func used(list []Address) []Address {
	if AllDead(list) {
		return list
	}
	return slices.DeleteFunc(slices.Clone(list), func(a Address) bool { return a.Dead })
}

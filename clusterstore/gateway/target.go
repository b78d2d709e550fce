package gateway

import (
	"net/netip"
	"slices"
	"time"

	"isthmus/clusterstore/cluster"
	"isthmus/federation"
)

// MaxAddresses is the maximum number of gateway addresses that Isthmus uses for one cluster. If a
// cluster has more gateway addresses, Isthmus uses the addresses of the first targets in the list,
// and ignores the other addresses.
const MaxAddresses = 16

// Target is the address or the name of a gateway.
type Target struct {
	IP       netip.Addr // if invalid, Name must be resolved
	Name     string
	Port     uint16
	Identity string // of the gateway's proxy
	Probe    cluster.Probe
	Within   *federation.Ranges // the allowed addresses; nil means all
}

func (x *Target) excludes(ip netip.Addr) bool { return x.Within != nil && !x.Within.Contains(ip) }

// Targets returns the targets of a cluster's gateway Services, in the order of the Services.
// Services without a port or an identity are skipped, because they cannot be used.
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

// Address is one address of a gateway, together with the address's current state.
type Address struct {
	Addr     netip.AddrPort
	Identity string
	Name     string // the name that resolved to the address; empty if there is none
	Probe    cluster.Probe
	Outside  bool      // outside the link's ranges: neither used nor probed
	IPv6Off  bool      // an IPv6 address although clients do not receive any: neither used nor probed
	Refused  string    // why the filter refuses to probe the address, which is used anyway; empty if probed
	Dead     bool      // probes fail
	Since    time.Time // when the address became alive or dead; zero if it has not been probed
	Failure  string    // of the last probe; empty if it succeeded
}

func sameUse(a, b []Address) bool {
	return slices.EqualFunc(a, b, func(a, b Address) bool {
		return a.Addr == b.Addr && a.Identity == b.Identity && a.Outside == b.Outside && a.Dead == b.Dead
	})
}

func (a *Address) usable() bool { return !a.Outside && !a.IPv6Off }

// AllDead reports whether all usable addresses in a list are dead. If no address is usable, the
// result is false.
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

// Isthmus sends dead addresses to clients only if all addresses are dead.
func used(list []Address) []Address {
	if AllDead(list) {
		return list
	}
	return slices.DeleteFunc(slices.Clone(list), func(a Address) bool { return a.Dead })
}

package spec

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// LinkSettings contains the settings of a linked cluster that its link Secret can override.
type LinkSettings struct {
	Cordon     Standing
	CordonOver time.Duration
	WhenLost   Standing // of a lost cluster; InService means that the cluster stays in service
	LostAfter  time.Duration
	Region     string // empty means the region of the cluster's Nodes
	Network    string // of the cluster's Pods
}

const (
	CordonKey     = "isthmus.io/cordon"
	CordonOverKey = "isthmus.io/cordon-over"
	WhenLostKey   = "isthmus.io/when-lost"
	LostAfterKey  = "isthmus.io/lost-after"
	RegionKey     = "isthmus.io/region"
	NetworkKey    = "isthmus.io/network"
)

const (
	maxCordonOver = time.Hour
	minLostAfter  = time.Second
	maxLostAfter  = 24 * time.Hour
)

// In cordonWords and whenLostWords, the index of an annotation value is the corresponding
// [Standing].
var (
	cordonWords   = []string{"false", "last-resort", "true"}
	whenLostWords = []string{"keep", "last-resort", "withdraw"}
)

// OtherNetwork is the network of a cluster whose network annotation is invalid. OtherNetwork is not
// a valid network name.
const OtherNetwork = "(invalid)"

// With returns the settings of a cluster whose link Secret has the given annotations. The receiver
// contains the default settings, which apply if an annotation is absent or invalid. There is no
// default network. A cluster with an invalid network is treated as being on another network.
func (s LinkSettings) With(annotations map[string]string) LinkSettings {
	text := func(key string) string { return strings.TrimSpace(annotations[key]) }
	if standing := slices.Index(cordonWords, text(CordonKey)); standing >= 0 {
		s.Cordon = Standing(standing)
	}
	if standing := slices.Index(whenLostWords, text(WhenLostKey)); standing >= 0 {
		s.WhenLost = Standing(standing)
	}
	if d, ok := ReadDuration(text(CordonOverKey), maxCordonOver); ok {
		s.CordonOver = d
	}
	if d, ok := ReadDuration(text(LostAfterKey), maxLostAfter); ok && d >= minLostAfter {
		s.LostAfter = d
	}
	if region := text(RegionKey); labelValue.MatchString(region) {
		s.Region = region
	}
	s.Network = text(NetworkKey)
	if s.Network != "" && !labelValue.MatchString(s.Network) {
		s.Network = OtherNetwork
	}
	return s
}

// A cluster is lost if its API has been unavailable for at least LostAfter. If clients can reach
// the cluster only through Linkerd gateways, and all these gateways are dead, the gatewaysDead
// argument must be true.
func (s LinkSettings) Standing(lost, gatewaysDead bool) Standing {
	standing := s.Cordon
	if lost {
		standing = max(standing, s.WhenLost)
	}
	if gatewaysDead {
		standing = max(standing, LastResort)
	}
	return standing
}

// CommonRegion returns the region of a cluster whose Nodes are in the given regions. The region is
// unknown if there are no Nodes, or if they are in different regions.
func CommonRegion(ofNodes []string) string {
	if len(slices.Compact(slices.Sorted(slices.Values(ofNodes)))) == 1 && labelValue.MatchString(ofNodes[0]) {
		return ofNodes[0]
	}
	return ""
}

type LinkSecret struct {
	Name   string
	Usable bool // whether its credentials are valid
}

// UsedSecret returns the name of the Secret to use for a cluster, or "" for none. The list contains
// all link Secrets of the cluster, oldest first. An invalid change to the Secret in use has no
// effect.
func UsedSecret(list []LinkSecret, inUse string) string {
	for _, s := range list {
		if s.Name == inUse && !s.Usable {
			return inUse
		}
	}
	for _, s := range list {
		if s.Usable {
			return s.Name
		}
	}
	return ""
}

type Gateway struct {
	Addr     netip.AddrPort
	Identity string
	Dead     bool // whether probes fail
}

func AllDead(list []Gateway) bool {
	return len(list) > 0 && !slices.ContainsFunc(list, func(g Gateway) bool { return !g.Dead })
}

// Route identifies a port of a Service that clients reach through gateways.
type Route struct {
	Cluster, Domain    string // name and DNS domain of the cluster
	Namespace, Service string
	Port               uint16
}

// Through replaces the endpoints of a Service with gateways. Dead gateways are omitted, unless all
// gateways are dead. If no endpoint is ready, the result contains no gateways.
func (r Route) Through(list []Gateway, slices []BackendSlice) (through []Backend, behind Behind) {
	behind = count(slices)
	if behind.Ready == 0 {
		return nil, behind
	}
	all := make(map[netip.AddrPort]Backend)
	for _, g := range list {
		if g.Dead && !AllDead(list) {
			continue
		}
		all[g.Addr] = Backend{
			Addr: g.Addr,
			DNS:  g.Identity,
			Labels: map[string]string{
				"namespace":                r.Namespace,
				"service":                  r.Service,
				"target_cluster":           r.Cluster,
				"target_service":           r.Service,
				"target_service_namespace": r.Namespace,
			},
			Authority: fmt.Sprintf("%s.%s.svc.%s:%d", r.Service, r.Namespace, r.Domain, r.Port),
		}
	}
	return sorted(all), behind
}

// count returns the numbers of ready and unready endpoints in a list of slices. An address that
// occurs in several slices counts once. An address that is ready in any slice counts as ready. Each
// endpoint of a dual-stack Service has both an IPv4 and an IPv6 address. To count such endpoints
// only once, count returns either the number of IPv4 addresses or the number of IPv6 addresses,
// whichever is larger.
func count(list []BackendSlice) Behind {
	ready := make(map[netip.AddrPort]bool)
	for _, l := range list {
		for _, b := range l.Ready {
			ready[b.Addr] = true
		}
	}
	unready := make(map[netip.AddrPort]bool)
	for _, l := range list {
		for _, b := range l.Unready {
			if !ready[b.Addr] {
				unready[b.Addr] = true
			}
		}
	}
	larger := func(all map[netip.AddrPort]bool) int {
		four := 0
		for addr := range all {
			if addr.Addr().Is4() {
				four++
			}
		}
		return max(four, len(all)-four)
	}
	return Behind{Ready: larger(ready), Unready: larger(unready)}
}

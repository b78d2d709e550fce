package federation

import (
	"net/netip"
	"slices"
	"time"

	"pgregory.net/rapid"
)

func drawMembers(t *rapid.T) []Member {
	list := rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) Member {
		return Member{drawCluster.Draw(t, "cluster"), drawService.Draw(t, "service")}
	}), 0, 4, func(m Member) Member { return m }).Draw(t, "members")
	// at most one member of the local cluster, as annotations allow
	seen := false
	return slices.DeleteFunc(list, func(m Member) bool {
		drop := m.Cluster == Local && seen
		seen = seen || m.Cluster == Local
		return drop
	})
}

func drawPreference(t *rapid.T) *Preference {
	if !rapid.Bool().Draw(t, "preference") {
		return nil
	}
	tiers := []string{
		"any", "local, any", "zone, any", "region, any", "zone, local, region, any", "local, east+north", "east, north",
		"zone+local, region", "region, remote", "remote, local", "zone, remote", "cluster/east, zone, local",
	}
	times := rapid.SampledFrom([]time.Duration{0, 0, 3*time.Second + 1, 10 * time.Second})
	p := &Preference{ReturnAfter: times.Draw(t, "after"), ReturnOver: times.Draw(t, "over")}
	if s := rapid.SampledFrom(tiers).Draw(t, "prefer"); s != "any" {
		p.Tiers = tiersOf(s)
	}
	p.MinReady.Percent = rapid.SampledFrom([]int{0, 34, 60, 100}).Draw(t, "percent")
	p.MinReady.Count = rapid.IntRange(0, 3).Draw(t, "count")
	return p
}

func drawEndpoints(t *rapid.T) []Endpoint {
	return rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) Endpoint {
		ips := []string{"10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4", "fd00::1", "fd00::2"}
		// The addresses of a Pod have the same zone.
		pods := [][2]string{{"p1", "z1"}, {"p2", "z2"}, {"", "z1"}, {"", "Z1"}, {"", "z2"}, {"", ""}}
		pod := rapid.SampledFrom(pods).Draw(t, "pod")
		return Endpoint{
			Addr:     netip.AddrPortFrom(netip.MustParseAddr(rapid.SampledFrom(ips).Draw(t, "ip")), 0),
			Kind:     rapid.SampledFrom([]Kind{Pod, Pod, Address}).Draw(t, "kind"),
			Node:     rapid.SampledFrom([]string{"n1", "n2"}).Draw(t, "node"),
			Hostname: rapid.SampledFrom([]string{"", "h1"}).Draw(t, "host"),
			Twin:     pod[0],
			Zone:     pod[1],
			Hints:    drawHints(t),
			Common:   &Common{Identity: Identity{DNS: rapid.SampledFrom([]string{"", "i"}).Draw(t, "identity")}},
		}
	}), 0, 4, func(e Endpoint) netip.AddrPort { return e.Addr }).Draw(t, "endpoints")
}

// drawHints draws hints of an endpoint. Most have some for nodes: these count only if all have.
func drawHints(t *rapid.T) *Hints {
	return rapid.SampledFrom([]*Hints{
		nil,
		{ForZones: []string{"z1"}},
		{ForZones: []string{"z1", "z2"}},
		{ForNodes: []string{"n1"}},
		{ForZones: []string{"z1"}, ForNodes: []string{"n1"}},
		{ForZones: []string{"z2"}, ForNodes: []string{"n2"}},
		{ForZones: []string{"z1"}, ForNodes: []string{"n2"}},
		{ForZones: []string{"z1", "z2"}, ForNodes: []string{"n1", "n3"}},
	}).Draw(t, "hints")
}

// drawGateways draws those of a service: each service has its own authority.
func drawGateways(t *rapid.T, id ServiceID) (list []Endpoint) {
	for _, e := range drawEndpoints(t) {
		list = append(list, Endpoint{Addr: e.Addr, Kind: Address, Common: &Common{Identity: e.Common.Identity, Authority: id.Name}})
	}
	return list
}

package federation

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"isthmus/internal/spec"
)

// TestReference applies random operations to a table and advances the clock. After each step, the
// test compares every watch with the result that package spec computes from the whole history. The
// test also checks the guarantees from set to set.
//
// Behaviours: PR-16, PR-24, PR-25, PR-29, PR-32, PR-33, PR-35, CS-01, CS-05, CS-08, CS-21, CS-23,
// FF-03.
func TestReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		newModel(t, rapid.Bool().Draw(t, "steered")).run(t)
	})
}

// TestReferenceOfPods is TestReference for one service with a preference, whose tiers come into use
// and are dropped all the time. Pods become ready and unready, clusters are cordoned and lost, and
// the preference is edited. One of the clusters may be on another network.
//
// Behaviours: PR-01, PR-02, PR-03, PR-04, PR-05, PR-06, PR-07, PR-09, PR-10, PR-11, PR-12, PR-13,
// PR-14, PR-15, PR-16, PR-17, PR-19, PR-20, PR-21, PR-22, PR-23, PR-25, PR-26, PR-27, PR-32, CS-01,
// CS-02, CS-03, CS-04, CS-08, CS-09, CS-12, CS-13, CS-18, CS-22, CS-23, ZR-01, ZR-06, NW-11, NW-21,
// NW-22.
func TestReferenceOfPods(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, id := newModel(t, true), ServiceID{"ns", "a"}
		clusters := []ClusterName{Local, "east", "north"}
		d := &Definition{
			Federated: true,
			Preference: rapid.Custom(drawPreference).
				Filter(func(p *Preference) bool { return p != nil }).
				Draw(t, "preference"),
		}
		unready := make(map[ClusterName][]bool)      // unready Pods
		far := rapid.Bool().Draw(t, "far")           // whether east is on another network
		hinted := rapid.Bool().Draw(t, "hinted")     // whether local Pods have node hints
		dual := rapid.IntRange(0, 3).Draw(t, "dual") // number of Pods per cluster that also have an IPv6 address
		write := func(c ClusterName) {
			var eps [2][]Endpoint
			for i, not := range unready[c] {
				addr := netip.AddrFrom4([4]byte{10, 0, byte(slices.Index(clusters, c)), byte(i)})
				node := []string{"n1", "n2"}[i%2]
				e := Endpoint{
					Kind: Pod,
					Addr: netip.AddrPortFrom(addr, 0),
					Node: node,
					Zone: []string{"z1", "z2", "Z1"}[i%3],
				}
				if hinted && c == Local {
					e.Hints = &Hints{ForNodes: []string{node}}
				}
				to := &eps[0]
				if not {
					to = &eps[1]
				}
				if i < dual {
					e.Twin = fmt.Sprint("pod-", i)
					second := addr.As16()
					second[0] = 0xfd
					six := e
					six.Addr = netip.AddrPortFrom(netip.AddrFrom16(second), 0)
					*to = append(*to, six)
				}
				*to = append(*to, e)
			}
			if far && c == "east" {
				m.cluster(c).setBehind(id, "s1", len(eps[0]), len(eps[1]))
				eps = [2][]Endpoint{
					{
						{Addr: netip.MustParseAddrPort("198.51.100.1:0")},
						{Addr: netip.MustParseAddrPort("198.51.100.2:0")},
					},
					nil,
				}
			}
			m.cluster(c).set(id, "s1", eps[0]...)
			m.cluster(c).setUnready(id, "s1", eps[1]...)
			m.table.Changed(c, id, m.now)
		}
		regions := map[ClusterName]string{
			Local:  rapid.SampledFrom([]string{"r1", "r1", ""}).Draw(t, "own region"),
			"east": rapid.SampledFrom([]string{"", "r1", "r2"}).Draw(t, "region"),
		}
		setLink := func(c ClusterName, l Link) {
			l.State, l.Source, l.Region = Ready, m.cluster(c), regions[c]
			m.links[c] = l
			m.table.SetLink(c, l)
		}
		for _, c := range clusters {
			d.Members = append(d.Members, Member{c, id})
			unready[c] = rapid.SliceOfN(rapid.Bool(), 5, 5).Draw(t, "unready")
			write(c)
			setLink(c, Link{})
		}
		m.cluster(Local).service(id).nodeLocal = rapid.Bool().Draw(t, "node-local")
		if rapid.IntRange(0, 4).Draw(t, "one member") == 0 {
			i := rapid.IntRange(0, 2).Draw(t, "of")
			d.Federated, d.Members = false, d.Members[i:i+1]
		}
		m.defs[id] = d
		m.table.Define(id, d)
		client := Client{
			Zone: rapid.SampledFrom([]string{"", "z1"}).Draw(t, "zone"),
			Node: rapid.SampledFrom([]string{"", "n1", "n1", "n3"}).Draw(t, "node"),
		}
		k := Key{id, 80, client}
		m.keys["w"], m.since[k], m.watches["w"] = k, 0, &watched{w: m.table.Watch(k)}
		t.Repeat(map[string]func(*rapid.T){
			"pods": func(t *rapid.T) {
				c, not := drawCluster.Draw(t, "cluster"), rapid.Bool().Draw(t, "unready")
				first := rapid.IntRange(0, 4).Draw(t, "first")
				for i := range rapid.IntRange(1, 5).Draw(t, "pods") {
					unready[c][(first+i)%5] = not
				}
				write(c)
			},
			"node": func(t *rapid.T) {
				c, not := drawCluster.Draw(t, "cluster"), rapid.Bool().Draw(t, "unready")
				for i := rapid.IntRange(0, 1).Draw(t, "first"); i < len(unready[c]); i += 2 {
					unready[c][i] = not
				}
				write(c)
			},
			"link": func(t *rapid.T) {
				standing := rapid.SampledFrom([]Standing{InService, InService, InService, LastResort, Withdrawn})
				setLink(
					drawCluster.Draw(t, "cluster"),
					Link{
						Cordon:     standing.Draw(t, "cordon"),
						CordonOver: rapid.SampledFrom([]time.Duration{0, 20 * time.Second}).Draw(t, "over"),
						Lost:       standing.Draw(t, "lost"),
					},
				)
			},
			"prefer": func(t *rapid.T) {
				edited := *m.defs[id]
				edited.Preference = rapid.SampledFrom(
					[]*Preference{nil, d.Preference, drawPreference(t)},
				).Draw(t, "which")
				m.defs[id] = &edited
				m.table.Define(id, &edited)
			},
			"tick": m.pass,
			"":     m.check,
		})
		m.watches["w"].w.Close()
		m.checkReleased(t)
	})
}

// model is a table together with the history of its inputs.
type model struct {
	*world
	history
	steered bool // whether to draw preferences and standings
	defs    map[ServiceID]*Definition
	links   map[ClusterName]Link
	keys    map[string]Key // keys of the watches, by name
	since   map[Key]int    // first moment of each view
}

func newModel(t *rapid.T, steered bool) *model {
	ipv6 := rapid.Bool().Draw(t, "ipv6")
	return &model{
		world:   newWorld(Options{IPv6: ipv6}),
		history: history{ipv6: ipv6, states: make(map[stateKey]state)},
		steered: steered,
		defs:    make(map[ServiceID]*Definition),
		links:   make(map[ClusterName]Link),
		keys:    make(map[string]Key),
		since:   make(map[Key]int),
	}
}

var (
	drawService = rapid.Map(
		rapid.SampledFrom([]string{"a", "b"}),
		func(s string) ServiceID { return ServiceID{"ns", s} },
	)
	drawCluster = rapid.SampledFrom([]ClusterName{Local, "east", "north"})
)

func (m *model) run(t *rapid.T) {
	actions := map[string]func(*rapid.T){
		"write": m.write, "define": m.define, "link": m.link, "watch": m.watch,
		"undefine": func(t *rapid.T) {
			id := drawService.Draw(t, "id")
			delete(m.defs, id)
			m.table.Define(id, nil)
		},
		"own": func(t *rapid.T) {
			addr := rapid.SampledFrom([]string{"10.0.0.1", "10.0.0.3", "fd00::1"}).Draw(t, "address")
			m.cluster(Local).own(m.table, addr, rapid.SampledFrom([]string{"", "Pod p", "Pod q"}).Draw(t, "owner"))
		},
		"": m.check,
	}
	if m.steered {
		actions["tick"] = m.pass
	}
	t.Repeat(actions)
	for _, x := range m.watches {
		x.w.Close()
	}
	m.checkReleased(t)
	for f := range m.table.reported {
		if d := m.defs[f.service]; d == nil || !slices.Contains(d.Members, f.member) {
			t.Errorf("the report of the former member %v is still cached", f)
		}
	}
}

// pass advances the clock.
func (m *model) pass(t *rapid.T) {
	times := []time.Duration{time.Millisecond, time.Second, 3 * time.Second, 10 * time.Second, time.Minute}
	d := rapid.SampledFrom(times).Draw(t, "time")
	if err := m.tick(d, func() { m.check(t) }); err != nil {
		t.Fatal(err)
	}
}

func (m *model) write(t *rapid.T) {
	c, id := drawCluster.Draw(t, "cluster"), drawService.Draw(t, "service")
	src, slice := m.cluster(c), rapid.SampledFrom([]string{"s1", "s2", "s3"}).Draw(t, "slice")
	src.set(id, slice, drawEndpoints(t)...)
	src.setUnready(id, slice)
	delete(src.services[id].behind, slice)
	switch {
	case !m.steered:
	case c != Local && rapid.Float64Range(0, 1).Draw(t, "gateways") > 0.6:
		src.set(id, slice, drawGateways(t, id)...)
		src.setBehind(id, slice, rapid.IntRange(0, 4).Draw(t, "ready"), rapid.IntRange(0, 3).Draw(t, "unready"))
	default:
		src.setUnready(id, slice, drawEndpoints(t)...)
	}
	states := []ServiceState{Present, Present, Present, Missing, ExternalName}
	src.services[id].state = rapid.SampledFrom(states).Draw(t, "state")
	src.services[id].only80 = rapid.Bool().Draw(t, "only port 80")
	src.services[id].nodeLocal = rapid.Float64Range(0, 1).Draw(t, "local") > 0.8
	m.table.Changed(c, id, m.now)
}

func (m *model) define(t *rapid.T) {
	id, d := drawService.Draw(t, "id"), new(Definition)
	if m.steered && rapid.Bool().Draw(t, "all clusters") {
		d.Federated, d.Members = true, []Member{{Local, id}, {"east", id}, {"north", id}}
	} else {
		d.Federated = rapid.Bool().Draw(t, "federated")
		d.Members = drawMembers(t)
		if !d.Federated {
			d.Members = d.Members[:min(1, len(d.Members))]
		}
	}
	if m.steered {
		d.Preference = drawPreference(t)
	}
	d.Strict = rapid.Float64Range(0, 1).Draw(t, "strict") > 0.6
	m.defs[id] = d
	m.table.Define(id, d)
}

func (m *model) link(t *rapid.T) {
	c := drawCluster.Draw(t, "cluster")
	states := []LinkState{Unlinked, Pending, Unreachable, Ready, Ready, Ready, Ready}
	l := Link{State: rapid.SampledFrom(states).Draw(t, "state")}
	if l.State == Unlinked {
		m.links[c] = l
		m.table.Unlink(c)
		return
	}
	if l.State == Ready {
		l.Source = m.cluster(c)
	}
	if rapid.Float64Range(0, 1).Draw(t, "within") > 0.7 {
		l.Within = NewRanges(netip.MustParsePrefix("10.0.0.2/31"), netip.MustParsePrefix("fd00::1/128"))
	}
	if m.steered {
		standing := rapid.SampledFrom([]Standing{InService, InService, LastResort, Withdrawn})
		lost := rapid.SampledFrom([]Standing{InService, InService, InService, LastResort, Withdrawn})
		l.Cordon = standing.Draw(t, "cordon")
		l.Lost = lost.Draw(t, "lost")
		l.CordonOver = rapid.SampledFrom([]time.Duration{0, 10 * time.Second, 20 * time.Second}).Draw(t, "over")
		l.Region = rapid.SampledFrom([]string{"", "r1", "r1", "r2"}).Draw(t, "region")
	}
	m.links[c] = l
	m.table.SetLink(c, l)
}

func (m *model) watch(t *rapid.T) {
	name := rapid.SampledFrom([]string{"u", "v", "w", "x"}).Draw(t, "name")
	if old := m.watches[name]; old != nil {
		old.w.Close()
		k := m.keys[name]
		delete(m.keys, name)
		if !slices.Contains(slices.Collect(maps.Values(m.keys)), k) {
			delete(m.since, k)
		}
	}
	k := Key{drawService.Draw(t, "id"), uint16(rapid.IntRange(80, 81).Draw(t, "port")), Client{
		Zone:     rapid.SampledFrom([]string{"", "z1", "z2"}).Draw(t, "zone"),
		Node:     rapid.SampledFrom([]string{"", "n1", "n2"}).Draw(t, "node"),
		Instance: rapid.SampledFrom([]string{"", "", "h1"}).Draw(t, "instance"),
	}}
	m.keys[name] = k
	m.watches[name] = &watched{w: m.table.Watch(k)}
	if _, ok := m.since[k]; !ok {
		m.since[k] = len(m.moments)
	}
}

// check adds a moment to the history, and compares all watches with the history.
func (m *model) check(t *rapid.T) {
	x := moment{m.now, maps.Clone(m.defs), maps.Clone(m.links), make(map[memberPort]Share), nil}
	if m.links[Local].State == Ready {
		x.owned = maps.Clone(m.cluster(Local).owned)
	}
	for c, l := range m.links {
		for _, id := range []ServiceID{{"ns", "a"}, {"ns", "b"}} {
			for _, port := range []uint16{80, 81} {
				if l.State == Ready {
					x.shares[memberPort{Member{c, id}, port}] = l.Source.Reader(id, port).Read()
				}
			}
		}
	}
	m.moments = append(m.moments, x)
	for name, x := range m.watches {
		now, _ := x.w.Get()
		k := m.keys[name]
		nodes := []string{"", "n1", "n2", "n3"}
		if k.Client.Node != "" {
			nodes = []string{k.Client.Node}
		}
		want, hinted := m.view(k, m.since[k], m.now, nodes...)
		check(t, name, x.last, now, want)
		for _, node := range nodes {
			if now.HintedTo(node) != slices.Contains(hinted, node) {
				t.Fatalf("%s: hinted to %q is %t, want hints to %q", name, node, now.HintedTo(node), hinted)
			}
		}
		m.checkExplained(t, k, now)
		x.last = now
	}
	checkFailingBack(t, m.table)
}

// checkFailingBack checks that failingBack contains exactly the clients with a due time.
func checkFailingBack(t *rapid.T, table *Table) {
	for _, s := range table.watched.all {
		for _, p := range s.ports {
			failingBack := make(map[*published]struct{})
			for _, to := range p.all() {
				if to.tierUsage != nil && !to.tierUsage.due.IsZero() {
					failingBack[to] = struct{}{}
				}
			}
			if !maps.Equal(failingBack, p.failingBack) {
				t.Fatalf("%v: %d are failing back, but %d are listed", s.id, len(failingBack), len(p.failingBack))
			}
		}
	}
}

func check(t *rapid.T, name string, last, now *Set, want Set) {
	differ := now.Exists != want.Exists || now.Complete != want.Complete || now.ByNode != want.ByNode ||
		now.Hinted != want.Hinted || now.Reason != want.Reason || now.Cluster != want.Cluster
	if differ {
		t.Fatalf("%s: %+v, want %+v", name, now, want)
	}
	if !slices.EqualFunc(now.Endpoints, want.Endpoints, (*Endpoint).Equal) {
		t.Fatalf("%s: endpoints %v, want %v", name, text(now.Endpoints), text(want.Endpoints))
	}
	if last == nil || last == now {
		return
	}
	if now.Version != last.Version+1 {
		// The watch is read after every operation, and each operation publishes at most once.
		t.Fatalf("%s: version %d after %d", name, now.Version, last.Version)
	}
	added, removed := Diff(last, now)
	same := last.Exists == now.Exists && last.Complete == now.Complete && last.ByNode == now.ByNode &&
		last.Hinted == now.Hinted && sameNodes(last.hinted, now.hinted) && last.Undeclared == now.Undeclared &&
		last.Reason == now.Reason && last.Cluster == now.Cluster
	if len(added)+len(removed) == 0 && same {
		t.Fatalf("%s: version %d equals the previous version", name, now.Version)
	}
	known := make(map[netip.AddrPort]*Endpoint)
	for _, e := range last.Endpoints {
		known[e.Addr] = e
	}
	for _, e := range now.Endpoints {
		if o := known[e.Addr]; o != nil && o != e && o.Equal(e) {
			t.Fatalf("%s: %v did not change, but its pointer did", name, e.Addr)
		}
	}
	for _, a := range removed {
		delete(known, a)
	}
	for _, e := range added {
		known[e.Addr] = e
	}
	if len(known) != len(now.Endpoints) {
		t.Fatalf("%s: the step leads to %d endpoints, want %d", name, len(known), len(now.Endpoints))
	}
	for _, e := range now.Endpoints {
		if known[e.Addr] != e {
			t.Fatalf("%s: the step misses %v", name, e.Addr)
		}
	}
}

// checkExplained checks that the addresses that an explanation calls served are exactly the set.
// Each address of each slice must occur once.
func (m *model) checkExplained(t *rapid.T, k Key, set *Set) {
	x := explained(t, m.table, k)
	if x.Set != set {
		t.Fatalf("%v: the explanation has a different set", k)
	}
	seen := make(map[string]bool)
	var served []*Endpoint
	for _, a := range x.Addresses {
		id := fmt.Sprint(a.Member, a.Slice, a.Addr)
		if seen[id] {
			t.Fatalf("%v: %v of slice %s of %v occurs twice", k, a.Addr, a.Slice, x.Members[a.Member].Member)
		}
		if seen[id] = true; a.Verdict == Served {
			served = append(served, a.Endpoint)
		} else if !m.rightReason(k, x, a) {
			t.Fatalf("%v: %v of slice %s of %v is explained as %v",
				k, a.Addr, a.Slice, x.Members[a.Member].Member, a.Verdict)
		}
	}
	slices.SortFunc(served, compareAddr)
	if !slices.EqualFunc(served, set.Endpoints, (*Endpoint).Equal) {
		t.Fatalf("%v: explained as served: %v, but served: %v", k, text(served), text(set.Endpoints))
	}
	for i, c := range x.Members {
		share := m.moments[len(m.moments)-1].shares[memberPort{c.Member, k.Port}]
		for _, l := range share.Slices {
			for _, e := range slices.Concat(l.Endpoints, l.Unready) {
				if id := fmt.Sprint(i, l.Name, e.Addr); c.Status.Serving() && !seen[id] {
					t.Fatalf("%v: %v of slice %s of %v is missing", k, e.Addr, l.Name, c.Member)
				}
			}
		}
	}
}

// rightReason reports whether the verdict on an address that is not served agrees with the inputs
// of the table.
func (m *model) rightReason(k Key, x *Explanation, a ExplainedAddress) bool {
	now := instant{len(m.moments) - 1, m.now}
	cluster, e := x.Members[a.Member].Member.Cluster, a.Endpoint
	share, l := m.moments[now.moment].shares[memberPort{x.Members[a.Member].Member, k.Port}], m.links[cluster]
	if e == nil {
		return a.Verdict == NoSuchService && share.State != Present ||
			a.Verdict == PortUndeclared && share.Undeclared && x.Definition.Strict
	}
	set, s := m.facts(now, k)
	member := &s.Members[a.Member]
	standing, tier := member.Standings[partOf(e)], s.Tier(s.Federated, member.Cluster, e.Zone, k.Client.Zone)
	anywhere := func(is func(ExplainedAddress) bool) bool { return slices.ContainsFunc(x.Addresses, is) }
	switch a.Verdict {
	case NotReady:
		return slices.ContainsFunc(share.Slices, func(s *Slice) bool {
			return s.Name == a.Slice && slices.ContainsFunc(s.Unready, e.Equal)
		})
	case OutsideRanges:
		return cluster != Local && !l.Within.Contains(e.Addr.Addr())
	case Owned:
		return cluster != Local && m.moments[now.moment].owned[e.Addr.Addr()] != ""
	case ClusterCordoned:
		return standing == spec.Withdrawn && (l.Lost != Withdrawn || l.Cordon == Withdrawn)
	case ClusterLost:
		return l.Lost == Withdrawn && l.Cordon != Withdrawn
	case Taken: // taken by an address that no earlier step excludes
		return anywhere(func(o ExplainedAddress) bool {
			return o.Addr == a.Addr && (o.Verdict == Served || o.Verdict > Taken)
		})
	case OtherInstance:
		return k.Client.Instance != "" && e.Hostname != k.Client.Instance
	case OtherNode:
		return cluster == Local && set.ByNode && (e.Kind != Pod || k.Client.Node == "" || e.Node != k.Client.Node)
	case Unpreferred:
		return tier < 0
	case TierNotUsed:
		return tier > 0 || standing == spec.LastResort
	case HintedToOtherNodes:
		return x.Set.Hinted && cluster == Local && !slices.Contains(e.Hints.Nodes(), k.Client.Node)
	case OtherZones:
		return !x.Set.Hinted && !s.Zoned() && cluster == Local && !set.ByNode &&
			!slices.Contains(e.Hints.Zones(), k.Client.Zone)
	case IPv6Off:
		return !m.ipv6 && e.Addr.Addr().Is6()
	case OtherFamily:
		return m.ipv6 && e.Addr.Addr().Is4() && anywhere(func(o ExplainedAddress) bool {
			return o.Verdict == Served &&
				o.Addr.Addr().Is6() &&
				o.Endpoint.Cluster == cluster &&
				o.Endpoint.Twin == e.Twin
		})
	}
	return false
}

// explained returns the explanation of a watched key.
func explained(t interface{ Fatalf(string, ...any) }, table *Table, k Key) *Explanation {
	x, ok := table.Explain(context.Background(), Question{Key: k, Limit: 1000})
	if !ok {
		t.Fatalf("%v can't be explained", k)
	}
	return x
}

func drawMembers(t *rapid.T) []Member {
	list := rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) Member {
		return Member{drawCluster.Draw(t, "cluster"), drawService.Draw(t, "service")}
	}), 0, 4, func(m Member) Member { return m }).Draw(t, "members")
	// Keep at most one member of the local cluster, because annotations allow only one.
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
		// All addresses of a Pod have the same zone.
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

// drawHints draws the hints of an endpoint. Most endpoints have node hints, because these apply
// only if all endpoints have them.
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

// drawGateways draws the gateways of a service. Each service has its own authority.
func drawGateways(t *rapid.T, id ServiceID) (list []Endpoint) {
	for _, e := range drawEndpoints(t) {
		list = append(list, Endpoint{
			Addr:   e.Addr,
			Kind:   Address,
			Common: &Common{Identity: e.Common.Identity, Authority: id.Name},
		})
	}
	return list
}

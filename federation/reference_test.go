package federation

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// reference computes the set that a table must publish from the inputs alone, from
// scratch and in the most obvious way.
func reference(w *world, k Key, defs map[ServiceID]*Definition, links map[ClusterName]Link, ipv6 bool) Set {
	d := defs[k.Service]
	if d == nil {
		return Set{Complete: true, Reason: Undefined}
	}
	set := Set{Exists: true, Complete: true}
	if len(d.Members) == 0 && !d.Federated {
		set.Reason = NoRemoteService
		return set
	}
	won := make(map[netip.AddrPort]*Endpoint)
	unknown, missing, external, notLinked := false, false, false, false
	for _, m := range d.Members {
		switch links[m.Cluster].State {
		case Unlinked:
			notLinked = true
		case Pending:
			unknown, set.Complete = true, false
		case Unreachable:
			unknown = true
		case Ready:
			share := links[m.Cluster].Source.Reader(m.Service, k.Port).Read()
			missing, external = share.State == Missing, share.State == ExternalName
			if share.State != Present {
				continue
			}
			if m.Cluster == Local {
				set.ByNode = share.NodeLocal
			}
			for _, s := range share.Slices {
				for _, e := range s.Endpoints {
					if won[e.Addr] == nil {
						won[e.Addr] = e
					}
				}
			}
		}
	}
	set.Endpoints = referenceChoice(won, ipv6, set.ByNode, k.Client)
	if !d.Federated {
		set.Exists = !notLinked && !missing
	}
	switch {
	case len(set.Endpoints) > 0:
	case unknown:
		set.Reason = Unknown
	case d.Federated:
	case notLinked:
		set.Reason, set.Cluster = NotLinked, d.Members[0].Cluster
	case external:
		set.Reason = External
	}
	return set
}

func referenceChoice(won map[netip.AddrPort]*Endpoint, ipv6, nodeLocal bool, c Client) []*Endpoint {
	var list []*Endpoint
	for _, e := range won {
		if c.Instance == "" || e.Hostname == c.Instance {
			list = append(list, e)
		}
	}
	allHinted, someForZone := true, false
	for _, e := range list {
		if e.Cluster == Local {
			allHinted = allHinted && len(e.Hints) > 0
			someForZone = someForZone || slices.Contains(e.Hints, c.Zone)
		}
	}
	var kept []*Endpoint
	for _, e := range list {
		switch {
		case e.Cluster != Local:
		case nodeLocal && (e.Kind != Pod || c.Node == "" || e.Node != c.Node):
			continue
		case !nodeLocal && allHinted && someForZone && !slices.Contains(e.Hints, c.Zone):
			continue
		}
		kept = append(kept, e)
	}
	var out []*Endpoint
	for _, e := range kept {
		drop := e.Addr.Addr().Is6() && !ipv6
		if e.Addr.Addr().Is4() && ipv6 && e.Twin != "" {
			for _, o := range kept {
				drop = drop || o.Addr.Addr().Is6() && o.Twin == e.Twin && o.Cluster == e.Cluster
			}
		}
		if !drop {
			out = append(out, e)
		}
	}
	slices.SortFunc(out, compareAddr)
	return out
}

// TestReference applies random operations to a table and compares, after each, every
// watch with the reference. It also checks the guarantees from set to set.
func TestReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ipv6 := rapid.Bool().Draw(t, "ipv6")
		w := newWorld(Options{IPv6: ipv6})
		defs, links := make(map[ServiceID]*Definition), make(map[ClusterName]Link)
		keys := make(map[string]Key)
		svc := rapid.Map(rapid.SampledFrom([]string{"a", "b"}), func(s string) ServiceID { return ServiceID{"ns", s} })
		clusters := rapid.SampledFrom([]ClusterName{Local, "east", "north"})
		t.Repeat(map[string]func(*rapid.T){
			"write": func(t *rapid.T) {
				c, id := clusters.Draw(t, "cluster"), svc.Draw(t, "service")
				src := w.cluster(c)
				src.set(id, rapid.SampledFrom([]string{"s1", "s2", "s3"}).Draw(t, "slice"), drawEndpoints(t)...)
				src.services[id].state = rapid.SampledFrom([]ServiceState{Present, Present, Present, Missing, ExternalName}).Draw(t, "state")
				src.services[id].nodeLocal = rapid.Float64Range(0, 1).Draw(t, "local") > 0.8
				w.table.Changed(c, id, time.Now())
			},
			"define": func(t *rapid.T) {
				d := &Definition{Federated: rapid.Bool().Draw(t, "federated")}
				d.Members = rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) Member {
					return Member{clusters.Draw(t, "cluster"), svc.Draw(t, "service")}
				}), 0, 4, func(m Member) Member { return m }).Draw(t, "members")
				// at most one member of the local cluster, as annotations allow
				seen := false
				d.Members = slices.DeleteFunc(d.Members, func(m Member) bool {
					drop := m.Cluster == Local && seen
					seen = seen || m.Cluster == Local
					return drop
				})
				if !d.Federated {
					d.Members = d.Members[:min(1, len(d.Members))]
				}
				id := svc.Draw(t, "id")
				defs[id] = d
				w.table.Define(id, d)
			},
			"undefine": func(t *rapid.T) {
				id := svc.Draw(t, "id")
				delete(defs, id)
				w.table.Define(id, nil)
			},
			"link": func(t *rapid.T) {
				c := clusters.Draw(t, "cluster")
				l := Link{State: rapid.SampledFrom([]LinkState{Unlinked, Pending, Unreachable, Ready, Ready, Ready}).Draw(t, "state")}
				if l.State == Ready {
					l.Source = w.cluster(c)
				}
				links[c] = l
				if l.State == Unlinked {
					w.table.Unlink(c)
				} else {
					w.table.SetLink(c, l)
				}
			},
			"watch": func(t *rapid.T) {
				name := rapid.SampledFrom([]string{"u", "v", "w", "x"}).Draw(t, "name")
				if old := w.watches[name]; old != nil {
					old.w.Close()
				}
				k := Key{svc.Draw(t, "id"), uint16(rapid.IntRange(80, 81).Draw(t, "port")), Client{
					Zone:     rapid.SampledFrom([]string{"", "z1", "z2"}).Draw(t, "zone"),
					Node:     rapid.SampledFrom([]string{"", "n1", "n2"}).Draw(t, "node"),
					Instance: rapid.SampledFrom([]string{"", "", "h1"}).Draw(t, "instance"),
				}}
				keys[name] = k
				w.watches[name] = &watched{w: w.table.Watch(k)}
			},
			"": func(t *rapid.T) {
				for name, x := range w.watches {
					now, _ := x.w.Get()
					check(t, name, x.last, now, reference(w, keys[name], defs, links, ipv6))
					x.last = now
				}
			},
		})
		for _, x := range w.watches {
			x.w.Close()
		}
		if len(w.table.watched) != 0 || len(w.table.byMember) != 0 {
			t.Errorf("not released: %v %v", w.table.watched, w.table.byMember)
		}
		for f := range w.table.reported {
			if d := defs[f.service]; d == nil || !slices.Contains(d.Members, f.member) {
				t.Errorf("the report of %v is kept, which is no longer a member", f)
			}
		}
	})
}

func check(t *rapid.T, name string, last, now *Set, want Set) {
	if now.Exists != want.Exists || now.Complete != want.Complete || now.ByNode != want.ByNode || now.Reason != want.Reason || now.Cluster != want.Cluster {
		t.Fatalf("%s: %+v, want %+v", name, now, want)
	}
	if !slices.EqualFunc(now.Endpoints, want.Endpoints, (*Endpoint).Equal) {
		t.Fatalf("%s: endpoints %v, want %v", name, text(now.Endpoints), text(want.Endpoints))
	}
	if last == nil || last == now {
		return
	}
	if now.Version != last.Version+1 {
		// The watch is read after every operation, and each publishes at most once.
		t.Fatalf("%s: version %d after %d", name, now.Version, last.Version)
	}
	added, removed := Diff(last, now)
	if len(added)+len(removed) == 0 && last.Exists == now.Exists && last.Complete == now.Complete && last.ByNode == now.ByNode && last.Reason == now.Reason && last.Cluster == now.Cluster {
		t.Fatalf("%s: version %d is the same as the one before", name, now.Version)
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

func drawEndpoints(t *rapid.T) []Endpoint {
	return rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) Endpoint {
		ips := []string{"10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4", "fd00::1", "fd00::2"}
		return Endpoint{
			Addr:     netip.AddrPortFrom(netip.MustParseAddr(rapid.SampledFrom(ips).Draw(t, "ip")), 0),
			Kind:     rapid.SampledFrom([]Kind{Pod, Pod, Address}).Draw(t, "kind"),
			Node:     rapid.SampledFrom([]string{"n1", "n2"}).Draw(t, "node"),
			Hostname: rapid.SampledFrom([]string{"", "h1"}).Draw(t, "host"),
			Twin:     rapid.SampledFrom([]string{"", "p1", "p2"}).Draw(t, "twin"),
			Hints:    rapid.SampledFrom([][]string{nil, {"z1"}, {"z1", "z2"}}).Draw(t, "hints"),
			Identity: Identity{DNS: rapid.SampledFrom([]string{"", "i"}).Draw(t, "identity")},
		}
	}), 0, 4, func(e Endpoint) netip.AddrPort { return e.Addr }).Draw(t, "endpoints")
}

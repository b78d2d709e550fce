package federation

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"isthmus/internal/tierspec"
)

// explained returns the explanation of a watched key.
func explained(t interface{ Fatalf(string, ...any) }, table *Table, k Key) *Explanation {
	x, ok := table.Explain(context.Background(), Question{Key: k, Limit: 1000})
	if !ok {
		t.Fatalf("%v can't be explained", k)
	}
	return x
}

// checkExplained checks that an explanation serves exactly what a set has, and has each
// address of each slice once.
func (m *model) checkExplained(t *rapid.T, k Key, set *Set) {
	x := explained(t, m.table, k)
	if x.Set != set {
		t.Fatalf("%v: another set is explained", k)
	}
	seen := make(map[string]bool)
	var served []*Endpoint
	for _, a := range x.Addresses {
		id := fmt.Sprint(a.Member, a.Slice, a.Addr)
		if seen[id] {
			t.Fatalf("%v: %v of slice %s of %v is there twice", k, a.Addr, a.Slice, x.Members[a.Member].Member)
		}
		if seen[id] = true; a.Verdict == Served {
			served = append(served, a.Endpoint)
		} else if !m.rightReason(k, x, a) {
			t.Fatalf("%v: %v of slice %s of %v is explained as %v", k, a.Addr, a.Slice, x.Members[a.Member].Member, a.Verdict)
		}
	}
	slices.SortFunc(served, compareAddr)
	if !slices.EqualFunc(served, set.Endpoints, (*Endpoint).Equal) {
		t.Fatalf("%v: explained as served are %v, served are %v", k, text(served), text(set.Endpoints))
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

// rightReason reports whether a reason for which an address is not served holds, by what the
// table has been given.
func (m *model) rightReason(k Key, x *Explanation, a ExplainedAddress) bool {
	now := instant{len(m.moments) - 1, m.now}
	cluster, e := x.Members[a.Member].Member.Cluster, a.Endpoint
	share, l := m.moments[now.moment].shares[memberPort{x.Members[a.Member].Member, k.Port}], m.links[cluster]
	if e == nil {
		return a.Verdict == NoSuchService && share.State != Present || a.Verdict == PortUndeclared && share.Undeclared && x.Definition.Strict
	}
	set, s := m.facts(now, k)
	member := &s.Members[a.Member]
	standing, tier := member.Standings[partOf(e)], s.Tier(s.Federated, member.Cluster, e.Zone, k.Client.Zone)
	anywhere := func(is func(ExplainedAddress) bool) bool { return slices.ContainsFunc(x.Addresses, is) }
	switch a.Verdict {
	case NotReady:
		return slices.ContainsFunc(share.Slices, func(s *Slice) bool { return s.Name == a.Slice && slices.ContainsFunc(s.Unready, e.Equal) })
	case OutsideRanges:
		return cluster != Local && !l.Within.Contains(e.Addr.Addr())
	case Owned:
		return cluster != Local && m.moments[now.moment].owned[e.Addr.Addr()] != ""
	case ClusterCordoned:
		return standing == tierspec.Withdrawn && (l.Lost != Withdrawn || l.Cordon == Withdrawn)
	case ClusterLost:
		return l.Lost == Withdrawn && l.Cordon != Withdrawn
	case Taken: // by one that is not kept out before it comes to that
		return anywhere(func(o ExplainedAddress) bool { return o.Addr == a.Addr && (o.Verdict == Served || o.Verdict > Taken) })
	case OtherInstance:
		return k.Client.Instance != "" && e.Hostname != k.Client.Instance
	case OtherNode:
		return cluster == Local && set.ByNode && (e.Kind != Pod || k.Client.Node == "" || e.Node != k.Client.Node)
	case Unpreferred:
		return tier < 0
	case TierNotUsed:
		return tier > 0 || standing == tierspec.LastResort
	case HintedToOtherNodes:
		return x.Set.Hinted && cluster == Local && !slices.Contains(e.Hints.Nodes(), k.Client.Node)
	case OtherZones:
		return !x.Set.Hinted && !s.Zoned() && cluster == Local && !set.ByNode &&
			!slices.Contains(e.Hints.Zones(), k.Client.Zone)
	case IPv6Off:
		return !m.ipv6 && e.Addr.Addr().Is6()
	case OtherFamily:
		return m.ipv6 && e.Addr.Addr().Is4() && anywhere(func(o ExplainedAddress) bool {
			return o.Verdict == Served && o.Addr.Addr().Is6() && o.Endpoint.Cluster == cluster && o.Endpoint.Twin == e.Twin
		})
	}
	return false
}

// Explain implements Explainer.
func (c *cluster) Explain(id ServiceID, port uint16) iter.Seq[Considered] {
	share := c.Reader(id, port).Read()
	c.mu.Lock()
	defer c.mu.Unlock()
	var list []Considered
	for _, l := range share.Slices {
		for _, e := range l.Endpoints {
			list = append(list, Considered{Slice: l.Name, Addr: e.Addr, Verdict: Served})
		}
		for _, e := range l.Unready {
			list = append(list, Considered{Slice: l.Name, Addr: e.Addr, Verdict: NotReady})
		}
	}
	if s := c.services[id]; s != nil {
		for _, name := range slices.Sorted(maps.Keys(s.left)) {
			for _, text := range s.left[name] {
				addr, why, _ := strings.Cut(text, "==")
				x := Considered{Slice: name, Verdict: Verdict(slices.Index(verdictWords[:], why))}
				if ip, err := netip.ParseAddr(addr); err == nil {
					x.Addr = netip.AddrPortFrom(ip, port)
				} else {
					x.Text = addr
				}
				list = append(list, x)
			}
		}
	}
	if share.State != Present {
		for i := range list {
			list[i].Verdict = NoSuchService
		}
	}
	slices.SortStableFunc(list, func(a, b Considered) int { return cmp.Compare(a.Slice, b.Slice) })
	return slices.Values(list)
}

// explain prints what becomes of each address.
func (w *world) explain(k Key, opts map[string]string) error {
	watch := w.table.Watch(k)
	defer watch.Close()
	q := Question{Key: k, Limit: 1000}
	if most := opts["most"]; most != "" {
		q.Limit, _ = strconv.Atoi(most)
	}
	if addr := opts["address"]; addr != "" {
		q.Addr = netip.MustParseAddr(addr)
	}
	x, ok := w.table.Explain(context.Background(), q)
	if !ok {
		return fmt.Errorf("%v can't be explained", k)
	}
	for i, m := range x.Members {
		fmt.Fprintf(&w.out, "%v: %v, %v", m.Member, m.Status, m.Standing)
		if len(m.Ports) > 0 {
			fmt.Fprintf(&w.out, ", ports %v", m.Ports)
		}
		if !m.Changed.IsZero() {
			fmt.Fprintf(&w.out, ", changed at %v", m.Changed.Sub(w.start))
		}
		w.out.WriteString("\n")
		for _, a := range x.Addresses {
			if a.Member != i {
				continue
			}
			fmt.Fprintf(&w.out, "  %s %s: %v", a.Slice, cmp.Or(a.Text, a.Addr.Addr().String()), a.Verdict)
			if a.Tier != "" {
				fmt.Fprintf(&w.out, " (%s)", a.Tier)
			}
			if a.Detail != "" {
				fmt.Fprintf(&w.out, ": %s", a.Detail)
			}
			w.out.WriteString("\n")
		}
	}
	for _, v := range slices.Sorted(maps.Keys(x.Verdicts)) {
		fmt.Fprintf(&w.out, "%v %d, ", v, x.Verdicts[v])
	}
	fmt.Fprintf(&w.out, "%d more\n", x.More)
	return nil
}

// TestExplainUnread: an address that the table has not read. What is not watched is not explained, nor anything after the end.
func TestExplainUnread(t *testing.T) {
	table, east := NewTable(Options{}), newCluster("east")
	table.Link("east", Ready, east)
	table.Define(webID, &Definition{Federated: true, Members: []Member{{"east", webID}}})
	k := Key{Service: webID, Port: 80}
	if _, ok := table.Explain(t.Context(), Question{Key: k}); ok {
		t.Error("a key that is not watched is explained")
	}
	defer table.Watch(k).Close()
	e, _ := endpoint("10.0.0.7")
	east.set(webID, "s", e)
	if x := explained(t, table, k); len(x.Addresses) != 1 || x.Addresses[0].Verdict != Unread {
		t.Errorf("addresses %+v", x.Addresses)
	}
	for what, other := range map[string]Key{"port": {Service: webID, Port: 81}, "client": {Service: webID, Port: 80, Client: Client{Zone: "z"}}} {
		if _, ok := table.Explain(t.Context(), Question{Key: other}); ok {
			t.Errorf("a %s that is not watched is explained", what)
		}
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, ok := table.Explain(ended, Question{Key: k}); ok {
		t.Error("explained after the end")
	}
}

// TestExplainListsWhatIsMissing: if there is no room for all addresses, those that clients do not get are
// listed first, and those that they get while there is room.
func TestExplainListsWhatIsMissing(t *testing.T) {
	local, east := newCluster(Local), newCluster("east")
	var eps []Endpoint
	for i := range 8 {
		e, _ := endpoint(fmt.Sprintf("10.%d.0.%d", i/4, i)) // 10.1 is not within the link's ranges
		eps = append(eps, e)
	}
	local.set(webID, "s", eps...)
	east.set(webID, "s", eps...)
	table := NewTable(Options{})
	table.Link(Local, Ready, local)
	table.SetLink("east", Link{State: Ready, Source: east, Within: NewRanges(netip.MustParsePrefix("10.0.0.0/16"))})
	table.Define(webID, &Definition{Federated: true, Members: []Member{{Local, webID}, {"east", webID}}})
	k := Key{Service: webID, Port: 80}
	defer table.Watch(k).Close()
	for most, want := range map[int]string{
		0:  "",
		3:  "0 taken, 1 taken, 2 taken",
		10: "0 taken, 1 taken, 2 taken, 3 taken, 4 outside-ranges, 5 outside-ranges, 6 outside-ranges, 7 outside-ranges, 0 served, 1 served",
		16: "0 served, 1 served, 2 served, 3 served, 4 served, 5 served, 6 served, 7 served, 0 taken, 1 taken, 2 taken, 3 taken, 4 outside-ranges, 5 outside-ranges, 6 outside-ranges, 7 outside-ranges",
	} {
		x, ok := table.Explain(t.Context(), Question{Key: k, Limit: most})
		var got []string
		for _, a := range x.Addresses {
			got = append(got, fmt.Sprint(a.Addr.Addr().As4()[3], " ", a.Verdict))
		}
		if strings.Join(got, ", ") != want || !ok || x.More != 16-most || x.Verdicts[Served] != 8 {
			t.Errorf("%d at most:\ngot  %s\nwant %s\n%d more, %v", most, strings.Join(got, ", "), want, x.More, x.Verdicts)
		}
	}
}

package federation

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestUndeclaredPorts applies random operations to a service that has nearly the maximum number of
// undeclared ports. The test compares each new watch with the rule. A watch of an unwatched port is
// refused if no ready member declares the port and MaxUndeclaredPorts undeclared ports are watched.
// A watch that was not refused has endpoints until it is closed.
func TestUndeclaredPorts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id, clusters := ServiceID{"ns", "web"}, []ClusterName{Local, "east"}
		x := &portsModel{
			world: newWorld(Options{}),
			id:    id,
			ready: make(map[ClusterName]bool),
			open:  make(map[uint16][]*Watch[*Set]),
		}
		d := &Definition{Federated: true}
		for _, c := range clusters {
			d.Members = append(d.Members, Member{c, id})
			e, err := endpoint("10.0.0.1")
			if err != nil {
				t.Fatal(err)
			}
			x.cluster(c).set(id, "s", e)
			x.only80(c, true)
			x.link(c, c == Local)
		}
		x.table.Define(id, d)
		for i := range MaxUndeclaredPorts - 2 {
			x.watch(t, uint16(1000+i))
		}
		port := rapid.SampledFrom([]uint16{80, 1000, 2000, 2001, 2002, 2003, 2004})
		t.Repeat(map[string]func(*rapid.T){
			"watch": func(t *rapid.T) { x.watch(t, port.Draw(t, "port")) },
			"close": func(t *rapid.T) {
				p := port.Draw(t, "port")
				if list := x.open[p]; len(list) > 0 {
					list[0].Close()
					if x.open[p] = list[1:]; len(list) == 1 {
						delete(x.open, p)
					}
				}
			},
			"declare": func(t *rapid.T) {
				c := rapid.SampledFrom(clusters).Draw(t, "cluster")
				x.only80(c, rapid.Bool().Draw(t, "only port 80"))
			},
			"link": func(t *rapid.T) { x.link("east", rapid.Bool().Draw(t, "ready")) },
			"":     x.check,
		})
		for _, list := range x.open {
			for _, w := range list {
				w.Close()
			}
		}
		x.checkReleased(t)
	})
}

// portsModel is a table with one service, and the watches that the table has not refused.
type portsModel struct {
	*world
	id    ServiceID
	ready map[ClusterName]bool
	open  map[uint16][]*Watch[*Set] // by port; no list is empty
}

// only80 sets whether the cluster's Service declares only port 80 or all ports.
func (x *portsModel) only80(c ClusterName, only bool) {
	src := x.cluster(c)
	src.mu.Lock()
	src.service(x.id).only80 = only
	src.mu.Unlock()
	x.table.Changed(c, x.id, x.now)
}

func (x *portsModel) link(c ClusterName, ready bool) {
	x.ready[c] = ready
	if ready {
		x.table.Link(c, Ready, x.cluster(c))
	} else {
		x.table.Link(c, Pending, nil)
	}
}

func (x *portsModel) declared(port uint16) bool {
	return slices.ContainsFunc([]ClusterName{Local, "east"}, func(c ClusterName) bool {
		return x.ready[c] && x.cluster(c).service(x.id).declares(port)
	})
}

func (x *portsModel) watch(t *rapid.T, port uint16) {
	undeclared := 0
	for p := range x.open {
		if !x.declared(p) {
			undeclared++
		}
	}
	refuse := x.open[port] == nil && !x.declared(port) && undeclared >= MaxUndeclaredPorts
	w := x.table.Watch(Key{Service: x.id, Port: port})
	set, _ := w.Get()
	if (set.Reason == TooManyPorts) != refuse {
		t.Fatalf("port %d with %d undeclared ports: reason %d", port, undeclared, set.Reason)
	}
	if refuse {
		w.Close()
		return
	}
	x.open[port] = append(x.open[port], w)
}

func (x *portsModel) check(t *rapid.T) {
	for port, list := range x.open {
		for _, w := range list {
			set, _ := w.Get()
			undeclared := !x.declared(port) && x.ready["east"]
			if len(set.Endpoints) != 1 || set.Undeclared != undeclared {
				t.Fatalf("port %d: %d endpoints, undeclared %t, want %t",
					port, len(set.Endpoints), set.Undeclared, undeclared)
			}
		}
	}
	if n := len(x.table.Watched()); n != len(x.open) {
		t.Fatalf("%d ports are watched, want %d", n, len(x.open))
	}
}

// TestUndeclaredPortsAreDescribedLast checks which clients are described if there are too many
// kinds. Clients of undeclared ports do not displace clients of a declared port.
func TestUndeclaredPortsAreDescribedLast(t *testing.T) {
	id := ServiceID{"ns", "web"}
	x := &portsModel{world: newWorld(Options{}), id: id, ready: make(map[ClusterName]bool)}
	x.only80(Local, true)
	x.link(Local, true)
	x.table.Define(id, &Definition{
		Federated: true, Members: []Member{{Service: id}},
		Preference: &Preference{Tiers: tiersOf("local, any"), MinReady: MinReady{Count: 1}},
	})
	for _, zone := range []string{"a", "b"} {
		for port := range uint16(MaxUndeclaredPorts) {
			t.Cleanup(x.table.Watch(Key{Service: id, Port: 1 + port, Client: Client{Zone: zone}}).Close)
		}
	}
	t.Cleanup(x.table.Watch(Key{Service: id, Port: 80}).Close)
	list := x.table.Steered(true)[0]
	described := slices.ContainsFunc(list.Clients, func(c SteeredClient) bool { return c.Port == 80 })
	if !described || len(list.Clients) != maxClients || list.MoreClients != 2*MaxUndeclaredPorts+1-maxClients {
		t.Errorf("%d kinds of clients and %d more; those of port 80: %t",
			len(list.Clients), list.MoreClients, described)
	}
}

// TestTierChangeOfPorts checks that a change of the preference is reported once, even if several
// ports of the service are watched.
func TestTierChangeOfPorts(t *testing.T) {
	for range 20 { // ports are in random order
		var got []TierChange
		now := time.Unix(0, 0)
		table := NewTable(Options{
			Now:         func() time.Time { return now },
			ReportTiers: func(c TierChange) { got = append(got, c) },
		})
		for _, c := range []ClusterName{"east", "north"} {
			table.Link(c, Ready, newCluster(c))
		}
		local := newCluster(Local)
		table.Link(Local, Ready, local)
		define := func(tiers string) {
			table.Define(webID, &Definition{
				Federated:  true,
				Members:    []Member{{Local, webID}, {"east", webID}, {"north", webID}},
				Preference: &Preference{Tiers: tiersOf(tiers), ReturnAfter: time.Minute},
			})
		}
		define("east, north, local, any")
		defer table.Watch(Key{Service: webID, Port: 80}).Close() // all tiers are in use
		e, _ := endpoint("10.0.0.1")
		local.set(webID, "a", e)
		table.Changed(Local, webID, now)
		defer table.Watch(Key{Service: webID, Port: 81}).Close() // three tiers are in use
		define("any")
		if len(got) != 1 || got[0].From != 4 || got[0].To != 1 {
			t.Fatalf("reported: %+v", got)
		}
	}
}

// TestTierChangesInOrder checks that changes for several zones are always reported in the same
// order.
func TestTierChangesInOrder(t *testing.T) {
	for range 5 {
		var got []string
		table := NewTable(Options{ReportTiers: func(c TierChange) { got = append(got, c.Zone) }})
		local := newCluster(Local)
		table.Link(Local, Ready, local)
		table.Define(webID, &Definition{
			Federated:  true,
			Members:    []Member{{Local, webID}, {"east", webID}},
			Preference: &Preference{Tiers: tiersOf("east, local")},
		})
		for _, z := range []string{"c", "a", "b", ""} {
			defer table.Watch(Key{Service: webID, Port: 80, Client: Client{Zone: z}}).Close()
		}
		east := newCluster("east")
		e, _ := endpoint("10.0.0.1")
		east.set(webID, "a", e)
		table.Link("east", Ready, east)
		if !slices.Equal(got, []string{"", "a", "b", "c"}) {
			t.Fatalf("reported: %q", got)
		}
	}
}

// TestLateTick checks that a late Tick leads to the same decision as a Tick that is on time. In the
// test, failing back ends. The row of tiers no longer suffices before Tick runs.
func TestLateTick(t *testing.T) {
	for _, late := range []bool{false, true} {
		now := time.Unix(0, 0)
		table := NewTable(Options{Now: func() time.Time { return now }})
		local, east := newCluster(Local), newCluster("east")
		write := func(c *cluster, endpoints ...Endpoint) {
			c.set(webID, "a", endpoints...)
			table.Changed(c.name, webID, now)
		}
		table.Link(Local, Ready, local)
		table.SetLink("east", Link{State: Ready, Source: east, Lost: LastResort})
		table.Define(webID, &Definition{
			Federated:  true,
			Members:    []Member{{Local, webID}, {"east", webID}},
			Preference: &Preference{Tiers: tiersOf("any"), ReturnAfter: time.Minute},
		})
		ours, _ := endpoint("10.0.0.1")
		theirs, _ := endpoint("10.0.1.1")
		write(east, theirs)
		w := table.Watch(Key{Service: webID, Port: 80}) // east is of last resort
		defer w.Close()
		write(local, ours) // failing back begins
		write(east)

		now = now.Add(time.Minute)
		if !late {
			table.Tick()
		}
		write(local)
		table.Tick()

		write(local, ours)
		write(east, theirs)
		if got, _ := w.Get(); len(got.Endpoints) != 1 || got.Endpoints[0].Cluster != Local {
			t.Errorf("late=%t: endpoints %v, want only the local one", late, text(got.Endpoints))
		}
	}
}

// TestBehindGatewaysByNode checks that internalTrafficPolicy Local of the local Service does not
// affect how linked clusters are counted.
func TestBehindGatewaysByNode(t *testing.T) {
	table := NewTable(Options{})
	local, east, north := newCluster(Local), newCluster("east"), newCluster("north")
	for name, c := range map[ClusterName]*cluster{Local: local, "east": east, "north": north} {
		table.Link(name, Ready, c)
	}
	local.set(webID, "l")
	local.services[webID].nodeLocal = true
	gateway, _ := endpoint("198.51.100.1")
	pod, _ := endpoint("10.0.0.1")
	east.set(webID, "gateways", gateway)
	east.setBehind(webID, "gateways", 3, 0)
	north.set(webID, "n", pod)
	table.Define(webID, &Definition{
		Federated: true, Members: []Member{{Local, webID}, {"east", webID}, {"north", webID}},
		Preference: &Preference{Tiers: tiersOf("east, any"), MinReady: MinReady{Count: 3}},
	})
	w := table.Watch(Key{Service: webID, Port: 80, Client: Client{Node: "n1"}})
	defer w.Close()
	set, _ := w.Get()
	if !set.ByNode || len(set.Endpoints) != 1 || set.Endpoints[0].Addr.Addr() != gateway.Addr.Addr() {
		t.Errorf("served endpoints: %v", text(set.Endpoints))
	}
}

package federation

import (
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// screenWorld is a watched service with members in the local cluster, east and north.
type screenWorld struct {
	*testing.T
	table       *Table
	home        *cluster
	east, north *cluster
	watch       *Watch[*Set]
	reports     []string
}

var webID = ServiceID{"ns", "web"}

func newScreenWorld(t *testing.T) *screenWorld {
	w := &screenWorld{T: t, home: newCluster(Local), east: newCluster("east"), north: newCluster("north")}
	w.table = NewTable(Options{
		IPv6: true,
		ReportRefused: func(_ ServiceID, _ uint16, m Member, first Refusal, n int) {
			w.reports = append(w.reports, m.Cluster.String()+": "+first.String())
		},
	})
	w.table.Define(webID, &Definition{
		Federated: true,
		Members:   []Member{{Local, webID}, {"east", webID}, {"north", webID}},
	})
	w.home.set(webID, "s")
	w.table.Link(Local, Ready, w.home)
	w.table.Link("east", Ready, w.east)
	w.table.Link("north", Ready, w.north)
	w.watch = w.table.Watch(Key{Service: webID, Port: 80})
	t.Cleanup(func() {
		w.watch.Close()
		if n := w.table.offered.size(); n > 0 {
			t.Errorf("%d addresses are still counted", n)
		}
	})
	return w
}

func (w *screenWorld) offer(c *cluster, slice string, addrs ...string) {
	var list []Endpoint
	for _, a := range addrs {
		list = append(list, Endpoint{Addr: netip.AddrPortFrom(netip.MustParseAddr(a), 0), Kind: Pod})
	}
	c.set(webID, slice, list...)
	w.table.Changed(c.name, webID, time.Time{})
}

// serves checks the endpoints and the version of the published set.
func (w *screenWorld) serves(steps int, want ...string) {
	w.Helper()
	set, _ := w.watch.Get()
	if got := text(set.Endpoints); strings.Join(got, " ") != strings.Join(want, " ") {
		w.Errorf("serves %q, want %q", got, want)
	}
	if set.Version != uint64(steps) {
		w.Errorf("version %d, want %d", set.Version, steps)
	}
}

func (w *screenWorld) reported(want ...string) {
	w.Helper()
	if !slices.Equal(w.reports, want) {
		w.Errorf("reported %q, want %q", w.reports, want)
	}
	w.reports = nil
}

func (w *screenWorld) refused(i, outside, owned int) {
	w.Helper()
	r := w.table.Watched()[0].Members[i].Refused
	if r.Outside != outside || r.Owned != owned || len(r.Examples) != min(outside+owned, maxExamples) {
		w.Errorf("refused: %+v, want %d and %d", r, outside, owned)
	}
}

// TestOwnedAddressOfTwo checks an address that two linked clusters offer. The address is removed
// from the endpoints of both clusters in one step, and added again in one step.
func TestOwnedAddressOfTwo(t *testing.T) {
	w := newScreenWorld(t)
	w.offer(w.east, "a", "10.1.0.1", "10.1.0.2")
	w.offer(w.north, "a", "10.1.0.1")
	w.serves(2, "10.1.0.1:80@east", "10.1.0.2:80@east")
	w.home.own(w.table, "10.1.0.1", "Pod ns/p")
	w.serves(3, "10.1.0.2:80@east")
	w.refused(1, 0, 1)
	w.refused(2, 0, 1)
	w.home.own(w.table, "10.1.0.1", "")
	w.serves(4, "10.1.0.1:80@east", "10.1.0.2:80@east")
}

// TestOwnedAddress checks that a local object's address is removed from a linked cluster's
// endpoints in one step. The object or the endpoint may come first. The address is added again when
// the object is deleted. Each refusal is reported once.
func TestOwnedAddress(t *testing.T) {
	w := newScreenWorld(t)
	w.offer(w.east, "a", "10.1.0.1", "10.1.0.2")
	w.serves(2, "10.1.0.1:80@east", "10.1.0.2:80@east")
	w.home.own(w.table, "10.1.0.2", "Pod ns/mine")
	w.serves(3, "10.1.0.1:80@east")
	w.refused(1, 0, 1)
	w.reported("east: 10.1.0.2:80 is assigned to Pod ns/mine in the local cluster")
	addr := netip.MustParseAddr("10.1.0.2")
	x, _ := w.table.Explain(t.Context(), Question{Key: Key{Service: webID, Port: 80}, Addr: addr, Limit: 2})
	if len(x.Addresses) != 1 || x.Addresses[0].Verdict != Owned || x.Addresses[0].Detail != "Pod ns/mine" {
		t.Errorf("explained as %+v", x.Addresses)
	}
	w.home.own(w.table, "10.1.0.2", "Pod ns/other") // the next Pod with the address
	w.home.own(w.table, "10.9.9.9", "Pod ns/other") // no cluster offers it
	w.offer(w.east, "b", "10.1.0.2", "10.1.0.3")
	w.serves(4, "10.1.0.1:80@east", "10.1.0.3:80@east")
	w.refused(1, 0, 2)
	w.offer(w.north, "c", "10.1.0.2")
	w.serves(4, "10.1.0.1:80@east", "10.1.0.3:80@east")
	w.reported("north: 10.1.0.2:80 is assigned to Pod ns/other in the local cluster")
	w.offer(w.home, "s", "10.1.0.2") // local endpoints are not screened
	w.serves(5, "10.1.0.1:80@east", "10.1.0.2:80@local", "10.1.0.3:80@east")
	w.offer(w.home, "s")
	w.serves(6, "10.1.0.1:80@east", "10.1.0.3:80@east")
	w.home.own(w.table, "10.1.0.2", "")
	w.serves(7, "10.1.0.1:80@east", "10.1.0.2:80@east", "10.1.0.3:80@east")
	w.refused(1, 0, 0)
	w.home.own(w.table, "10.1.0.1", "Service ns/x")
	w.serves(8, "10.1.0.2:80@east", "10.1.0.3:80@east")
	w.reported("east: 10.1.0.1:80 is assigned to Service ns/x in the local cluster")
}

// TestRangesOfLink checks that new ranges take effect in one step without reading a source, and
// that equal ranges change nothing.
func TestRangesOfLink(t *testing.T) {
	w := newScreenWorld(t)
	within := func(list ...string) {
		var r []netip.Prefix
		for _, p := range list {
			r = append(r, netip.MustParsePrefix(p))
		}
		w.table.SetLink("east", Link{State: Ready, Source: w.east, Within: NewRanges(r...)})
	}
	w.offer(w.east, "a", "10.1.0.1", "10.2.0.1", "fd00::1")
	w.offer(w.north, "a", "10.2.0.1")
	w.serves(2, "10.1.0.1:80@east", "10.2.0.1:80@east", "[fd00::1]:80@east")
	reads := w.east.reads
	within("10.1.0.0/16")
	w.serves(3, "10.1.0.1:80@east", "10.2.0.1:80@north")
	w.refused(1, 2, 0)
	w.reported("east: 10.2.0.1:80 is outside the address ranges of the link")
	within("10.1.0.0/16")
	w.serves(3, "10.1.0.1:80@east", "10.2.0.1:80@north")
	within("10.1.0.0/16", "fd00::/64")
	w.serves(4, "10.1.0.1:80@east", "10.2.0.1:80@north", "[fd00::1]:80@east")
	within()
	w.serves(5, "10.1.0.1:80@east", "10.2.0.1:80@east", "[fd00::1]:80@east")
	if w.east.reads != reads {
		t.Errorf("read %d times", w.east.reads-reads)
	}
}

// TestOwnersAtOnce checks that no address of a local object stays in a set if owners and endpoints
// change at the same time.
func TestOwnersAtOnce(t *testing.T) {
	w := newScreenWorld(t)
	var all sync.WaitGroup
	all.Go(func() {
		for i := range 200 {
			w.offer(w.east, "a", []string{"10.1.0.1", "10.1.0.2"}[:i%2+1]...)
		}
	})
	all.Go(func() {
		for i := range 200 {
			w.home.own(w.table, "10.1.0.2", []string{"", "Pod ns/mine"}[i%2])
		}
	})
	all.Wait()
	set, _ := w.watch.Get()
	if got := text(set.Endpoints); !slices.Equal(got, []string{"10.1.0.1:80@east"}) {
		t.Errorf("serves %q", got)
	}
}

// TestUnreadyScreened checks that unready addresses outside a link's ranges are not counted, and
// not reported as refused. Owners never affect unready addresses, so the counts depend only on the
// offers.
func TestUnreadyScreened(t *testing.T) {
	w := newScreenWorld(t)
	w.table.Define(webID, &Definition{
		Federated:  true,
		Members:    []Member{{Local, webID}, {"east", webID}},
		Preference: &Preference{Tiers: tiersOf("east, local"), MinReady: MinReady{Percent: 50}},
	})
	known := func(want int) {
		t.Helper()
		if got := w.table.Steered(true)[0].Clients[0].Tiers[0].Known; got != want {
			t.Errorf("%d known, want %d", got, want)
		}
	}
	unready := func(addrs ...string) {
		var list []Endpoint
		for _, a := range addrs {
			list = append(list, Endpoint{Addr: netip.AddrPortFrom(netip.MustParseAddr(a), 0), Kind: Pod})
		}
		w.east.setUnready(webID, "a", list...)
		w.table.Changed("east", webID, time.Time{})
	}
	w.offer(w.east, "a", "10.1.0.1")
	unready("10.1.0.2", "10.1.0.3", "10.2.0.1")
	known(4)
	w.table.SetLink("east", Link{State: Ready, Source: w.east, Within: NewRanges(netip.MustParsePrefix("10.1.0.0/16"))})
	known(3)
	w.home.own(w.table, "10.1.0.2", "Pod ns/early")
	known(3)
	unready("10.1.0.2", "10.1.0.3", "10.1.0.4", "10.2.0.1")
	known(4)
	w.home.own(w.table, "10.1.0.2", "")
	known(4)
	w.reported()
	w.refused(1, 0, 0)
	w.table.SetLink("east", Link{State: Ready, Source: w.east})
	known(5)
}

package federation

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestOwnerConcernsOneService: a change of an address waits for no service that does not have it.
func TestOwnerConcernsOneService(t *testing.T) {
	w := newScreenWorld(t)
	other := ServiceID{"ns", "other"}
	w.table.Define(other, &Definition{Federated: true, Members: []Member{{"east", other}}})
	w.east.set(other, "s", Endpoint{Addr: netip.MustParseAddrPort("10.1.0.9:0"), Kind: Pod})
	defer w.table.Watch(Key{Service: other, Port: 80}).Close()
	w.offer(w.east, "a", "10.1.0.1", "10.1.0.2")
	w.serves(2, "10.1.0.1:80@east", "10.1.0.2:80@east")
	busy := w.table.watched[other]
	busy.mu.Lock()
	defer busy.mu.Unlock()
	done := make(chan struct{})
	go func() {
		w.home.own(w.table, "10.1.0.1", "Pod ns/p")
		close(done)
	}()
	select {
	case <-done:
		w.serves(3, "10.1.0.2:80@east")
	case <-time.After(10 * time.Second):
		t.Error("it waits for a service that does not have the address")
	}
}

// TestOfferedAddrs: the index has the services that a map of maps has. If more than maxUses have
// an address, it may have every service, until none has it.
func TestOfferedAddrs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o, model := newOfferedAddrs(), make(map[netip.Addr]map[uint32]int)
		crowded := make(map[netip.Addr]bool)
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			a := netip.MustParseAddr(rapid.SampledFrom([]string{"10.0.0.1", "::ffff:10.0.0.1", "10.0.0.2", "fd00::1"}).Draw(t, "address"))
			first, n := rapid.Uint32Range(1, 300).Draw(t, "first"), rapid.SampledFrom([]uint32{1, 3, 300}).Draw(t, "services")
			remove, key := rapid.Bool().Draw(t, "remove"), a.Unmap()
			for service := first; service < first+n; service++ {
				switch has := model[key][service]; {
				case remove && has > 0:
					o.add(a, service, -1)
					if model[key][service]--; has == 1 {
						delete(model[key], service)
					}
				case !remove:
					o.add(a, service, 1)
					if model[key] == nil {
						model[key] = make(map[uint32]int)
					}
					model[key][service]++
				}
				if len(model[key]) == 0 || len(model[key]) > maxUses {
					crowded[key] = len(model[key]) > maxUses
				}
			}
			got, every := o.services(a)
			slices.Sort(got)
			if every != crowded[key] || !every && !slices.Equal(got, slices.Sorted(maps.Keys(model[key]))) {
				t.Fatalf("services of %v: %v, every: %v; want %v, every: %v", a, got, every, model[key], crowded[key])
			}
		}
		inUse := 0
		for key, services := range model {
			for service, n := range services {
				for range n {
					o.add(key, service, -1)
				}
			}
		}
		for _, chunk := range o.uses {
			inUse += len(chunk)
		}
		for at := o.free; at != 0; at = o.use(at).next {
			inUse--
		}
		if len(o.v4)+len(o.v6) > 0 || inUse > 1 { // number 0 is none
			t.Fatalf("%d addresses and %d uses are left", len(o.v4)+len(o.v6), inUse)
		}
	})
}

// TestAddressOfEveryService: an address that more services offer than are kept of it leaves all of
// them at once when it gets an owner.
func TestAddressOfEveryService(t *testing.T) {
	table, h, east := NewTable(Options{}), newCluster(Local), newCluster("east")
	table.Link(Local, Ready, h)
	table.Link("east", Ready, east)
	var watches []*Watch[*Set]
	for i := range maxUses + 10 {
		id := ServiceID{"ns", fmt.Sprint("web-", i)}
		east.set(id, "s", Endpoint{Addr: netip.MustParseAddrPort("10.1.0.1:0"), Kind: Pod})
		table.Define(id, &Definition{Federated: true, Members: []Member{{"east", id}}})
		watches = append(watches, table.Watch(Key{Service: id, Port: 80}))
	}
	for _, want := range []int{0, 1} {
		h.own(table, "10.1.0.1", []string{"Pod ns/p", ""}[want])
		for i, w := range watches {
			if set, _ := w.Get(); len(set.Endpoints) != want {
				t.Fatalf("service %d has %d endpoints, want %d", i, len(set.Endpoints), want)
			}
		}
	}
	for _, w := range watches {
		w.Close()
	}
	if len(table.offered.v4) > 0 || len(table.numbered) > 0 {
		t.Errorf("%d addresses and %d services are left", len(table.offered.v4), len(table.numbered))
	}
}

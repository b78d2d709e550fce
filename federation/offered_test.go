package federation

import (
	"maps"
	"net/netip"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestOwnerConcernsOneService checks that a change of an address's owner does not wait for services
// without the address.
func TestOwnerConcernsOneService(t *testing.T) {
	w := newScreenWorld(t)
	other := ServiceID{"ns", "other"}
	w.table.Define(other, &Definition{Federated: true, Members: []Member{{"east", other}}})
	w.east.set(other, "s", Endpoint{Addr: netip.MustParseAddrPort("10.1.0.9:0"), Kind: Pod})
	defer w.table.Watch(Key{Service: other, Port: 80}).Close()
	w.offer(w.east, "a", "10.1.0.1", "10.1.0.2")
	w.serves(2, "10.1.0.1:80@east", "10.1.0.2:80@east")
	busy := w.table.watched.get(other)
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
		t.Error("the change waits for a service without the address")
	}
}

// TestOwnerConcernsAll checks that an address is removed from all services when it gets an owner,
// and added to all of them again.
func TestOwnerConcernsAll(t *testing.T) {
	w := newScreenWorld(t)
	other := ServiceID{"ns", "other"}
	w.table.Define(other, &Definition{Federated: true, Members: []Member{{"east", other}}})
	w.east.set(other, "s", Endpoint{Addr: netip.MustParseAddrPort("10.1.0.1:0"), Kind: Pod})
	watch := w.table.Watch(Key{Service: other, Port: 80})
	defer watch.Close()
	w.offer(w.east, "a", "10.1.0.1")
	for _, owner := range []string{"Pod ns/p", ""} {
		w.home.own(w.table, "10.1.0.1", owner)
		a, _ := w.watch.Get()
		b, _ := watch.Get()
		if served := owner == ""; len(a.Endpoints) == 1 != served || len(b.Endpoints) == 1 != served {
			t.Errorf("owner %q: %d and %d endpoints", owner, len(a.Endpoints), len(b.Endpoints))
		}
	}
}

// TestOfferedAddrs compares the index with a map of maps, and checks that the index is empty once
// nothing is offered.
func TestOfferedAddrs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o, model := newOfferedAddrs(), make(map[netip.Addr]map[uint32]int)
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			addrs := []string{"10.0.0.1", "::ffff:10.0.0.1", "10.0.0.2", "fd00::1"}
			a := netip.MustParseAddr(rapid.SampledFrom(addrs).Draw(t, "address"))
			service, key := rapid.Uint32Range(0, 5).Draw(t, "service"), a.Unmap()
			if model[key] == nil {
				model[key] = make(map[uint32]int)
			}
			if rapid.Bool().Draw(t, "more") {
				o.add(a, service, 1)
				model[key][service]++
			} else if model[key][service] > 0 {
				o.add(a, service, -1)
				if model[key][service]--; model[key][service] == 0 {
					delete(model[key], service)
				}
			}
			got := slices.Sorted(slices.Values(o.services(a)))
			if !slices.Equal(got, slices.Sorted(maps.Keys(model[key]))) {
				t.Fatalf("services of %v: %v, want %v", a, got, model[key])
			}
		}
		for key, services := range model {
			for service, n := range services {
				for range n {
					o.add(key, service, -1)
				}
			}
		}
		if n := o.size() + len(o.v4.more) + len(o.v6.more); n > 0 {
			t.Fatalf("%d entries remain", n)
		}
	})
}

// size returns the number of offered addresses.
func (o *offeredAddrs) size() int { return len(o.v4.first) + len(o.v6.first) }

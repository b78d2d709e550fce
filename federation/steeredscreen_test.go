package federation

import (
	"net/netip"
	"testing"
	"time"
)

// TestUnreadyScreened: addresses that are not ready and outside a link's ranges are not
// known, and are no refusal that is reported. Owners make no difference to the others,
// whenever they come: so what is counted follows from what is on offer.
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

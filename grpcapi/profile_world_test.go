package grpcapi

import (
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"isthmus/federation"
	"isthmus/grpcapi/internal/wiretest"
)

// destinations are the profiles of a Directory. By default a service does not exist,
// and an address has no known owner.
type destinations struct {
	mu     sync.Mutex
	all    map[federation.ProfileKey]*destination
	cursed federation.ProfileKey
}

type destination struct {
	federation.Latest[*federation.Profile]
	watches int // open ones
	opened  int // ever
}

func (d *destinations) at(k federation.ProfileKey) *destination {
	if d.all[k] == nil {
		p := &federation.Profile{Reason: federation.NoService}
		if k.Addr.IsValid() {
			p = &federation.Profile{Endpoint: &federation.Endpoint{Addr: k.Addr}}
		}
		d.all[k] = &destination{}
		d.all[k].Set(p)
	}
	return d.all[k]
}

// Profile panics for the cursed destination.
func (d *destinations) Profile(k federation.ProfileKey) *federation.Watch[*federation.Profile] {
	d.mu.Lock()
	defer d.mu.Unlock()
	if k == d.cursed {
		panic("cursed destination")
	}
	x := d.at(k)
	x.watches++
	x.opened++
	return federation.NewWatch(&x.Latest, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		x.watches--
	})
}

// put publishes a profile of a destination.
func (d *destinations) put(k federation.ProfileKey, p *federation.Profile) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.at(k).Set(p)
}

// open is the number of open watches.
func (d *destinations) open() (n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, x := range d.all {
		n += x.watches
	}
	return n
}

var webKey = federation.ProfileKey{Service: web, Port: 80}

// with returns a changed copy of a profile.
func with(p *federation.Profile, change func(*federation.Profile)) *federation.Profile {
	p = new(*p)
	change(p)
	return p
}

func opaque(p *federation.Profile)   { p.Opaque = true }
func rejected(p *federation.Profile) { p.Rejected, p.Routes = true, nil }

func endpointProfile(e *federation.Endpoint) *federation.Profile {
	return &federation.Profile{Endpoint: e}
}

// profileViews fails unless there are that many views, and that many of them idle, and
// each has one watch.
func (w *world) profileViews(t *testing.T, all, idle int) {
	t.Helper()
	synctest.Wait()
	if a, i, _ := w.server.profileViews.count(); a != all || i != idle {
		t.Fatalf("%d views, %d of them idle; want %d, %d", a, i, all, idle)
	}
	if n := w.profiles.open(); n != all {
		t.Fatalf("%d watches of %d views", n, all)
	}
}

func addrKey(addr string) federation.ProfileKey {
	return federation.ProfileKey{Addr: netip.MustParseAddrPort(addr)}
}

// lines returns messages in a few words each.
func lines(messages []received) string {
	var all []string
	for _, m := range messages {
		if m.profile != nil {
			all = append(all, wiretest.ProfileLine(m.profile))
		} else {
			all = append(all, wiretest.Line(m.update))
		}
	}
	return strings.Join(all, "; ")
}

package grpcapi

import (
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"
	"google.golang.org/protobuf/proto"

	"isthmus/federation"
)

// destinations are a Directory's. What has not been told of is a service that
// does not exist, or an address that nobody is known to have.
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

// put replaces what is told of a destination.
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

// webProfile is a profile of web; with routes of these names, if there are any.
func webProfile(routes ...string) *federation.Profile {
	p := &federation.Profile{Service: web, Port: 80, Name: "web.shop.svc.cluster.local"}
	if len(routes) > 0 {
		p.Routes = serviceProfile(routes...)
	}
	return p
}

func serviceProfile(routes ...string) *federation.ServiceProfile {
	sp := &federation.ServiceProfile{Namespace: "shop", Name: "web.shop.svc.cluster.local"}
	for _, r := range routes {
		sp.Routes = append(sp.Routes, federation.Route{Name: r, Condition: federation.Match{Kind: federation.MatchPath, Text: "/" + r}})
	}
	return sp
}

// with is a copy of a profile, changed.
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

// profileLine is a profile in a few words: "web routes a b opaque", "endpoint
// 10.0.0.1:80", "nothing".
func profileLine(p *pb.DestinationProfile) string {
	if proto.Size(p) == 0 {
		return "nothing"
	}
	var words []string
	if name := p.GetFullyQualifiedName(); name != "" {
		words = append(words, strings.Split(name, ".")[0])
	}
	if e := p.GetEndpoint(); e != nil {
		words = append(words, "endpoint", addrOf(e.GetAddr()).String())
	}
	for i, r := range p.GetRoutes() {
		if i == 0 {
			words = append(words, "routes")
		}
		words = append(words, r.GetMetricsLabels()["route"])
	}
	if p.GetOpaqueProtocol() {
		words = append(words, "opaque")
	}
	return strings.Join(words, " ")
}

// profileViews fails unless there are that many, and that many of them idle, and
// each is followed once.
func (w *world) profileViews(t *testing.T, all, idle int) {
	t.Helper()
	synctest.Wait()
	if a, i := w.server.profiles.count(); a != all || i != idle {
		t.Fatalf("%d views, %d of them idle; want %d, %d", a, i, all, idle)
	}
	if n := w.told.open(); n != all {
		t.Fatalf("%d watches of %d views", n, all)
	}
}

func addrKey(addr string) federation.ProfileKey {
	return federation.ProfileKey{Addr: netip.MustParseAddrPort(addr)}
}

package gateway

import (
	"fmt"
	"iter"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"isthmus/federation"
	"isthmus/internal/spec"
)

var web = federation.ServiceID{Namespace: "shop", Name: "web"}

// behind is a cluster behind gateways. It is a Source with one share.
type behind struct {
	share      federation.Share
	considered []federation.Considered
}

func (b *behind) State(federation.ServiceID) federation.ServiceState { return b.share.State }
func (b *behind) Declares(federation.ServiceID, uint16) bool         { return !b.share.Undeclared }
func (b *behind) Reader(federation.ServiceID, uint16) federation.Reader {
	return readerFunc(func() federation.Share { return b.share })
}
func (b *behind) Explain(federation.ServiceID, uint16) iter.Seq[federation.Considered] {
	return slices.Values(b.considered)
}

type readerFunc func() federation.Share

func (f readerFunc) Read() federation.Share { return f() }

// set sets the endpoints behind the gateways, in one slice.
func (b *behind) set(ready, unready []string) {
	l := &federation.Slice{Name: "s", Endpoints: endpointsAt(ready), Unready: endpointsAt(unready)}
	b.share = federation.Share{State: federation.Present, Slices: []*federation.Slice{l}}
	b.considered = nil
	for i, e := range slices.Concat(l.Endpoints, l.Unready) {
		c := federation.Considered{Slice: l.Name, Addr: e.Addr}
		if i >= len(ready) {
			c.Verdict = federation.NotReady
		}
		b.considered = append(b.considered, c)
	}
}

func endpointsAt(ips []string) (list []*federation.Endpoint) {
	for _, ip := range ips {
		list = append(list, &federation.Endpoint{
			Addr:    netip.AddrPortFrom(netip.MustParseAddr(ip), 80),
			Kind:    federation.Pod,
			Cluster: "east",
		})
	}
	return list
}

func gatewaySource(b *behind, list ...string) *Source {
	s := &Source{Cluster: b, Name: "east", Domain: "east.local"}
	for _, text := range list {
		a := Address{Identity: "gw.example"}
		if text[0] == '!' {
			a.Dead, a.Failure, text = true, "refused", text[1:]
			a.Since = time.Unix(1, 0)
		}
		a.Addr = netip.AddrPortFrom(netip.MustParseAddr(text), 4143)
		s.Addresses = append(s.Addresses, a)
	}
	return s
}

// offers formats the addresses of a share and the counts behind them.
func offers(share federation.Share) string {
	text := ""
	for _, l := range share.Slices {
		text += fmt.Sprint(*l.Behind)
		for _, e := range l.Endpoints {
			text += " " + e.Addr.String()
		}
		for range l.Unready {
			text += " unready"
		}
	}
	return text
}

// TestRead checks that a share has the gateways while an endpoint behind them is ready. An
// unchanged share keeps its slices.
func TestRead(t *testing.T) {
	b := new(behind)
	r := gatewaySource(b, "192.0.2.2", "!192.0.2.3", "192.0.2.1").Reader(web, 80)
	expect := func(want string) federation.Share {
		t.Helper()
		share := r.Read()
		if got := offers(share); got != want {
			t.Errorf("%q, want %q", got, want)
		}
		return share
	}
	if share := expect(""); share.State != federation.Missing {
		t.Errorf("%v", share.State)
	}
	const both = " 192.0.2.1:4143 192.0.2.2:4143"
	b.set([]string{"10.0.0.1"}, []string{"10.0.0.2"})
	first := expect("{1 1}" + both).Slices[0]
	if again := expect("{1 1}" + both).Slices[0]; again != first {
		t.Error("an unchanged slice has another pointer")
	}
	b.set([]string{"10.0.0.3"}, []string{"10.0.0.4"}) // others, as many
	if again := expect("{1 1}" + both).Slices[0]; again != first {
		t.Error("an unchanged slice has another pointer")
	}
	b.set([]string{"10.0.0.1", "10.0.0.3"}, nil)
	second := expect("{2 0}" + both).Slices[0]
	if second == first || second.Endpoints[0] != first.Endpoints[0] {
		t.Error("a changed slice has the same pointer, or its endpoints do not")
	}
	b.set(nil, []string{"10.0.0.1", "10.0.0.3"})
	expect("{0 2}")
	b.set(nil, nil)
	expect("")
	b.set([]string{"10.0.0.1"}, nil)
	expect("{1 0}" + both)
	b.share.State = federation.ExternalName
	if share := expect(""); share.State != federation.ExternalName {
		t.Errorf("%v", share.State)
	}
}

// TestReadTwoSlices checks that an address in two slices counts once. It counts as ready if it is
// ready in either slice.
func TestReadTwoSlices(t *testing.T) {
	b := &behind{share: federation.Share{State: federation.Present, Slices: []*federation.Slice{
		{
			Name:      "a",
			Endpoints: endpointsAt([]string{"10.0.0.1", "10.0.0.2"}),
			Unready:   endpointsAt([]string{"10.0.0.3", "10.0.0.4"}),
		},
		{
			Name:      "b",
			Endpoints: endpointsAt([]string{"10.0.0.2", "10.0.0.3"}),
			Unready:   endpointsAt([]string{"10.0.0.4"}),
		},
	}}}
	share := gatewaySource(b, "192.0.2.1").Reader(web, 80).Read()
	if got, want := *share.Slices[0].Behind, (federation.Behind{Ready: 3, Unready: 1}); got != want {
		t.Errorf("the share has %+v behind it, want %+v", got, want)
	}
}

// TestReadFamilies checks that a Pod with an address of each family counts once.
func TestReadFamilies(t *testing.T) {
	b := new(behind)
	for _, c := range []struct {
		ready, unready []string
		want           string
	}{
		{[]string{"10.0.0.1", "fd00::1"}, nil, "{1 0}"},
		{[]string{"10.0.0.1", "10.0.0.2", "fd00::1"}, []string{"10.0.0.3", "fd00::3"}, "{2 1}"},
		{[]string{"fd00::1", "fd00::2"}, []string{"10.0.0.3"}, "{2 1}"},
	} {
		b.set(c.ready, c.unready)
		if got := offers(gatewaySource(b).Reader(web, 80).Read()); got != c.want {
			t.Errorf("%v, %v: %s, want %s", c.ready, c.unready, got, c.want)
		}
	}
}

// TestReadReference compares the shares of random clusters behind random gateways with package spec.
func TestReadReference(t *testing.T) {
	ips := []string{"10.0.0.1", "10.0.0.2", "10.0.0.3", "fd00::1", "fd00::2"}
	drawIPs := rapid.SliceOfNDistinct(rapid.SampledFrom(ips), 0, 3, rapid.ID[string])
	gateways := []string{"192.0.2.1", "!192.0.2.1", "192.0.2.2", "!192.0.2.2", "!192.0.2.3"}
	rapid.Check(t, func(t *rapid.T) {
		b := &behind{share: federation.Share{State: federation.Present}}
		var backends []spec.BackendSlice
		for range rapid.IntRange(0, 3).Draw(t, "slices") {
			up := drawIPs.Draw(t, "ready")
			down := slices.DeleteFunc(
				drawIPs.Draw(t, "unready"),
				func(ip string) bool { return slices.Contains(up, ip) },
			)
			ready, unready := endpointsAt(up), endpointsAt(down)
			b.share.Slices = append(b.share.Slices, &federation.Slice{Endpoints: ready, Unready: unready})
			backends = append(backends, spec.BackendSlice{Ready: modelled(ready), Unready: modelled(unready)})
		}
		host := func(text string) string { return strings.TrimPrefix(text, "!") }
		list := rapid.SliceOfNDistinct(rapid.SampledFrom(gateways), 0, 3, host).Draw(t, "gateways")
		s := gatewaySource(b, list...)
		var reached []spec.Gateway
		for _, a := range s.Addresses {
			reached = append(reached, spec.Gateway{Addr: a.Addr, Identity: a.Identity, Dead: a.Dead})
		}
		if got, want := AllDead(s.Addresses), spec.AllDead(reached); got != want {
			t.Fatalf("all dead is %v, want %v: %q", got, want, list)
		}
		route := spec.Route{Cluster: "east", Domain: "east.local", Namespace: "shop", Service: "web", Port: 80}
		want, count := route.Through(reached, backends)
		var got []spec.Backend
		var gotCount spec.Behind
		for _, l := range s.Reader(web, 80).Read().Slices {
			got = append(got, modelled(l.Endpoints)...)
			gotCount = spec.Behind(*l.Behind)
		}
		if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) || gotCount != count {
			t.Fatalf("%v\n%+v, want %v\n%+v", gotCount, got, count, want)
		}
	})
}

// modelled returns endpoints in the form that package spec computes.
func modelled(list []*federation.Endpoint) (made []spec.Backend) {
	for _, e := range list {
		c := e.Common.Get()
		b := spec.Backend{Addr: e.Addr, DNS: c.Identity.DNS, Authority: c.Authority}
		for _, l := range c.Group {
			if b.Labels == nil {
				b.Labels = make(map[string]string)
			}
			b.Labels[l.Name] = l.Value
		}
		made = append(made, b)
	}
	return made
}

// TestUndeclaredPort checks that an undeclared port cannot be reached. The explanation gives that
// reason.
func TestUndeclaredPort(t *testing.T) {
	b := new(behind)
	b.set([]string{"10.0.0.1"}, nil)
	b.share.Undeclared = true
	s := gatewaySource(b, "192.0.2.1")
	if share := s.Reader(web, 81).Read(); offers(share) != "" || !share.Undeclared || s.Declares(web, 81) {
		t.Errorf("%+v", share)
	}
	var got []string
	for c := range s.Explain(web, 81) {
		got = append(got, fmt.Sprint(c.Addr, " ", c.Verdict))
	}
	if want := []string{"10.0.0.1:80 behind-a-gateway", "192.0.2.1:4143 no-such-port"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestExplain checks that exactly the endpoints explained as served are served. All others have a
// reason.
//
// Behaviours: NW-23.
func TestExplain(t *testing.T) {
	for _, ready := range [][]string{nil, {"10.0.0.1"}} {
		for _, list := range [][]string{
			nil,
			{"192.0.2.1"},
			{"!192.0.2.1"},
			{"192.0.2.1", "!192.0.2.2"},
			{"!192.0.2.1", "!192.0.2.2"},
		} {
			for _, state := range []federation.ServiceState{federation.Present, federation.Missing} {
				b := new(behind)
				b.set(ready, []string{"10.0.0.9"})
				b.share.State = state
				s := gatewaySource(b, list...)
				var served, explained []netip.AddrPort
				for _, l := range s.Reader(web, 80).Read().Slices {
					for _, e := range l.Endpoints {
						served = append(served, e.Addr)
					}
				}
				for c := range s.Explain(web, 80) {
					right := true
					switch {
					case c.Slice != sliceName:
						right = c.Verdict == federation.BehindGateway && (c.Detail != "") == (len(list) == 0) ||
							c.Verdict == federation.NotReady
					case c.Verdict == federation.Served:
						explained = append(explained, c.Addr)
					case c.Verdict == federation.NothingBehind:
						right = len(ready) == 0 || state == federation.Missing
					case c.Verdict == federation.GatewayDead:
						right = c.Detail == "refused" && c.Changed == time.Unix(1, 0) &&
							slices.Contains(list, "!"+c.Addr.Addr().String())
					default:
						right = false
					}
					if !right {
						t.Errorf("%v behind %v: %v %v %q", ready, list, c.Addr, c.Verdict, c.Detail)
					}
				}
				if !slices.Equal(served, explained) {
					t.Errorf("%v behind %v: served are %v, explained as served %v", ready, list, served, explained)
				}
			}
		}
	}
}

// TestExplainStops checks that Explain stops when its caller stops.
func TestExplainStops(t *testing.T) {
	b := new(behind)
	b.set([]string{"10.0.0.1"}, nil)
	for most := 1; most <= 3; most++ {
		n := 0
		for range gatewaySource(b, "192.0.2.1", "192.0.2.2").Explain(web, 80) {
			if n++; n == most {
				break
			}
		}
		if n != most {
			t.Errorf("%d, want %d", n, most)
		}
	}
}

// TestReachable checks that a cluster is reachable while it has a usable gateway, even a dead one.
func TestReachable(t *testing.T) {
	s := gatewaySource(new(behind), "192.0.2.1", "!2001:db8::1")
	s.Addresses[0].Outside = true
	if !s.Reachable() {
		t.Error("a dead gateway is not served as the last one")
	}
	if s.Addresses[1].IPv6Off = true; s.Reachable() {
		t.Error("the cluster is reachable at addresses that may not be used")
	}
	if s.Addresses = nil; s.Reachable() {
		t.Error("the cluster is reachable without an address")
	}
}

// TestSame checks that sources are different if clients get different endpoints.
func TestSame(t *testing.T) {
	b := new(behind)
	a, o := gatewaySource(b, "192.0.2.1"), gatewaySource(b, "192.0.2.1")
	o.Addresses[0].Failure, o.Addresses[0].Since = "once", time.Unix(9, 0)
	if !a.Same(o) || (*Source)(nil).Same(a) {
		t.Error("an equal source differs, or a nil source is equal")
	}
	for i, other := range []*Source{
		gatewaySource(new(behind), "192.0.2.1"), gatewaySource(b), gatewaySource(b, "!192.0.2.1"),
		gatewaySource(b, "192.0.2.2"),
	} {
		if a.Same(other) {
			t.Errorf("source %d is equal", i)
		}
	}
	o.Domain = "other.local"
	if a.Same(o) {
		t.Error("a source with another domain is equal")
	}
}

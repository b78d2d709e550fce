package grpcapi

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"

	"isthmus/federation"
	"isthmus/grpcapi/internal/wiretest"
	"isthmus/grpcapi/wire"
)

// TestProfileFirst checks which profiles refuse a call.
func TestProfileFirst(t *testing.T) {
	instance := federation.ProfileKey{Service: web, Instance: "web-0", Port: 80}
	for name, tc := range map[string]struct {
		authority string
		key       federation.ProfileKey
		profile   *federation.Profile // if nil, none is published
		code      codes.Code
		want      string // status message
	}{
		"P-01 no service name": {"linkerd.io", webKey, nil, codes.InvalidArgument, "Invalid authority: linkerd.io"},
		"P-02 external name": {
			webAddr,
			webKey,
			&federation.Profile{Reason: federation.NoAddress},
			codes.InvalidArgument,
			"Invalid authority: " + webAddr,
		},
		"no service": {webAddr, webKey, nil, codes.NotFound, "Service web.shop not found"},
		"no instance": {
			"web-0." + webAddr,
			instance,
			&federation.Profile{Reason: federation.NoInstance},
			codes.NotFound,
			"no pod found in EndpointSlices of Service shop/web for hostname web-0",
		},
		"no service of instance": {"web-0." + webAddr, instance, nil, codes.NotFound, "Service web.shop not found"},
		"ambiguous": {
			"10.0.0.1:80", addrKey("10.0.0.1:80"),
			&federation.Profile{Reason: federation.Ambiguous, Claimed: "2 Pods with IP 10.0.0.1"},
			codes.Unavailable, "found 2 Pods with IP 10.0.0.1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, Options{})
				if tc.profile != nil {
					w.profiles.put(tc.key, tc.profile)
				}
				c := w.getProfile(tc.authority, "")
				defer c.hangUp()
				c.fails(t, tc.code, tc.want)
				w.profileViews(t, 0, 0)
			})
		})
	}
}

// TestProfileOfTheClientsNamespace checks that the client's namespace is part of the key unless it
// is the service's (P-05). A ServiceProfile is encoded once for clients of all namespaces.
func TestProfileOfTheClientsNamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{})
		other, third, addr, ours := webKey, webKey, addrKey("10.0.0.1:80"), wiretest.WebProfile("ours")
		other.Namespace, third.Namespace, addr.Namespace = "client-ns", "third-ns", "shop"
		w.profiles.put(webKey, ours)
		w.profiles.put(third, with(ours, func(*federation.Profile) {}))
		w.profiles.put(other, wiretest.WebProfile("theirs"))
		w.profiles.put(addr, wiretest.WebProfile("by address"))
		for _, x := range [][3]string{
			{webAddr, "", "ours"},
			{webAddr, "shop", "ours"},
			{webAddr, "client-ns", "theirs"},
			{webAddr, "third-ns", "ours"},
			{"10.0.0.1:80", "shop", "by address"},
		} {
			c := w.getProfile(x[0], x[1])
			defer c.hangUp()
			c.sees(t, "web routes "+x[2])
		}
		w.profileViews(t, 4, 0)
		routing := func(k federation.ProfileKey) *wire.Routing {
			return w.server.profileViews.all[k].variants[0].routing
		}
		if routing(webKey) != routing(third) {
			t.Error("a ServiceProfile is encoded twice")
		}
	})
}

// TestProfileUnderALiveStream checks that only the first message can be replaced by a status code.
// No profile is sent twice, and rejected and ambiguous profiles change nothing.
func TestProfileUnderALiveStream(t *testing.T) {
	type step struct {
		profile *federation.Profile
		want    string
	}
	reason := func(r federation.ProfileReason) *federation.Profile { return &federation.Profile{Reason: r} }
	ab := wiretest.WebProfile("a", "b")
	cart := with(
		wiretest.WebProfile(),
		func(p *federation.Profile) { p.Service.Name, p.Name, p.Rejected = "cart", "cart.shop", true },
	)
	unowned := endpointProfile(&federation.Endpoint{Addr: addrKey("10.0.0.1:80").Addr})
	host := func(name string, opaque bool) *federation.Profile {
		e := pod("10.0.0.1:80")
		e.Twin, e.Opaque = "shop/"+name, opaque
		return endpointProfile(e)
	}
	for name, steps := range map[string][]step{
		"routes": {
			{wiretest.WebProfile(), "web"}, {ab, "web routes a b"}, {with(ab, opaque), "web routes a b opaque"},
			{wiretest.WebProfile("b"), "web routes b"}, {wiretest.WebProfile(), "web"},
		},
		"the same again": {
			{wiretest.WebProfile("a"), "web routes a"},
			{wiretest.WebProfile("a"), ""},
			{with(wiretest.WebProfile("a"), opaque), "web routes a opaque"},
			{with(wiretest.WebProfile("a"), opaque), ""},
		},
		"rejected": {
			{ab, "web routes a b"},
			{with(ab, rejected), ""},
			{with(with(ab, rejected), opaque), "web routes a b opaque"},
			{with(ab, rejected), "web routes a b"},
			{wiretest.WebProfile("c"), "web routes c"},
			{with(ab, rejected), ""},
			{wiretest.WebProfile(), "web"},
		},
		"rejected, default before": {
			{wiretest.WebProfile(), "web"},
			{with(wiretest.WebProfile(), rejected), ""},
			{with(with(wiretest.WebProfile(), rejected), opaque), "web opaque"},
			{ab, "web routes a b"},
		},
		"rejected, default between": {
			{ab, "web routes a b"}, {wiretest.WebProfile(), "web"}, {with(wiretest.WebProfile(), rejected), ""},
		},
		"rejected, gone between": {
			{ab, "web routes a b"},
			{reason(federation.NoService), "nothing"},
			{with(wiretest.WebProfile(), rejected), "web routes a b"},
		},
		"rejected, port gone between": {
			{ab, "web routes a b"},
			{with(ab, rejected), ""},
			{reason(federation.NoPort), "nothing"},
			{with(wiretest.WebProfile(), rejected), "web routes a b"},
		},
		"rejected, address free between": {
			{ab, "web routes a b"},
			{unowned, "endpoint 10.0.0.1:80"},
			{with(wiretest.WebProfile(), rejected), "web routes a b"},
		},
		"rejected, default and gone between": {
			{ab, "web routes a b"},
			{wiretest.WebProfile(), "web"},
			{reason(federation.NoService), "nothing"},
			{with(wiretest.WebProfile(), rejected), "web"},
		},
		"rejected, of another service": {
			{ab, "web routes a b"}, {cart, "cart"}, {with(wiretest.WebProfile(), rejected), "web"},
		},
		"rejected, of another service, gone between": {
			{ab, "web routes a b"},
			{unowned, "endpoint 10.0.0.1:80"},
			{cart, "cart"},
			{reason(federation.NoService), "nothing"},
			{with(wiretest.WebProfile(), rejected), "web"},
		},
		"port gone": {
			{ab, "web routes a b"},
			{reason(federation.NoPort), "nothing"},
			{reason(federation.NoService), ""},
			{wiretest.WebProfile(), "web"},
		},
		"LP-04 ExternalName for a while": {
			{ab, "web routes a b"},
			{reason(federation.NoAddress), "nothing"},
			{ab, "web routes a b"},
		},
		"service's IP": {{wiretest.WebProfile(), "web"}, {unowned, "endpoint 10.0.0.1:80"}},
		"EP-01, P-11": {
			{unowned, "endpoint 10.0.0.1:80"},
			{with(unowned, func(*federation.Profile) {}), ""},
			{host("a", false), "endpoint 10.0.0.1:80"},
		},
		"ambiguous": {
			{ab, "web routes a b"},
			{reason(federation.Ambiguous), ""},
			{with(ab, opaque), "web routes a b opaque"},
		},
		"ambiguous, and rejected after that": {
			{ab, "web routes a b"},
			{reason(federation.Ambiguous), ""},
			{with(with(ab, rejected), opaque), "web routes a b opaque"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, Options{Pace: -1})
				w.profiles.put(webKey, steps[0].profile)
				c := w.getProfile(webAddr, "")
				defer c.hangUp()
				c.sees(t, steps[0].want)
				for _, s := range steps[1:] {
					w.profiles.put(webKey, s.profile)
					c.sees(t, s.want)
				}
			})
		})
	}
}

// TestProfilePace checks that fast changes wait for the pace, and that only the last one is sent.
func TestProfilePace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{Pace: time.Second})
		w.profiles.put(webKey, wiretest.WebProfile())
		c := w.getProfile(webAddr, "")
		defer c.hangUp()
		c.sees(t, "web")
		w.profiles.put(webKey, wiretest.WebProfile("a"))
		time.Sleep(time.Second - time.Nanosecond)
		w.profiles.put(webKey, wiretest.WebProfile("b"))
		c.sees(t, "")
		time.Sleep(time.Nanosecond)
		c.sees(t, "web routes b")
	})
}

// TestProfileStall checks that a stalled stream counts for its service, or for an endpoint.
func TestProfileStall(t *testing.T) {
	for name, tc := range map[string]struct {
		authority string
		key       federation.ProfileKey
		profile   *federation.Profile
		service   bool
	}{
		"service":         {webAddr, webKey, wiretest.WebProfile(), true},
		"undeclared port": {webAddr, webKey, &federation.Profile{Reason: federation.NoPort}, true},
		"cluster IP":      {"10.0.0.1:8080", addrKey("10.0.0.1:8080"), wiretest.WebProfile(), true},
		"pod":             {"10.0.0.1:80", addrKey("10.0.0.1:80"), endpointProfile(pod("10.0.0.1:80")), false},
		"instance": {
			"web-0." + webAddr,
			federation.ProfileKey{Service: web, Instance: "web-0", Port: 80},
			endpointProfile(pod("10.0.0.1:80")),
			false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var stalled []string
				w := newWorld(t, Options{
					Pace:    -1,
					Stall:   time.Minute,
					Stalled: func(destination string) { stalled = append(stalled, destination) },
				})
				w.profiles.put(tc.key, tc.profile)
				m := w.server.metrics
				time.Sleep(time.Second)
				c := w.getProfile(tc.authority, "", gated)
				time.Sleep(time.Minute - time.Nanosecond)
				if n := m.profileOverflow.count("web.shop.svc.cluster.local", "80"); n != 0 ||
					value(m.endpointProfileOverflow) != 0 {
					t.Errorf("%d overflows before any stall", n)
				}
				time.Sleep(time.Nanosecond)
				c.fails(t, codes.Unavailable, "took too long to read an update")
				if c.status.Code() != codes.Unavailable {
					t.Errorf("the transport got the status %v", c.status)
				}
				if !slices.Equal(stalled, []string{tc.authority}) {
					t.Errorf("reported as %q", stalled)
				}
				services, endpoints := series(scraped(m.profileOverflow.collect)), value(m.endpointProfileOverflow)
				if tc.service {
					services += m.profileOverflow.count("web.shop.svc.cluster.local", "80")
				}
				if tc.service && (services != 2 || endpoints != 0) || !tc.service && (services != 0 || endpoints != 1) {
					t.Errorf("counted %d for services and %v for endpoints", services, endpoints)
				}
			})
		})
	}
}

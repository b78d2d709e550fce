package federation

import (
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestLatest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l Latest[int]
		v, replaced := l.Get()
		if v != 0 {
			t.Fatalf("zero value: %d", v)
		}
		woken := 0
		var wg sync.WaitGroup
		wg.Go(func() { <-replaced; woken++ })
		synctest.Wait()
		if woken != 0 {
			t.Fatal("woken before anything was set")
		}
		l.Set(1)
		l.Set(2)
		wg.Wait()
		if v, replaced := l.Get(); v != 2 {
			t.Fatalf("got %d, want the newest", v)
		} else {
			select {
			case <-replaced:
				t.Fatal("the newest value was reported as replaced")
			case <-time.After(time.Hour):
			}
		}
	})
}

// TestProfileEqual checks that profiles are equal only if all fields are. Endpoints are compared by
// content.
func TestProfileEqual(t *testing.T) {
	profile := func() Profile {
		return Profile{Endpoint: &Endpoint{Addr: netip.MustParseAddrPort("10.0.0.1:80"), Common: &Common{}}}
	}
	others := Profile{
		Reason:   NoPort,
		Claimed:  "x",
		Service:  ServiceID{Name: "x"},
		Port:     1,
		Name:     "x",
		Routes:   &ServiceProfile{},
		Rejected: true,
		Opaque:   true,
		Endpoint: &Endpoint{Addr: netip.MustParseAddrPort("10.0.0.1:80"), Common: &Common{Authority: "x"}},
	}
	checkEqual(t, profile, others, (*Profile).Equal)
	if p := profile(); p.Equal(&Profile{}) || (&Profile{}).Equal(&p) || p.Equal(nil) {
		t.Error("a profile equals an empty or nil profile")
	}
}

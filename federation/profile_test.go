package federation

import (
	"net/netip"
	"testing"
)

// TestProfileEqual: profiles are equal only if all of their fields are; endpoints
// are compared by content.
func TestProfileEqual(t *testing.T) {
	profile := func() Profile {
		return Profile{Endpoint: &Endpoint{Addr: netip.MustParseAddrPort("10.0.0.1:80"), Common: &Common{}}}
	}
	others := Profile{
		Reason: NoPort, Claimed: "x", Service: ServiceID{Name: "x"}, Port: 1, Name: "x", Routes: &ServiceProfile{}, Rejected: true, Opaque: true,
		Endpoint: &Endpoint{Addr: netip.MustParseAddrPort("10.0.0.1:80"), Common: &Common{Authority: "x"}},
	}
	checkEqual(t, profile, others, (*Profile).Equal)
	if p := profile(); p.Equal(&Profile{}) || (&Profile{}).Equal(&p) || p.Equal(nil) {
		t.Error("nothing is equal to an endpoint")
	}
}

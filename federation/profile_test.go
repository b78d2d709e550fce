package federation

import (
	"net/netip"
	"reflect"
	"testing"
)

// TestProfileEqual: profiles are equal only if all of their fields are; endpoints
// are compared by content.
func TestProfileEqual(t *testing.T) {
	endpoint := func() *Endpoint {
		return &Endpoint{Addr: netip.MustParseAddrPort("10.0.0.1:80"), Common: &Common{Labels: []Label{{Name: "pod", Value: "p"}}}}
	}
	a, b := Profile{Endpoint: endpoint()}, Profile{Endpoint: endpoint()}
	if !a.Equal(&b) || !a.Equal(&a) {
		t.Error("the same is not equal")
	}
	b.Endpoint.Common.Labels[0].Value = "q"
	if a.Equal(&b) || a.Equal(&Profile{}) || (&Profile{}).Equal(&a) || a.Equal(nil) {
		t.Error("another endpoint is equal")
	}
	others := Profile{Reason: NoPort, Claimed: "x", Service: ServiceID{Name: "x"}, Port: 1, Name: "x", Routes: &ServiceProfile{}, Rejected: true, Opaque: true}
	for i := range reflect.TypeFor[Profile]().NumField() {
		changed := Profile{Endpoint: a.Endpoint}
		name := reflect.TypeFor[Profile]().Field(i).Name
		reflect.ValueOf(&changed).Elem().Field(i).Set(reflect.ValueOf(others).Field(i))
		if a.Equal(&changed) || changed.Equal(&a) {
			t.Errorf("with another %s it is equal", name)
		}
	}
}

package federation

import (
	"net/netip"
	"reflect"
	"testing"
)

// TestEndpointEqual: endpoints are equal only if all of their fields are. A field that
// Equal does not compare would never reach clients that have the endpoint already.
func TestEndpointEqual(t *testing.T) {
	endpoint := func() Endpoint {
		return Endpoint{Addr: netip.MustParseAddrPort("10.0.0.1:80"), Labels: []Label{{Name: "pod", Value: "p"}}}
	}
	a, b := endpoint(), endpoint()
	if !a.Equal(&b) || !a.Equal(&a) {
		t.Error("the same is not equal")
	}
	others := Endpoint{
		Addr: netip.MustParseAddrPort("10.0.0.2:80"), Kind: Pod, Cluster: "east", Zone: "a", Node: "n", Hostname: "h", Twin: "t", Name: "p",
		Hints: []string{"a"}, Group: []Label{{Name: "service", Value: "web"}}, Labels: []Label{{Name: "pod", Value: "q"}},
		Identity: &Identity{DNS: "x"}, Authority: "x", Meshed: true, Opaque: true, InboundPort: 4143, Ports: &PortRules{RemoteName: "x"},
	}
	for i := range reflect.TypeFor[Endpoint]().NumField() {
		changed, field := endpoint(), reflect.TypeFor[Endpoint]().Field(i).Name
		other := reflect.ValueOf(others).Field(i)
		if other.IsZero() {
			t.Fatalf("this test has no other %s", field)
		}
		reflect.ValueOf(&changed).Elem().Field(i).Set(other)
		if a.Equal(&changed) || changed.Equal(&a) {
			t.Errorf("with another %s it is equal", field)
		}
	}
}

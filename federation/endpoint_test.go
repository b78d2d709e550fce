package federation

import (
	"net/netip"
	"reflect"
	"testing"
)

// TestEndpointEqual checks that endpoints are equal only if all fields are. A change of a field
// that Equal ignores would never reach clients that already have the endpoint.
func TestEndpointEqual(t *testing.T) {
	endpoint := func() Endpoint {
		return Endpoint{
			Addr:   netip.MustParseAddrPort("10.0.0.1:80"),
			Common: &Common{Labels: []Label{{Name: "pod", Value: "p"}}},
		}
	}
	others := Endpoint{
		Addr:        netip.MustParseAddrPort("10.0.0.2:80"),
		Kind:        Pod,
		Cluster:     "east",
		Zone:        "a",
		Node:        "n",
		Hostname:    "h",
		Twin:        "t",
		Hints:       &Hints{ForZones: []string{"a"}},
		Common:      &Common{Labels: []Label{{Name: "pod", Value: "q"}}},
		Meshed:      true,
		Opaque:      true,
		InboundPort: 4143,
	}
	checkEqual(t, endpoint, others, (*Endpoint).Equal)
}

// TestCommonEqual checks that values of Common are equal only if all fields are. Nil equals the
// zero value.
func TestCommonEqual(t *testing.T) {
	common := func() Common { return Common{Labels: []Label{{Name: "pod", Value: "p"}}} }
	others := Common{
		Group: []Label{{Name: "service", Value: "web"}}, Labels: []Label{{Name: "pod", Value: "q"}},
		Identity: Identity{DNS: "x"}, Authority: "x",
	}
	checkEqual(t, common, others, (*Common).Equal)
	if none := (*Common)(nil); !none.Equal(new(Common)) || !new(Common).Equal(none) || none.Equal(&others) {
		t.Error("nil does not equal the zero value")
	}
}

// TestHintsEqual checks that values of Hints are equal only if all fields are. Nil equals the zero
// value.
func TestHintsEqual(t *testing.T) {
	hints := func() Hints { return Hints{ForZones: []string{"a"}} }
	checkEqual(t, hints, Hints{ForZones: []string{"b"}, ForNodes: []string{"n"}}, (*Hints).Equal)
	if none := (*Hints)(nil); !none.Equal(new(Hints)) || !new(Hints).Equal(none) {
		t.Error("nil does not equal the zero value")
	}
}

// checkEqual checks that values are equal only if all their fields are. Every field of others must
// differ.
func checkEqual[T any](t *testing.T, value func() T, others T, equal func(a, b *T) bool) {
	t.Helper()
	a, b := value(), value()
	if !equal(&a, &b) || !equal(&a, &a) {
		t.Error("equal values are not equal")
	}
	for i := range reflect.TypeFor[T]().NumField() {
		changed, field := value(), reflect.TypeFor[T]().Field(i).Name
		other := reflect.ValueOf(others).Field(i)
		if other.IsZero() {
			t.Fatalf("this test has no other value for %s", field)
		}
		reflect.ValueOf(&changed).Elem().Field(i).Set(other)
		if equal(&a, &changed) || equal(&changed, &a) {
			t.Errorf("values with different %s are equal", field)
		}
	}
}

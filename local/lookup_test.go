package local

import (
	"net/netip"
	"slices"
	"testing"

	"isthmus/clusterstore/cluster"
	"isthmus/federation"
)

// TestOwnerOf: what has an address, and the ports of a Service.
func TestOwnerOf(t *testing.T) {
	k := aShop()
	service, pod := netip.MustParseAddr("10.1.0.1"), netip.MustParseAddr("10.0.0.1")
	k.found[netip.AddrPortFrom(service, 0)] = cluster.Found{ID: shopWeb, Service: k.services[shopWeb]}
	k.owners = map[netip.Addr]string{service: "Service shop/web", pod: "Pod shop/web-1"}
	l := &Local{cluster: &scripted{known: k}}
	for ip, want := range map[netip.Addr]struct {
		owner   string
		service bool
	}{
		service: {"Service shop/web", true}, pod: {"Pod shop/web-1", false}, netip.MustParseAddr("10.9.9.9"): {},
	} {
		owner, id := l.OwnerOf(ip)
		if owner != want.owner || (id != nil) != want.service || id != nil && *id != shopWeb {
			t.Errorf("%v: %q, %v", ip, owner, id)
		}
	}
	if got := l.Ports(shopWeb); !slices.Equal(got, []uint16{80, 3306}) {
		t.Errorf("ports %v", got)
	}
	if got := l.Ports(federation.ServiceID{Namespace: "shop", Name: "none"}); got != nil {
		t.Errorf("ports of no Service: %v", got)
	}
}

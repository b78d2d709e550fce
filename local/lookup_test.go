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
	service := netip.MustParseAddr("10.1.0.1")
	pod := netip.MustParseAddr("10.0.0.1")
	several := netip.MustParseAddr("10.1.0.9")
	k.found[netip.AddrPortFrom(several, 0)] = cluster.Found{Claimed: "2 Services"}
	k.found[netip.AddrPortFrom(service, 0)] = cluster.Found{ID: shopWeb, Service: k.services[shopWeb]}
	k.owners = map[netip.Addr]string{service: "Service shop/web", pod: "Pod shop/web-1", several: "Service shop/web"}
	l := &Local{cluster: &scripted{known: k}}
	for ip, want := range map[netip.Addr]struct {
		owner   string
		service bool
		claimed string
	}{
		service:                         {owner: "Service shop/web", service: true},
		pod:                             {owner: "Pod shop/web-1"},
		several:                         {owner: "Service shop/web", claimed: "2 Services"},
		netip.MustParseAddr("10.9.9.9"): {},
	} {
		got := l.OwnerOf(ip)
		isService := got.Service != nil
		if got.Name != want.owner || got.Claimed != want.claimed || isService != want.service ||
			isService && *got.Service != shopWeb {
			t.Errorf("%v: %+v", ip, got)
		}
	}
	if got := l.Ports(shopWeb); !slices.Equal(got, []uint16{80, 3306}) {
		t.Errorf("ports %v", got)
	}
	if got := l.Ports(federation.ServiceID{Namespace: "shop", Name: "none"}); got != nil {
		t.Errorf("ports of no Service: %v", got)
	}
}

// TestServiceOfImport: only a Service with the mark and the label of a ServiceImport is that ServiceImport's.
func TestServiceOfImport(t *testing.T) {
	id := federation.ServiceID{Namespace: "shop", Name: "cart-clusterset"}
	const mark, as, label = "isthmus.io/written-by", "isthmus.io/written-as", "multicluster.kubernetes.io/service-name"
	written := map[string]string{as: "Service shop/cart-clusterset"}
	for name, test := range map[string]struct {
		service *cluster.Service
		want    bool
	}{
		"no Service": {},
		"written": {
			&cluster.Service{Labels: map[string]string{mark: "linkerd", label: "cart"}, Annotations: written}, true,
		},
		"somebody else's": {&cluster.Service{Labels: map[string]string{label: "cart"}, Annotations: written}, false},
		"of another import": {
			&cluster.Service{Labels: map[string]string{mark: "linkerd", label: "web"}, Annotations: written}, false,
		},
	} {
		k := aShop()
		if test.service != nil {
			k.services[id] = test.service
		}
		l := &Local{cluster: &scripted{known: k}}
		got, ok := l.ServiceOfImport(federation.ServiceID{Namespace: "shop", Name: "cart"})
		if ok != test.want || ok && got != id {
			t.Errorf("%s: %v %t", name, got, ok)
		}
	}
}

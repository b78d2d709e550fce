package client

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"isthmus/internal/adminapi"
)

// behindPage is a service of one cluster with so many Pods behind gateways, each with a verdict.
func behindPage(pods int, gateways ...string) adminapi.Explanation {
	p := adminapi.Explanation{Authority: "web:80", Defined: true, Federated: true, Verdicts: map[string]int{}}
	add := func(slice, address, verdict, replica string) {
		p.Verdicts[verdict]++
		p.Addresses = append(p.Addresses, adminapi.ExplainedAddress{Cluster: "north", Service: "shop/web", Slice: slice, Address: address, Verdict: verdict, Target: replica})
	}
	for i := range pods {
		add("shop/web-x", fmt.Sprintf("10.3.0.%d:8080", i), behindGateway, "Pod shop/web")
	}
	for i, verdict := range gateways {
		add("gateways", fmt.Sprintf("192.0.2.%d:4143", i), verdict, "")
	}
	for i := range p.Addresses {
		if len(gateways) == 0 {
			p.Addresses[i].Detail = "no address of a gateway is known"
		}
	}
	p.Members = []adminapi.ExplainedMember{{Cluster: "north", Service: "shop/web", State: "ready", Standing: "in-service", Ports: []uint16{4143, 8080}}}
	return p
}

// TestExplainGateways: what is behind gateways is counted, but not as if it were not reached.
func TestExplainGateways(t *testing.T) {
	for _, x := range []struct {
		name    string
		page    adminapi.Explanation
		address string
		want    []string
	}{
		{"two gateways", behindPage(4, served, served), "", []string{"web:80 (federated): 2 of 2 addresses served, and 4 behind gateways\n",
			"4143, 8080  2 of 2, 4 behind  -        -\n", "north    gateways    192.0.2.1:4143  served            gateway of north "}},
		{"one is dead", behindPage(1, served, "gateway-dead"), "", []string{": 1 of 2 addresses served, and 1 behind gateways\n", "1 of 2, 1 behind  -        -\n"}},
		{"no gateway", behindPage(4), "", []string{": 0 of 0 addresses served, and 4 behind gateways\n",
			"0 of 0, 4 behind  -        no address of a gateway is known: isthmus clusters shows why\n"}},
		{"many", behindPage(100, "gateway-dead", served), "", []string{"WHY\n  north    gateways    192.0.2.0:4143  gateway-dead ", "\n  north    gateways    192.0.2.1:4143  served ",
			"… and 62 more"}},
		{"one address", behindPage(1, served), "10.3.0.0", []string{": 1 of 2 addresses served\n"}},
	} {
		t.Run(x.name, func(t *testing.T) {
			s := &explainState{page: x.page, at: noon}
			if x.address != "" {
				s.address = netip.MustParseAddr(x.address)
			}
			headline, lines := s.table()
			text := headline + "\n" + string(lines)
			for _, want := range x.want {
				if !strings.Contains(text, want) {
					t.Errorf("no %q in:\n%s", want, text)
				}
			}
		})
	}
}

package main

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"time"

	"isthmus/e2e/harness"
	"isthmus/e2e/shop"
)

// gatewayPorts are the traffic ports of north's multicluster gateways. The demo sends no traffic.
var gatewayPorts = []uint16{4143, 4144}

// playedGateway simulates a multicluster gateway that responds to probes.
type playedGateway struct {
	service shop.LinkerdGateway
	*harness.LinkerdGateway
}

// networks is the act about a cluster on another network. West can reach north's multicluster
// gateways, but not its Pods.
type networks struct {
	*demo
	gateways []*playedGateway // north's multicluster gateways
}

func (n *networks) play(ctx context.Context) error {
	n.screen.print(
		"\nThe same proxy, while north is on another network, so that its two gateways replace its Pods:\n\n")
	n.screen.head()
	if err := n.playGateways(ctx); err != nil {
		return err
	}
	both := []int{0, 1}
	return n.steps(ctx, []step{
		{
			"annotate north's link with its network",
			n.annotateNorth("isthmus.io/network", "far", "", func(context.Context) error {
				n.expectGateways(both...)
				return nil
			}),
		},
		{
			"scale north from 4 to 1",
			n.scaleNorth(1, "Isthmus serves the gateways while one endpoint behind them is ready", both...),
		},
		{"scale north from 1 to 0", n.scaleNorth(0, "")},
		{"scale north from 0 to 1", n.scaleNorth(1, "", both...)},
		{"scale north from 1 to 4", n.scaleNorth(4, "", both...)},
		{"the first gateway fails its probes", n.gatewaysAlive("", 1)},
		{
			"the other one fails too",
			n.gatewaysAlive("while web has other endpoints, Isthmus does not use a cluster without a live gateway"),
		},
		{"both answer again", n.gatewaysAlive("", both...)},
		{
			"take the network away",
			n.annotateNorth(
				"isthmus.io/network",
				"",
				"",
				func(ctx context.Context) error { return n.expectPods(ctx, north) },
			),
		},
	})
}

func (n *networks) playGateways(ctx context.Context) error {
	var list []shop.LinkerdGateway
	for i, port := range gatewayPorts {
		g, err := harness.StartLinkerdGateway("127.0.0.1:0", http.StatusOK)
		if err != nil {
			return fmt.Errorf("a gateway of north: %w", err)
		}
		n.later(func() error { g.Close(); return nil })
		list = append(list, shop.LinkerdGateway{
			Name: fmt.Sprintf(
				"linkerd-gateway-%d",
				i+1,
			), Addr: netip.AddrPortFrom(g.Addr().Addr(), port), Probe: g.Addr().Port(),
		})
		n.gateways = append(n.gateways, &playedGateway{list[i], g})
	}
	return n.shops[north].Gateways(ctx, list...)
}

// expectGateways makes these gateways the expected endpoints in north.
func (n *networks) expectGateways(numbers ...int) {
	delete(n.want, north)
	for _, i := range numbers {
		n.want[north] = append(n.want[north], n.gateways[i].service.Addr)
	}
}

// scaleNorth returns a deed that scales the Pods behind north's gateways. The proxy must then see
// the given gateways.
func (n *networks) scaleNorth(to int, note string, seen ...int) deed {
	return func(ctx context.Context) (changed time.Time, _ string, err error) {
		before := len(n.want[north])
		changed, err = n.shops[north].Scale(ctx, "web", to)
		if n.expectGateways(seen...); len(seen) == before {
			changed = time.Time{}
		}
		return changed, note, err
	}
}

// gatewaysAlive returns a deed after which only these gateways respond to probes.
func (n *networks) gatewaysAlive(note string, numbers ...int) deed {
	return func(context.Context) (time.Time, string, error) {
		for i, g := range n.gateways {
			g.Live(slices.Contains(numbers, i))
		}
		n.expectGateways(numbers...)
		return time.Now(), note, nil
	}
}

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
func (d *demo) networks(ctx context.Context) error {
	if !d.options.networks {
		return nil
	}
	d.screen.print(
		"\nThe same proxy, while north is on another network, so that its two gateways replace its Pods:\n\n")
	d.screen.head()
	if err := d.playGateways(ctx); err != nil {
		return err
	}
	both := []int{0, 1}
	return d.steps(ctx, []step{
		{
			"annotate north's link with its network",
			d.annotateNorth("isthmus.io/network", "far", "", func(context.Context) error {
				d.expectGateways(both...)
				return nil
			}),
		},
		{
			"scale north from 4 to 1",
			d.scaleNorth(1, "Isthmus serves the gateways while one endpoint behind them is ready", both...),
		},
		{"scale north from 1 to 0", d.scaleNorth(0, "")},
		{"scale north from 0 to 1", d.scaleNorth(1, "", both...)},
		{"scale north from 1 to 4", d.scaleNorth(4, "", both...)},
		{"the first gateway fails its probes", d.gatewaysAlive("", 1)},
		{
			"the other one fails too",
			d.gatewaysAlive("while web has other endpoints, Isthmus does not use a cluster without a live gateway"),
		},
		{"both answer again", d.gatewaysAlive("", both...)},
		{
			"take the network away",
			d.annotateNorth(
				"isthmus.io/network",
				"",
				"",
				func(ctx context.Context) error { return d.expectPods(ctx, north) },
			),
		},
	})
}

func (d *demo) playGateways(ctx context.Context) error {
	var list []shop.LinkerdGateway
	for i, port := range gatewayPorts {
		g, err := harness.StartLinkerdGateway("127.0.0.1:0", http.StatusOK)
		if err != nil {
			return fmt.Errorf("a gateway of north: %w", err)
		}
		d.later(func() error { g.Close(); return nil })
		list = append(list, shop.LinkerdGateway{
			Name: fmt.Sprintf(
				"linkerd-gateway-%d",
				i+1,
			), Addr: netip.AddrPortFrom(g.Addr().Addr(), port), Probe: g.Addr().Port(),
		})
		d.gateways = append(d.gateways, &playedGateway{list[i], g})
	}
	return d.shops[north].Gateways(ctx, list...)
}

// expectGateways makes these gateways the expected endpoints in north.
func (d *demo) expectGateways(numbers ...int) {
	delete(d.want, north)
	for _, i := range numbers {
		d.want[north] = append(d.want[north], d.gateways[i].service.Addr)
	}
}

// scaleNorth returns a deed that scales the Pods behind north's gateways. The proxy must then see
// the given gateways.
func (d *demo) scaleNorth(to int, note string, seen ...int) deed {
	return func(ctx context.Context) (changed time.Time, _ string, err error) {
		before := len(d.want[north])
		changed, err = d.shops[north].Scale(ctx, "web", to)
		if d.expectGateways(seen...); len(seen) == before {
			changed = time.Time{}
		}
		return changed, note, err
	}
}

// gatewaysAlive returns a deed after which only these gateways respond to probes.
func (d *demo) gatewaysAlive(note string, numbers ...int) deed {
	return func(context.Context) (time.Time, string, error) {
		for i, g := range d.gateways {
			g.Live(slices.Contains(numbers, i))
		}
		d.expectGateways(numbers...)
		return time.Now(), note, nil
	}
}

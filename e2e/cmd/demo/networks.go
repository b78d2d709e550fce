package main

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"time"

	"isthmus/e2e/probed"
	"isthmus/e2e/shop"
)

// gatewayPorts are those that north's gateways have for traffic, which nothing here sends.
var gatewayPorts = []uint16{4143, 4144}

// playedGateway is a Linkerd gateway as far as its probe: an HTTP server of the demo.
type playedGateway struct {
	shop.LinkerdGateway
	*probed.Gateway
}

// networks is the act about a cluster on another network: north's Pods can no longer be reached from west, its
// gateways can.
func (d *demo) networks(ctx context.Context) error {
	if !d.options.networks {
		return nil
	}
	d.screen.print("\nThe same stream, while north is on another network and its two gateways stand for its Pods:\n\n")
	d.screen.head()
	if err := d.playGateways(ctx); err != nil {
		return err
	}
	both := []int{0, 1}
	for _, s := range []step{
		{"annotate north's link with its network", d.northBehind, d.newBeforeGone},
		{"scale north from 4 to 1", d.scaleNorth(1, both...), note("the gateways are served while one endpoint behind them is ready")},
		{"scale north from 1 to 0", d.scaleNorth(0), d.oneMessage},
		{"scale north from 0 to 1", d.scaleNorth(1, both...), d.oneMessage},
		{"scale north from 1 to 4", d.scaleNorth(4, both...), nil},
		{"the first gateway fails its probes", d.gatewaysAlive(1), d.oneMessage},
		{"the other one fails too", d.gatewaysAlive(), d.oneMessage},
		{"both answer again", d.gatewaysAlive(both...), nil},
		{"take the network away", d.northFlat, d.newBeforeGone},
	} {
		if err := d.step(ctx, s); err != nil {
			return d.explain(s.title, err)
		}
	}
	return nil
}

// playGateways starts north's gateways and writes their Services.
func (d *demo) playGateways(ctx context.Context) error {
	var list []shop.LinkerdGateway
	for i, port := range gatewayPorts {
		g, err := probed.Start("127.0.0.1:0", http.StatusOK)
		if err != nil {
			return fmt.Errorf("a gateway of north: %w", err)
		}
		d.later(func() error { g.Close(); return nil })
		list = append(list, shop.LinkerdGateway{
			Name: fmt.Sprintf("linkerd-gateway-%d", i+1), Addr: netip.AddrPortFrom(g.Addr().Addr(), port), Probe: g.Addr().Port(),
		})
		d.gateways = append(d.gateways, &playedGateway{list[i], g})
	}
	return d.shops[north].Gateways(ctx, list...)
}

// expectGateways has the proxy see these of north's gateways in place of its Pods.
func (d *demo) expectGateways(numbers ...int) {
	delete(d.want, north)
	for _, i := range numbers {
		d.want[north] = append(d.want[north], d.gateways[i].LinkerdGateway.Addr)
	}
}

func (d *demo) northBehind(ctx context.Context) (changed time.Time, note string, err error) {
	d.expectGateways(0, 1)
	changed, err = d.shops[west].AnnotateLink(ctx, north, map[string]string{"isthmus.io/network": "far"})
	return changed, "", err
}

func (d *demo) northFlat(ctx context.Context) (changed time.Time, note string, err error) {
	if err := d.expectPods(ctx, north); err != nil {
		return changed, "", err
	}
	changed, err = d.shops[west].AnnotateLink(ctx, north, map[string]string{"isthmus.io/network": ""})
	return changed, "", err
}

// scaleNorth leaves so many Pods behind the gateways, with which the proxy sees these of them.
func (d *demo) scaleNorth(to int, seen ...int) func(context.Context) (time.Time, string, error) {
	return func(ctx context.Context) (changed time.Time, note string, err error) {
		before := len(d.want[north])
		changed, err = d.shops[north].Scale(ctx, "web", to)
		if d.expectGateways(seen...); err == nil && len(seen) == before {
			return time.Time{}, "", nil
		}
		return changed, "", err
	}
}

// gatewaysAlive lets only these gateways answer.
func (d *demo) gatewaysAlive(numbers ...int) func(context.Context) (time.Time, string, error) {
	return func(context.Context) (time.Time, string, error) {
		for i, g := range d.gateways {
			g.Live(slices.Contains(numbers, i))
		}
		d.expectGateways(numbers...)
		note := ""
		if len(numbers) == 0 {
			note = "while web has other endpoints, a cluster none of whose gateways answers is not used"
		}
		return time.Now(), note, nil
	}
}

// note is a check that adds something to the row, and checks nothing more.
func note(text string) func(change) (string, error) {
	return func(change) (string, error) { return text, nil }
}

// newBeforeGone checks that what takes north's place was there, in one message, before anything of it left.
func (d *demo) newBeforeGone(c change) (note string, err error) {
	joined, err := c.together(c.to[north])
	if err != nil {
		return "", err
	}
	if left := c.countBefore(joined, c.from[north]); left < len(c.from[north]) {
		return "", fmt.Errorf("of %d endpoints of north the proxy had %d when the others came by %s", len(c.from[north]), left, joined)
	}
	return "", nil
}

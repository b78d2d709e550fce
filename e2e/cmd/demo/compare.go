package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"os/exec"
	"slices"

	"isthmus/e2e/proxy"
	"isthmus/internal/adminapi"
)

// compare checks the final state with other tools.
func (d *demo) compare(ctx context.Context) error {
	d.screen.print("\n")
	err := d.parts(ctx, []part{
		{"a new proxy receives the same endpoints in one message", d.newProxy},
		{"isthmus get shows the same endpoints", d.byGet},
		{"cart-east, a remote-discovery mirror, has the Pods in east", d.mirror},
	})
	if err != nil {
		return err
	}
	status := d.stream.Snapshot().Status
	d.screen.print("  %-61s %10d\n", "messages to the first proxy, all of them valid", status.Messages)
	return nil
}

func (d *demo) newProxy(ctx context.Context) error { return d.firstOf(ctx, federated, d.want) }

func (d *demo) mirror(ctx context.Context) error {
	addrs, err := d.shops[east].Ready(ctx, "cart")
	if err != nil {
		return err
	}
	return d.firstOf(ctx, mirror, endpoints{east: addrs})
}

// firstOf opens a stream and checks that its first message contains all endpoints.
func (d *demo) firstOf(ctx context.Context, authority string, want endpoints) error {
	stream, closes, err := d.subscribe(ctx, proxy.Get, authority)
	if err != nil {
		return err
	}
	defer closes()
	if _, err := await(ctx, stream, want, proxy.FirstMessageLimit); err != nil {
		return fmt.Errorf("%s: %w", authority, err)
	}
	if snap := stream.Snapshot(); snap.Messages != 1 {
		return fmt.Errorf("%s: it took %d messages: %v", authority, snap.Messages, stream.Recent())
	}
	return nil
}

func (d *demo) byGet(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, seenLimit)
	defer cancel()
	out, err := exec.CommandContext(
		ctx,
		d.isthmus,
		"get",
		federated,
		"--addr",
		d.gateway.Addr(),
		"--once",
		"-o",
		"json",
	).
		Output()
	if err != nil {
		return fmt.Errorf("isthmus get: %w", err)
	}
	var printed adminapi.GetOutput
	if err := json.Unmarshal(out, &printed); err != nil {
		return fmt.Errorf("isthmus get: %w", err)
	}
	var addrs []netip.AddrPort
	for _, e := range printed.Endpoints {
		addrs = append(addrs, e.Address)
	}
	return d.same("isthmus get", addrs)
}

func (d *demo) same(who string, addrs []netip.AddrPort) error {
	slices.SortFunc(addrs, netip.AddrPort.Compare)
	if want := d.want.all(); !slices.Equal(addrs, want) {
		return fmt.Errorf("%s shows %v, not %v", who, addrs, want)
	}
	return nil
}

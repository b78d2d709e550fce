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

// compare is the act that checks the final state with other tools.
type compare struct{ *demo }

func (c compare) play(ctx context.Context) error {
	c.screen.print("\n")
	err := c.parts(ctx, []part{
		{"a new proxy receives the same endpoints in one message", c.newProxy},
		{"isthmus get shows the same endpoints", c.byGet},
		{"cart-east, a remote-discovery mirror, has the Pods in east", c.mirror},
	})
	if err != nil {
		return err
	}
	status := c.stream.Snapshot().Status
	c.screen.print("  %-61s %10d\n", "messages to the first proxy, all of them valid", status.Messages)
	return nil
}

func (c compare) newProxy(ctx context.Context) error { return c.firstOf(ctx, federated, c.want) }

func (c compare) mirror(ctx context.Context) error {
	addrs, err := c.shops[east].Ready(ctx, "cart")
	if err != nil {
		return err
	}
	return c.firstOf(ctx, mirror, endpoints{east: addrs})
}

// firstOf opens a stream and checks that its first message contains all endpoints.
func (c compare) firstOf(ctx context.Context, authority string, want endpoints) error {
	stream, closes, err := c.subscribe(ctx, proxy.Get, authority)
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

func (c compare) byGet(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, seenLimit)
	defer cancel()
	out, err := exec.CommandContext(
		ctx,
		c.isthmus,
		"get",
		federated,
		"--addr",
		c.gateway.Addr(),
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
	return c.same("isthmus get", addrs)
}

func (c compare) same(who string, addrs []netip.AddrPort) error {
	slices.SortFunc(addrs, netip.AddrPort.Compare)
	if want := c.want.all(); !slices.Equal(addrs, want) {
		return fmt.Errorf("%s shows %v, not %v", who, addrs, want)
	}
	return nil
}

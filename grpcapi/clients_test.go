package grpcapi

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	"isthmus/grpcapi/internal/wiretest"
)

// TestMayExceed: who may have more when there is no more memory.
func TestMayExceed(t *testing.T) {
	const limit = 100
	a, b, c := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("fd00::3")
	for _, x := range []struct {
		name string
		has  map[netip.Addr]int64
		may  []netip.Addr
	}{
		{"the only one", map[netip.Addr]int64{a: 101}, nil},
		{"one of two", map[netip.Addr]int64{a: 100, b: 1}, []netip.Addr{b}},
		{"equal ones", map[netip.Addr]int64{a: 50, b: 50}, nil},
		{"less than the average", map[netip.Addr]int64{a: 60, b: 20, c: 30}, []netip.Addr{b, c}},
		{"the average", map[netip.Addr]int64{a: 60, b: 10, c: 35}, []netip.Addr{b}},
		{"less than the average, but not than an equal part of the limit", map[netip.Addr]int64{a: 100, b: 10, c: 34}, []netip.Addr{b}},
		{"half more than the limit", map[netip.Addr]int64{a: 140, b: 10}, []netip.Addr{b}},
		{"even more", map[netip.Addr]int64{a: 141, b: 10}, nil},
	} {
		t.Run(x.name, func(t *testing.T) {
			var all clients
			for client, bytes := range x.has {
				all.add(client, bytes)
			}
			var may []netip.Addr
			for _, client := range []netip.Addr{a, b, c} {
				if x.has[client] > 0 && all.mayExceed(client, limit) {
					may = append(may, client)
				}
			}
			if fmt.Sprint(may) != fmt.Sprint(x.may) {
				t.Errorf("%v may exceed the limit, want %v", may, x.may)
			}
			for client, bytes := range x.has {
				all.add(client, -bytes)
			}
			if all.all != 0 || len(all.by) != 0 {
				t.Errorf("%d bytes of %d clients are left", all.all, len(all.by))
			}
		})
	}
}

// TestAdmit: calls count with their headers. Beyond the budget the client with most calls
// is refused, and another is not. Idle views make room, and views never take more of the
// budget than calls leave, except for half of it.
func TestAdmit(t *testing.T) {
	const cost = callBytes + headerBytes + 1000
	large := &tap.Info{FullMethodName: "/m", Header: metadata.MD{strings.Repeat("k", 200): {strings.Repeat("v", 800)}}}
	a, b := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	w := newWorld(t, Options{ViewBytes: 10 * cost})
	budget := w.server.budget
	var open []context.Context
	try := func(client netip.Addr, want bool) {
		t.Helper()
		ctx, taken, err := budget.admit(t.Context(), client, large)
		if (err == nil) != want || err != nil && status.Code(err) != codes.ResourceExhausted {
			t.Fatalf("a call of %v with %d bytes in use: %v", client, budget.used.Load(), err)
		}
		if err == nil {
			open = append(open, budget.keep(ctx, taken))
		}
	}
	for range 10 {
		try(a, true)
	}
	if got := budget.used.Load(); got != 10*cost {
		t.Errorf("ten calls take %d bytes, want %d", got, 10*cost)
	}
	try(a, false)
	try(b, true)
	try(a, false)
	if got := budget.used.Load(); got != 11*cost {
		t.Errorf("eleven calls take %d bytes, want %d", got, 11*cost)
	}
	runtime.KeepAlive(open)
	open = nil
	wiretest.Until(t, "nothing is left of the calls", func() bool { runtime.GC(); return budget.used.Load() == 0 })

	budget.used.Add(20 * cost) // views
	for range 5 {
		try(a, true)
	}
	try(a, false)
	budget.idle.Add(16 * cost)
	try(a, true)
	try(a, false)
	runtime.KeepAlive(open)
	budget.idle.Add(-16 * cost)
	budget.used.Add(-20 * cost)
}

// TestCallsThatAreOver: memory of calls that are over is had again by the time that it is
// needed, also if there is no other reason for a collection.
func TestCallsThatAreOver(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	b, client := newWorld(t, Options{ViewBytes: 10 * callBytes}).server.budget, netip.MustParseAddr("10.0.0.1")
	for range 10 {
		ctx, taken, err := b.admit(t.Context(), client, &tap.Info{})
		if err != nil {
			t.Fatal(err)
		}
		b.keep(ctx, taken)
	}
	if _, _, err := b.admit(t.Context(), client, &tap.Info{}); err == nil {
		t.Fatal("one call more is not refused")
	}
	wiretest.Until(t, "nothing is in use", func() bool { return b.used.Load() == 0 })
}

// TestTooLargeHeaders: a call with larger headers is refused before the server sees it.
func TestTooLargeHeaders(t *testing.T) {
	w := newWorld(t, Options{})
	c := newBareClient(t, listening(t, w.server.GRPC()))
	c.more = [][2]string{{"large", strings.Repeat("x", maxHeaders)}}
	if err := c.call(healthpb.Health_Check_FullMethodName, &healthpb.HealthCheckRequest{}); err != nil {
		t.Fatal(err)
	}
	if got := c.ended(t, 1); got["FRAME_SIZE_ERROR"] != 1 {
		t.Errorf("it ends with %v", got)
	}
}

// TestRefusedInTime: a call with a deadline is refused once gRPC has begun it, and for that does
// not wait for its request. If its tap refused it, gRPC would keep the timer until the deadline.
func TestRefusedInTime(t *testing.T) {
	w := newWorld(t, Options{ViewBytes: 1})
	timed, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	for name, at := range map[string]context.Context{"no deadline": t.Context(), "deadline": timed} {
		w.server.budget.calls.Store(0)
		ctx, _, err := w.server.budget.admit(at, netip.MustParseAddr("10.0.0.1"), &tap.Info{})
		if late := refusal(ctx); status.Code(cmp.Or(err, late)) != codes.ResourceExhausted || (err == nil) != (at == timed) {
			t.Errorf("%s: refused with %v by the tap, %v in the call", name, err, late)
		}
		if due, ok := ctx.Deadline(); ok && time.Until(due) > refusedWithin {
			t.Errorf("%s: it waits until %v", name, due)
		}
		if used := w.server.budget.used.Load(); used != 0 {
			t.Errorf("%s: it takes %d bytes", name, used)
		}
	}
}

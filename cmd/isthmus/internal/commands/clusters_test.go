package commands

import (
	"context"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"isthmus/cmd/isthmus/internal/cli"
	"isthmus/cmd/isthmus/internal/cmdtest"
	"isthmus/cmd/isthmus/internal/reach"
)

// TestColors checks the colors of a replica's words, which do not count for the width of a
// column.
func TestColors(t *testing.T) {
	c, err := contentOf("clusters", firstPage(t, "clusters"), "", netip.Addr{})
	if err != nil {
		t.Fatal(err)
	}
	_, painted := c.table()
	for _, want := range []string{"\x1b[32mready\x1b[0m     3h", "\x1b[31mstale\x1b[0m     90s",
		"\x1b[33mwithdrawn\x1b[0m   -"} {
		if !strings.Contains(string(painted), want) {
			t.Errorf("%q is missing in\n%s", want, painted)
		}
	}
}

// TestClustersWatch checks that --watch prints a line for each lasting change, continues during an
// outage, and ends on a signal.
func TestClustersWatch(t *testing.T) {
	var reads atomic.Int64
	var page atomic.Pointer[string]
	clustersJSON := firstPage(t, "clusters")
	set := func(s string) { page.Store(&s) }
	set(clustersJSON)
	var away atomic.Bool
	admin := startAdmin(t, map[string]http.HandlerFunc{"/debug/clusters": func(w http.ResponseWriter, r *http.Request) {
		if away.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		reads.Add(1)
		answer(*page.Load())(w, r)
	}})
	o := &clustersOptions{Target: Target{Options: reach.Options{Address: admin}, Timeout: time.Minute,
		output: "json"}, watch: true, every: time.Millisecond}
	out, errs, end := cmdtest.NewOutput(), cmdtest.NewOutput(), make(chan error)
	ctx, signal := context.WithCancel(t.Context())
	go func() { end <- runClusters(ctx, cli.Process{Name: "isthmus clusters", Stdout: out, Stderr: errs}, o) }()
	out.Await(t, `"state":"stale"`)
	later := strings.ReplaceAll(clustersJSON, `"lastEvent": "2026-09-01T11:58:00Z"`,
		`"lastEvent": "2026-09-01T11:59:00Z"`)
	later = strings.ReplaceAll(later, `"objects": 7`, `"objects": 8, "throttledUntil": "2026-09-01T12:00:05Z"`)
	set(later)
	for n := reads.Load(); reads.Load() < n+3; {
		time.Sleep(time.Millisecond)
	}
	away.Store(true)
	errs.Await(t, "is busy: -\n  Trying again.\n")
	away.Store(false)
	set(strings.ReplaceAll(later, `"state": "stale"`, `"state": "ready"`))
	lines := out.Await(t, `"secret":"cluster-credentials-east","state":"ready"`)
	if n := strings.Count(lines, "\n"); n != 2 {
		t.Errorf("%d lines:\n%s", n, lines)
	}
	signal()
	if err := <-end; err != nil {
		t.Error(err)
	}
}

package client

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"isthmus/cmd/isthmus/internal/cli"
	"isthmus/cmd/isthmus/internal/cli/clitest"
	"isthmus/internal/adminapi"
)

var clustersJSON = `{
  "local": {"cluster": "local", "state": "ready", "since": ` + before(3*time.Hour) + `, "lastEvent": ` + before(2*time.Second) + `,
    "standing": "in-service", "region": "eu-west",
    "resources": [{"resource": "services", "needed": true, "synced": true, "objects": 120}, {"resource": "endpoints", "objects": 118},
      {"resource": "pods", "synced": true, "objects": 950}, {"resource": "servers", "err": "forbidden", "trouble": "it ends watches at once"}]},
  "linkSecrets": {"listed": true, "reason": "no route to host"},
  "clusters": [
    {"cluster": "east", "secret": "cluster-credentials-east", "state": "stale", "since": ` + before(90*time.Second) + `, "lastEvent": ` + before(2*time.Minute) + `,
      "reason": "dial tcp: connection refused", "memory": {"used": 53687091, "limit": 67108864}, "standing": "withdrawn", "standingReason": "cordoned", "warnings": ["the Secret expires"],
      "resources": [{"resource": "services", "objects": 7, "err": "dial tcp: connection refused"}]},
    {"secret": "odd", "state": "rejected", "since": ` + before(0) + `, "reason": "no label"}],
  "unservedMembers": [{"service": "shop/all", "cluster": "east", "member": "shop/web", "reason": "no such Service"}],
  "refusedEndpoints": [{"cluster": "east", "outsideRanges": 2, "localAddresses": 1, "examples": ["10.0.0.1:80 is outside"]}],
  "problems": [{"service": "shop/web", "problems": ["a", "b"]}],
  "endpointSliceWriter": {"leaseError": "forbidden", "error": "conflict", "unread": {"pods": "gone"}, "problems": [{"service": "shop/vm", "problems": ["no port"]}]}
}`

const clustersTable = `12:00:00.000  ADMIN: 2 links (1 rejected, 1 stale)
  CLUSTER  STATE     SINCE  STANDING    REGION   SERVICES  SLICES  PODS  MEMORY  LAST EVENT  WHY NOT
  local    ready     3h     in-service  eu-west  120       118     950   -       2s          -
  east     stale     90s    withdrawn   -        7         -       -     79 %    2m          dial tcp: connection refused; cordoned
  -        rejected  0s     -           -        -         -       -     -       -           Secret odd; no label
Problems of clusters:
  link Secrets can't be read: no route to host
  local: servers: forbidden
  local: servers: it ends watches at once
  east: the Secret expires
  east: 3 endpoints refused: 2 outside of its address ranges, 1 at addresses of the local cluster, such as 10.0.0.1:80 is outside
Problems of services:
  shop/web: a
  shop/web: b
Members that are not served:
  shop/all: shop/web of east: no such Service
Problems of EndpointSlices for ExternalWorkloads:
  the Lease can't be used: forbidden
  conflict
  pods can't be read: gone
  shop/vm: no port
`

// TestClustersTable: what is there of a page with everything that can be wrong.
func TestClustersTable(t *testing.T) {
	admin := startAdmin(t, map[string]http.HandlerFunc{"/debug/clusters": text(clustersJSON)})
	code, out, err := call("clusters", "--admin", admin)
	if want := shown(clustersTable, admin); code != 0 || err != "" || out != want {
		t.Errorf("exit code %d, stderr %q, stdout:\n%s\nwant:\n%s", code, err, out, want)
	}
	admin = startAdmin(t, map[string]http.HandlerFunc{"/debug/clusters": text(`{"local": {"cluster": "local", "state": "pending"}, "linkSecrets": {}}`)})
	code, out, err = call("clusters", "--admin", admin)
	if want := shown(`12:00:00.000  ADMIN: no links
  CLUSTER  STATE    SINCE  STANDING  REGION  SERVICES  SLICES  PODS  MEMORY  LAST EVENT  WHY NOT
  local    pending  -      -         -       -         -       -     -       -           -
Problems of clusters:
  link Secrets have not been listed yet
`, admin); code != 0 || err != "" || out != want {
		t.Errorf("exit code %d, stderr %q, stdout:\n%s\nwant:\n%s", code, err, out, want)
	}
}

// TestClustersColours: colours change nothing but colours.
func TestClustersColours(t *testing.T) {
	s := clustersState{at: noon, colours: true}
	if err := json.Unmarshal([]byte(clustersJSON), &s.page); err != nil {
		t.Fatal(err)
	}
	_, painted := s.table()
	s.colours = false
	_, without := s.table()
	for _, want := range []string{"\x1b[32mready\x1b[0m     3h", "\x1b[31mstale\x1b[0m     90s", "\x1b[33mwithdrawn\x1b[0m   -"} {
		if !strings.Contains(string(painted), want) {
			t.Errorf("no %q in\n%s", want, painted)
		}
	}
	clean := strings.NewReplacer(string(red), "", string(green), "", string(yellow), "", "\x1b[0m", "").Replace(string(painted))
	if clean != string(without) || strings.Contains(string(without), "\x1b") {
		t.Errorf("%q, want %q", clean, without)
	}
}

// TestMemoryShare: a cluster near the end of its budget stands out, and one without a budget has none.
func TestMemoryShare(t *testing.T) {
	for text, m := range map[string]adminapi.Memory{
		"": {}, "0 %": {Used: 1, Limit: 64 << 20}, "79 %": {Used: 799, Limit: 1000}, "80 %": {Used: 800, Limit: 1000}, "100 %": {Used: 1 << 62, Limit: 1 << 62},
	} {
		if want := map[bool]colour{false: plain, true: yellow}[m.Used >= 800]; memoryShare(m) != text || memoryColour(m) != want {
			t.Errorf("%+v: %q in %q", m, memoryShare(m), memoryColour(m))
		}
	}
}

// TestClustersLong: a list that nobody asked for by name is short.
func TestClustersLong(t *testing.T) {
	s := clustersState{page: adminapi.Clusters{Unserved: make([]adminapi.Unserved, 50)}}
	_, lines := s.table()
	if n := bytes.Count(lines, []byte("\n")); n != 2+2+1+maxLines+1 || !strings.HasSuffix(string(lines), "  … and 30 more: -o json has all\n") {
		t.Errorf("%d lines:\n%s", n, lines)
	}
}

// TestClustersWatch: a line for each change of what lasts, through an outage, until a signal.
func TestClustersWatch(t *testing.T) {
	var reads atomic.Int64
	var page atomic.Pointer[string]
	set := func(s string) { page.Store(&s) }
	set(clustersJSON)
	var away atomic.Bool
	admin := startAdmin(t, map[string]http.HandlerFunc{"/debug/clusters": func(w http.ResponseWriter, r *http.Request) {
		if away.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		reads.Add(1)
		text(*page.Load())(w, r)
	}})
	o := &clustersOptions{Target: Target{Address: admin, Timeout: time.Minute, output: "json"}, watch: true, every: time.Millisecond}
	out, errs, end := clitest.NewOutput(), clitest.NewOutput(), make(chan error)
	ctx, signal := context.WithCancel(t.Context())
	go func() { end <- runClusters(ctx, cli.Process{Name: "isthmus clusters", Stdout: out, Stderr: errs}, o) }()
	out.Await(t, `"state":"stale"`)
	later := strings.ReplaceAll(clustersJSON, before(2*time.Minute), before(time.Minute))
	set(strings.ReplaceAll(later, `"objects": 7`, `"objects": 8`))
	for n := reads.Load(); reads.Load() < n+3; {
		time.Sleep(time.Millisecond)
	}
	away.Store(true)
	errs.Await(t, "is busy: -\n  Trying again, for 1m0s at most.\n")
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

// TestClustersWatchEnds: a gateway that is away for longer than the timeout ends it.
func TestClustersWatchEnds(t *testing.T) {
	var reads atomic.Int64
	admin := startAdmin(t, map[string]http.HandlerFunc{"/debug/clusters": func(w http.ResponseWriter, r *http.Request) {
		if reads.Add(1) > 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		text(clustersJSON)(w, r)
	}})
	var out, errs bytes.Buffer
	o := &clustersOptions{Target: Target{Address: admin, Timeout: 2 * time.Second}, watch: true, every: time.Millisecond}
	err := runClusters(t.Context(), cli.Process{Name: "isthmus clusters", Stdout: &out, Stderr: &errs}, o)
	if err == nil || reads.Load() < 3 || strings.Count(errs.String(), "Trying again") != 1 || strings.Count(out.String(), "CLUSTER") != 1 {
		t.Errorf("%v after %d reads, stderr %q, stdout:\n%s", err, reads.Load(), errs.String(), out.String())
	}
}

// TestClustersGateways: gateways of clusters on other networks have a line each, and are in the
// JSON.
func TestClustersGateways(t *testing.T) {
	page := `{"local": {"cluster": "local", "state": "ready", "standing": "in-service"}, "linkSecrets": {"listed": true}, "clusters": [
 {"cluster": "east", "state": "ready", "standing": "in-service", "network": "far", "gateways": [
  {"address": "192.0.2.1:4143", "name": "lb.example", "identity": "gw.example", "state": "alive", "since": "2026-08-01T09:00:00Z"},
  {"address": "192.0.2.2:4143", "identity": "gw.example", "state": "dead", "since": "2026-08-01T11:58:30Z", "reason": "answers 503, \u001b[31mnot 200"}]}]}`
	admin := startAdmin(t, map[string]http.HandlerFunc{"/debug/clusters": text(page)})
	code, out, err := call("clusters", "--admin", admin)
	for _, want := range []string{"CLUSTER", "NETWORK", "lb.example", "192.0.2.2:4143  dead", "answers 503, "} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q", want)
		}
	}
	if code != 0 || err != "" || strings.Contains(out, "\x1b") {
		t.Errorf("exit code %d, stderr %q, stdout:\n%s", code, err, out)
	}
	_, out, _ = call("clusters", "--admin", admin, "-o", "json")
	for _, want := range []string{`"network":"far"`, `"address":"192.0.2.2:4143"`, `"state":"dead"`, `"name":"lb.example"`, `"identity":"gw.example"`, `"reason":"answers 503, `} {
		if !strings.Contains(out, want) {
			t.Errorf("no %s in %s", want, out)
		}
	}
}

package client

import (
	"bytes"
	"strings"
	"testing"

	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"

	"isthmus/internal/adminapi"
)

func TestGetTable(t *testing.T) {
	var state getState
	if err := state.apply(full()); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	s := &screen{w: &b, authority: "web.ns.svc.cluster.local:80"}
	if err := s.show(&state, noon); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(b.String(), "\n")
	for i, want := range []string{
		"12:00:00.000 web.ns.svc.cluster.local:80: 3 endpoints (east 1, local 2)",
		"ADDRESS CLUSTER ZONE TIER WEIGHT HINTS POD IDENTITY",
		"10.0.0.1:80 east west-1a (remote) - 10000 h2,via:4143,authority:web.east:80 web-1 web.id",
		"10.0.0.2:80 local - - 10000 - - -",
		"[fd00::1]:80 local overridden - 1 opaque vm-1 spiffe://vm",
	} {
		if got := strings.Join(strings.Fields(lines[i]), " "); got != want {
			t.Errorf("line %d: %q, want %q", i, got, want)
		}
	}
	if col := strings.Index(lines[1], "ZONE"); strings.Index(lines[2], "west-1a") != col || lines[3][col] != '-' {
		t.Errorf("not aligned:\n%s", b.String())
	}
}

// TestGetTiers: what a gateway explains has columns and fields of its own, and is no label
// that a proxy gets. Standings are shown if any cluster is taken out.
func TestGetTiers(t *testing.T) {
	explained := func(addr, tier, standing string) *pb.Update {
		u := add(addr)
		u.GetAdd().MetricLabels = map[string]string{"isthmus_standing": standing}
		u.GetAdd().GetAddrs()[0].MetricLabels = map[string]string{"isthmus_tier": tier}
		return u
	}
	var state getState
	show := func(u *pb.Update, asJSON bool) string {
		t.Helper()
		if err := state.apply(u); err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if err := (&screen{w: &b, asJSON: asJSON}).show(&state, noon); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	one := explained("10.0.0.1:80", "local", "in-service")
	if got := strings.Join(strings.Fields(show(one, false)), " "); !strings.Contains(got, "ADDRESS CLUSTER ZONE TIER WEIGHT HINTS POD IDENTITY 10.0.0.1:80 local - local 10000 ") {
		t.Errorf("in service: %s", got)
	}
	two := explained("10.1.0.1:80", "last-resort", "last-resort")
	if got := strings.Join(strings.Fields(show(two, false)), " "); !strings.Contains(got, "ADDRESS CLUSTER ZONE TIER STANDING WEIGHT HINTS POD IDENTITY 10.0.0.1:80 local - local in-service 10000 ") ||
		!strings.Contains(got, " 10.1.0.1:80 local - last-resort last-resort 10000 ") {
		t.Errorf("a cluster of last resort: %s", got)
	}
	if got := show(two, true); !strings.Contains(got, `{"address":"10.1.0.1:80","weight":10000,"tier":"last-resort","standing":"last-resort"}`) {
		t.Errorf("JSON: %s", got)
	}
}

func TestGetHeadlines(t *testing.T) {
	one := []adminapi.Endpoint{{}}
	for _, c := range []struct {
		exists bool
		list   []adminapi.Endpoint
		want   string
	}{
		{false, nil, "no endpoints: the service does not exist"},
		{true, nil, "no endpoints"},
		{true, one, "1 endpoint (local 1)"},
		{true, append(one, adminapi.Endpoint{Labels: map[string]string{"target_cluster": "east"}}), "2 endpoints (east 1, local 1)"},
	} {
		if got := headline(c.exists, c.list); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

func TestGetJSON(t *testing.T) {
	var state getState
	if err := state.apply(full()); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	s := &screen{w: &b, authority: "web:80", asJSON: true}
	if err := s.show(&state, noon); err != nil {
		t.Fatal(err)
	}
	want := `{"time":"2026-09-01T12:00:00Z","authority":"web:80","exists":true,"endpoints":[` +
		`{"address":"10.0.0.1:80","weight":10000,"labels":{"pod":"web-1","service":"web","target_cluster":"east","zone":"west-1a","zone_locality":"remote"},` +
		`"identity":{"dns":"web.id","serverName":"web.sni"},"protocol":"h2","inboundPort":4143,"authority":"web.east:80","http2":{"keepAlive":{"interval":"10s","whileIdle":true}}},` +
		`{"address":"10.0.0.2:80","weight":10000,"labels":{"service":"web","zone":"","zone_locality":"unknown"}},` +
		`{"address":"[fd00::1]:80","weight":1,"labels":{"external_workload":"vm-1","service":"web","zone":"overridden"},"identity":{"uri":"spiffe://vm"},"protocol":"opaque"}]}` + "\n"
	if b.String() != want {
		t.Errorf("got  %swant %s", b.String(), want)
	}
	// An empty set is an empty list, not null.
	b.Reset()
	if err := state.apply(none(true)); err != nil {
		t.Fatal(err)
	}
	if err := s.show(&state, noon); err != nil || !strings.Contains(b.String(), `"exists":true,"endpoints":[]}`) {
		t.Errorf("%v: %s", err, b.String())
	}
}

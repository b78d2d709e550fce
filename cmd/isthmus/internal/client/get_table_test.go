package client

import (
	"bytes"
	"strings"
	"testing"
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
		"ADDRESS CLUSTER ZONE WEIGHT HINTS POD IDENTITY",
		"10.0.0.1:80 east west-1a (remote) 10000 h2,via:4143,authority:web.east:80 web-1 web.id",
		"10.0.0.2:80 local - 10000 - - -",
		"[fd00::1]:80 local overridden 1 opaque vm-1 spiffe://vm",
	} {
		if got := strings.Join(strings.Fields(lines[i]), " "); got != want {
			t.Errorf("line %d: %q, want %q", i, got, want)
		}
	}
	if col := strings.Index(lines[1], "ZONE"); strings.Index(lines[2], "west-1a") != col || lines[3][col] != '-' {
		t.Errorf("not aligned:\n%s", b.String())
	}
}

func TestGetHeadlines(t *testing.T) {
	one := []endpoint{{}}
	for _, c := range []struct {
		exists bool
		list   []endpoint
		want   string
	}{
		{false, nil, "no endpoints: the service does not exist"},
		{true, nil, "no endpoints"},
		{true, one, "1 endpoint (local 1)"},
		{true, append(one, endpoint{Labels: map[string]string{"target_cluster": "east"}}), "2 endpoints (east 1, local 1)"},
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

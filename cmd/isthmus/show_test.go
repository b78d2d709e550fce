package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"
)

var noon = time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC)

func TestTable(t *testing.T) {
	var f fold
	if err := f.apply(full()); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	s := &screen{w: &b, authority: "web.ns.svc.cluster.local:80"}
	if err := s.show(&f, noon); err != nil {
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

func TestHeadlines(t *testing.T) {
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

func TestJSON(t *testing.T) {
	var f fold
	if err := f.apply(full()); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	s := &screen{w: &b, authority: "web:80", asJSON: true}
	if err := s.show(&f, noon); err != nil {
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
	if err := f.apply(none(true)); err != nil {
		t.Fatal(err)
	}
	if err := s.show(&f, noon); err != nil || !strings.Contains(b.String(), `"exists":true,"endpoints":[]}`) {
		t.Errorf("%v: %s", err, b.String())
	}
}

// TestShowOnlyNews: a state like the one before is not printed again.
func TestShowOnlyNews(t *testing.T) {
	for _, redraw := range []bool{false, true} {
		var b bytes.Buffer
		s := &screen{w: &b, authority: "web:80", redraw: redraw}
		var f fold
		prints := 0
		for _, u := range []struct {
			apply func() error
			news  bool
		}{
			{func() error { return f.apply(add("10.0.0.1:80")) }, true},
			{func() error { return f.apply(add("10.0.0.1:80")) }, false},
			{func() error { return f.apply(none(true)) }, true},
			{func() error { return f.apply(none(false)) }, true},
			{func() error { return f.apply(none(false)) }, false},
		} {
			b.Reset()
			if err := errors.Join(u.apply(), s.show(&f, noon.Add(time.Duration(prints)*time.Second))); err != nil {
				t.Fatal(err)
			}
			if got := b.Len() > 0; got != u.news {
				t.Errorf("printed %q, want news: %t", b.String(), u.news)
			}
			if u.news && strings.HasPrefix(b.String(), "\x1b[H\x1b[2J") != redraw {
				t.Errorf("redraw %t: %q", redraw, b.String())
			}
			prints++
		}
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("nobody reads") }

func TestShowFails(t *testing.T) {
	s := &screen{w: broken{}}
	if err := s.show(&fold{}, noon); err == nil || !strings.Contains(err.Error(), "nobody reads") {
		t.Errorf("error %v", err)
	}
}

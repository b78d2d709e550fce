//go:build linux

package main

import (
	"errors"
	"testing"
	"time"

	"isthmus/e2e/proxy"
)

// TestRowOf checks that a row only includes events in the window. The outage of a hanging replica
// must start when it stops responding.
func TestRowOf(t *testing.T) {
	at := func(seconds int) time.Time { return time.Unix(1000+int64(seconds), 0) }
	streams := map[string]Report{
		"pod Get web-federated.shop 0": {
			Fewest: 3,
			Openings: []proxy.Opening{
				{Addr: "a", First: at(-9)},
				{Addr: "b", Lost: at(-5), First: at(-1)},
				{Addr: "a", Lost: at(4), First: at(5)},
			},
		},
		"pod Get web.shop 0": {
			Fewest:   2,
			Openings: []proxy.Opening{{Addr: "a", First: at(-9)}, {Addr: "b", Lost: at(30), First: at(32)}},
		},
		"pod GetProfile web.shop 0": {Openings: []proxy.Opening{{Addr: "b", First: at(-9)}}},
	}
	got := rowOf("hangs", &window{began: at(0), note: "why", silent: at(2), address: "a"}, 40*time.Second, streams, nil)
	want := row{
		name:    "hangs",
		note:    "why",
		took:    40 * time.Second,
		streams: 3,
		moved:   2,
		median:  30 * time.Second,
		most:    30 * time.Second,
		short:   1,
	}
	if got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if r := rowOf("fails", &window{}, 0, nil, errors.New("no")); r.String() != "fails  0 s  0 of 0  -  -  0  FAILED" {
		t.Errorf("got %q", r)
	}
}

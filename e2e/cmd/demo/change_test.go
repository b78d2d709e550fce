package main

import (
	"strings"
	"testing"
	"time"

	"isthmus/e2e/proxy"
)

// message is one that came so long after the step began.
func message(number int64, after time.Duration, kind string, list ...string) proxy.Message {
	return proxy.Message{Number: number, At: stepBegan.Add(after), Kind: kind, Addrs: addrs(list...)}
}

var stepBegan = time.Now()

// TestChecks: each check of a step lets pass what should be, and nothing else.
func TestChecks(t *testing.T) {
	const w1, w2, w3, w4, e1, n1 = "10.1.0.1:80", "10.1.0.2:80", "10.1.0.3:80", "10.1.0.4:80", "10.2.0.1:80", "10.3.0.1:80"
	alone := endpoints{west: addrs(w1, w2, w3, w4)}
	all := endpoints{west: addrs(w1, w2, w3, w4), east: addrs(e1), north: addrs(n1)}
	few := endpoints{west: addrs(w1, w2), east: addrs(e1), north: addrs(n1)}
	d := &demo{}
	for name, test := range map[string]struct {
		check    func(change) (string, error)
		from, to endpoints
		messages []proxy.Message
		note     string
		err      string // a part of it; empty: none
	}{
		"joined": {d.joinedAtOnce, alone, few, []proxy.Message{
			message(1, 0, "remove", w3), message(2, 1, "add", e1, n1), message(3, 2, "remove", w4)}, "all 2 joined in one message, while west still had 3", ""},
		"joined late": {d.joinedAtOnce, alone, few, []proxy.Message{
			message(1, 0, "remove", w3, w4), message(2, 1, "add", e1, n1)}, "", "had 2 endpoints of west before the others joined"},
		"joined one by one": {d.joinedAtOnce, alone, few, []proxy.Message{
			message(1, 0, "add", e1), message(2, 1, "add", n1), message(3, 2, "remove", w3, w4)}, "", "not come or leave in one message, but in 2"},
		"joined by half": {d.joinedAtOnce, alone, few, []proxy.Message{message(1, 0, "add", e1)}, "", n1 + " was in 0 messages"},
		"joined and blinked": {d.joinedAtOnce, alone, few, []proxy.Message{
			message(1, 0, "add", e1, n1), message(2, 0, "remove", n1), message(3, 0, "add", n1)}, "", n1 + " was in 3 messages"},
		"joined by a message cut short": {d.joinedAtOnce, alone, few, []proxy.Message{
			{Number: 1, Kind: "add", Addrs: addrs(e1, n1), More: 1}}, "", "can't be looked at"},

		"left in parts": {d.leftInParts, all, alone, []proxy.Message{
			message(1, returnAfter, "remove", e1), message(2, returnAfter+time.Second, "remove", n1)}, "they left after 3.0 s, in 2 parts over 1.0 s", ""},
		"left at once": {d.leftInParts, all, alone, []proxy.Message{message(1, returnAfter, "remove", e1, n1)}, "", "all 2 endpoints left at once"},
		"left early": {d.leftInParts, all, alone, []proxy.Message{
			message(1, returnAfter-1, "remove", e1), message(2, returnAfter, "remove", n1)}, "", "left 2.999999999s after the step began"},
		"came instead": {d.leftInParts, all, alone, []proxy.Message{
			message(1, returnAfter, "add", e1), message(2, returnAfter, "remove", n1)}, "", "that were to leave came"},
		"emptied": {d.leftInParts, all, alone, []proxy.Message{
			message(1, returnAfter, "remove", e1), message(2, returnAfter, "no_endpoints(true)")}, "", "can't be looked at"},

		"lost":       {d.leftWhenLost, all, alone, []proxy.Message{message(1, lostAfter, "remove", e1, n1)}, "lost-after is 2s", ""},
		"lost early": {d.leftWhenLost, all, alone, []proxy.Message{message(1, lostAfter-1, "remove", e1, n1)}, "", "left 1.999999999s after its API server"},
		"lost in parts": {d.leftWhenLost, all, alone, []proxy.Message{
			message(1, lostAfter, "remove", e1), message(2, lostAfter, "remove", n1)}, "", "but in 2"},

		"one message":         {d.oneMessage, alone, all, []proxy.Message{message(1, 0, "add", e1, n1)}, "", ""},
		"more than one":       {d.oneMessage, alone, all, []proxy.Message{message(1, 0, "add", e1), message(2, 0, "add", n1)}, "", "but in 2"},
		"none, and a change":  {d.oneMessage, alone, all, nil, "", "was in 0 messages"},
		"none, and no change": {d.oneMessage, alone, alone, nil, "", "no endpoints came or left"},
	} {
		t.Run(name, func(t *testing.T) {
			note, err := test.check(change{from: test.from, to: test.to, began: stepBegan, changed: stepBegan, messages: test.messages})
			switch {
			case test.err == "" && err != nil:
				t.Error(err)
			case test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)):
				t.Errorf("got %v, want an error with %q", err, test.err)
			case !strings.Contains(note, test.note):
				t.Errorf("got %q, want %q", note, test.note)
			}
		})
	}
}

func TestTiers(t *testing.T) {
	for want, e := range map[string]endpoints{
		"none": {}, "local": {west: addrs("10.1.0.1:80")}, "any": {north: addrs("10.3.0.1:80")},
		"local, any": {west: addrs("10.1.0.1:80"), east: addrs("10.2.0.1:80")},
	} {
		if got := e.tiers(); got != want {
			t.Errorf("%v: %q, not %q", e, got, want)
		}
	}
}

package clusterstore

import (
	"fmt"
	"testing"
)

// TestSyncedAtAnyMoment: a cluster that syncs while its link looks at other things is
// promoted, also one that is reached through gateways, which it has from the beginning.
func TestSyncedAtAnyMoment(t *testing.T) {
	for at := 1; at <= 8; at++ {
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			inBubble(t, func(e *env) {
				e.syncAt = at
				e.put(secret("s", "east", "t1", 0))
				if closed(e.last(1).synced) {
					e.linked("east=ready")
				}
				e.put(secret("s", "east", "t2", 0))
				if c := e.last(2); closed(c.synced) {
					e.served(c)
				}
			})
			inBubble(t, func(e *env) {
				e.syncAt = at
				e.put(with(secret("s", "east", "t1", 0), "network", "far"))
				if closed(e.last(1).synced) {
					e.linked("east=ready")
					e.reached() // its Pods can't be
				}
			})
		})
	}
}

// TestListedAtAnyMoment: a successor that is listed while its link looks at other things may finish its first sync.
func TestListedAtAnyMoment(t *testing.T) {
	for at := 1; at <= 4; at++ {
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			inBubble(t, func(e *env) {
				e.sync(1)
				e.listedAt = at
				e.put(secret("s", "east", "t2", 0))
				if c := e.last(2); closed(c.listed) && !closed(c.cfg.Admit) {
					t.Error("it is listed, and not admitted")
				}
			}, secret("s", "east", "t1", 0))
		})
	}
}

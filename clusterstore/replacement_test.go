package clusterstore

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"isthmus/clusterstore/follow"
	"isthmus/federation"
)

const panicked = "pods: Isthmus panicked, because of a bug: boom"

// panic makes the cluster what a panic in its lists or watches leaves.
func (c *scripted) panic() {
	c.health.Set(healthOf(follow.Health{Failed: true, Err: errors.New(panicked), StaleSince: time.Now()}))
	synctest.Wait()
}

// TestPanicOfServing: a cluster that has panicked is stale and continues to serve. After a second,
// a successor with the same credentials is started, which replaces the cluster once it has synced.
func TestPanicOfServing(t *testing.T) {
	inBubble(t, func(e *env) {
		first := e.sync(1)
		first.panic()
		e.served(first)
		e.status("s east stale: " + panicked)
		e.pass(999 * time.Millisecond)
		e.last(1)
		e.pass(time.Millisecond)
		second := e.last(2)
		e.served(first)
		e.status("s east stale: " + panicked)
		e.pass(time.Hour) // however long it takes
		e.put(secret("s", "east", "t1", 0))
		e.last(2)
		if second.rest.BearerToken != first.rest.BearerToken || first.isStopped() {
			t.Error("other credentials, or the first cluster has been stopped")
		}
		second.sync()
		e.served(second)
		e.status("s east ready")
		if !first.isStopped() {
			t.Error("the first cluster has not been stopped")
		}
	}, secret("s", "east", "t1", 0))
}

// TestPanicOfSuccessors: successors that panic too are replaced after 1 s, 2 s, 4 s and so on up to
// 5 min. After a successor that has run for 5 min, the pauses start over. New credentials are tried
// at once.
func TestPanicOfSuccessors(t *testing.T) {
	inBubble(t, func(e *env) {
		first := e.sync(1)
		first.panic()
		n := 1
		var before *scripted
		for _, pause := range []time.Duration{1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300} {
			e.pass(pause*time.Second - time.Millisecond)
			e.last(n)
			e.pass(time.Millisecond)
			n++
			now := e.last(n)
			now.panic()
			e.served(first)
			if before != nil && !before.isStopped() {
				t.Errorf("cluster %d has not been stopped", n-1)
			}
			before = now
		}
		e.pass(5 * time.Minute)
		n++
		last := e.sync(n)
		e.served(last)
		e.pass(5 * time.Minute)
		last.panic()
		e.pass(time.Second)
		n++
		e.last(n).panic()
		e.put(secret("s", "east", "t2", 0))
		n++
		e.served(last)
		e.served(e.sync(n))
		e.status("s east ready")
	}, secret("s", "east", "t1", 0))
}

// TestPanicOfFirst: a cluster that panics before it has synced is unreachable, and is tried again.
func TestPanicOfFirst(t *testing.T) {
	inBubble(t, func(e *env) {
		first := e.last(1)
		first.panic()
		e.status("s east unreachable: " + panicked)
		e.linked("east=unreachable")
		e.pass(time.Second)
		if !first.isStopped() {
			t.Error("the first cluster has not been stopped")
		}
		e.served(e.sync(2))
		e.linked("east=ready")
	}, secret("s", "east", "t1", 0))
}

// TestPanicThenUnlink: a cluster that has panicked, with a successor or before that, ends with its Secret.
func TestPanicThenUnlink(t *testing.T) {
	for _, pause := range []time.Duration{0, time.Second} {
		inBubble(t, func(e *env) {
			e.sync(1).panic()
			e.pass(pause)
			e.remove("s")
			e.served()
			if l := e.table.Linked(); l["east"] != federation.Unlinked {
				t.Errorf("linked: %v", l)
			}
		}, secret("s", "east", "t1", 0))
	}
}

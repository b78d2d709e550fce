package clusterstore

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"isthmus/clusterstore/cluster"
)

func (e *env) report(c cluster.Change) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.changes = append(e.changes, c)
}

// reported checks what was reported since the last call: the kind's number, ! for a problem,
// and the text.
func (e *env) reported(want ...string) {
	e.t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	var got []string
	for _, c := range e.changes {
		mark := ""
		if c.Problem {
			mark = "!"
		}
		got = append(got, fmt.Sprint(c.Cluster, " ", c.Kind, " ", mark, c.Text))
	}
	e.changes = nil
	if !slices.EqualFunc(got, want, matches) {
		e.t.Errorf("reported\n%q, want\n%q", got, want)
	}
}

func TestChangesAreReported(t *testing.T) {
	s := func(token string, pairs ...string) []string { return append([]string{token}, pairs...) }
	inBubble(t, func(e *env) {
		put := func(s []string) { e.put(with(secret("s", "east", s[0], 0), s[1:]...)) }
		e.reported("east 0 pending")
		e.made[0].fail("refused")
		e.made[0].fail("timeout") // for another reason; the state is the same
		e.reported("east 0 !unreachable: refused")
		first := e.sync(1)
		e.reported("east 0 ready")
		first.lose("connection refused")
		first.recover()
		e.reported("east 0 !stale: connection refused", "east 0 ready")
		put(s("t2"))
		e.last(2).fail("Unauthorized")
		e.reported("east 2 !new credentials do not work; the old ones stay in use: Unauthorized")
		put(s("t3"))
		e.sync(3)
		e.reported("east 2 new credentials are in use")
		put(s("t3", "cordon", "true"))
		put(s("t3"))
		e.reported("east 1 !withdrawn: cordoned by annotation…", "east 1 in-service: not cordoned, and its API is followed")
		put(s("t3", "when-lost", "withdraw", "lost-after", "1m"))
		e.last(3).lose("gone")
		e.pass(time.Minute)
		e.reported("east 0 !stale: gone", "east 1 !withdrawn: lost for 1m0s")
		e.remove("s")
		e.reported("east 0 unlinked")
		bad := secret("bad", "north", "t", 0)
		bad.Data = nil
		e.put(bad)
		e.reported("north 0 !link Secret bad can't be used: …")
	}, secret("s", "east", "t1", 0))
}

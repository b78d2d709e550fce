package clusterstore

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"isthmus/clusterstore/cluster"
	"isthmus/clusterstore/follow"
	"isthmus/federation"
)

func TestLinkedLate(t *testing.T) {
	inBubble(t, func(e *env) {
		e.settled(true)
		e.linked("")
		e.put(secret("s", "east", "t1", 0))
		east := e.last(1)
		e.linked("east=pending")
		e.served()
		east.sync()
		e.linked("east=ready")
		e.served(east)
		e.status("s east ready")
		e.logged("cluster linked", "cluster ready")
		if c := east.cfg; c.Name != "east" || c.TrustDomain != "trust.test" || east.rest.BearerToken != "t1" ||
			east.rest.Host != "https://api.example:6443" {
			t.Errorf("made from %+v", c)
		}
	})
}

func TestLinkedAtStart(t *testing.T) {
	inBubble(t, func(e *env) {
		e.settled(false)
		e.linked("east=pending north=pending")
		e.made[0].sync()
		e.settled(false)
		e.made[1].sync()
		e.settled(true)
		e.served(e.made...)
		e.put(secret("late", "west", "t", 0))
		e.settled(true)
	}, secret("a", "east", "t1", 0), secret("b", "north", "t1", 0))
}

// Behaviours: S-03.
func TestRejected(t *testing.T) {
	noLabel, local, empty := secret("a", "", "t", 0), secret("b", "local", "t", 0), secret("c", "", "t", 0)
	delete(noLabel.Labels, ClusterNameLabel)
	noTrust, noDomain := secret("d", "east", "t", 0), secret("e", "east", "t", 0)
	delete(noTrust.Annotations, TrustDomainAnnotation)
	delete(noDomain.Annotations, ClusterDomainAnnotation)
	noData, broken, opaque := secret("f", "f", "t", 0), secret("g", "g", "t", 0), secret("h", "h", "t", 0)
	noData.Data = nil
	broken.Data[KubeconfigKey] = []byte("no kubeconfig")
	opaque.Type = corev1.SecretTypeOpaque
	inBubble(t, func(e *env) {
		e.settled(true)
		e.linked("")
		if len(e.made) > 0 {
			t.Error("clusters were made")
		}
		e.status(
			"a - rejected: label multicluster.linkerd.io/cluster-name is missing",
			`b - rejected: label multicluster.linkerd.io/cluster-name is "local", which is reserved for the local `+
				`cluster: link the cluster under another name `+
				`(linkerd multicluster link-gen --cluster-name NAME), `+
				`and replace "local" with that name in the annotations multicluster.linkerd.io/remote-discovery`,
			"c - rejected: label multicluster.linkerd.io/cluster-name is empty",
			"d east rejected: annotation multicluster.linkerd.io/trust-domain is missing",
			"e east rejected: annotation multicluster.linkerd.io/cluster-domain is missing",
			"f f rejected: key kubeconfig is missing",
			"g g rejected: kubeconfig can't be parsed",
		)
		if n := e.logs.FilterMessage("link Secret cannot be used").Len(); n != 7 || e.logs.Len() != n {
			t.Errorf("%d of %d lines report the 7 rejected Secrets", n, e.logs.Len())
		}
		e.put(secret("f", "f", "t", 0))
		e.linked("f=pending")
		e.last(1)
		if n := e.logs.FilterMessage("link Secret cannot be used").Len(); n != 7 {
			t.Errorf("reported again: %d", n)
		}
	}, noLabel, local, empty, noTrust, noDomain, noData, broken, opaque)
}

func TestDeadAtStart(t *testing.T) {
	inBubble(t, func(e *env) {
		dead, alive := e.named("east"), e.named("north")
		alive.sync()
		e.settled(false)
		dead.fail("connection refused")
		e.settled(true)
		e.linked("east=unreachable north=ready")
		e.status("a east unreachable: connection refused", "b north ready")
		dead.recover() // the API server answers, but the cluster has not synced yet
		e.linked("east=unreachable north=ready")
		dead.sync()
		e.linked("east=ready north=ready")
		e.served(dead, alive)
		e.status("a east ready", "b north ready")
	}, secret("a", "east", "t1", 0), secret("b", "north", "t1", 0))
}

// TestBlackHoled checks a cluster whose API server accepts connections and never responds. It is
// pending for exactly the grace period and delays no other cluster.
func TestBlackHoled(t *testing.T) {
	inBubble(t, func(e *env) {
		e.pass(syncGrace - time.Nanosecond)
		e.linked("east=pending")
		e.settled(false)
		e.put(secret("n", "north", "t1", 0))
		e.sync(2)
		e.linked("east=pending north=ready")
		e.put(secret("n", "north", "t2", 0))
		e.sync(3)
		e.remove("n")
		e.linked("east=pending")
		e.settled(false)
		e.pass(time.Nanosecond)
		e.linked("east=unreachable")
		e.settled(true)
		e.status("s east unreachable: not synced within 30s")
		e.pass(24 * time.Hour)
		e.made[0].sync()
		e.linked("east=ready")
	}, secret("s", "east", "t1", 0))
}

// TestEditsDoNotProlongTheGrace checks that edits of a pending link do not extend the time that it
// delays readiness.
func TestEditsDoNotProlongTheGrace(t *testing.T) {
	inBubble(t, func(e *env) {
		for _, token := range []string{"t2", "t3", "t4"} {
			e.pass(syncGrace / 4)
			e.put(secret("s", "east", token, 0))
			e.linked("east=pending")
		}
		e.pass(syncGrace/4 - time.Nanosecond)
		e.settled(false)
		e.pass(time.Nanosecond)
		e.settled(true)
		e.linked("east=unreachable")
		e.put(secret("s", "east", "t5", 0)) // worth waiting for again
		e.linked("east=pending")
		e.sync(5)
		e.linked("east=ready")
		for _, c := range e.made[:4] {
			if !c.isStopped() {
				t.Error("a replaced cluster was not stopped")
			}
		}
	}, secret("s", "east", "t1", 0))
}

func TestClusterThatCantBeMade(t *testing.T) {
	s := secret("s", "east", "t", 0)
	s.Annotations[TrustDomainAnnotation] = "impossible"
	inBubble(t, func(e *env) {
		e.settled(true)
		e.status("s east unreachable: can't be made")
		e.remove("s")
		e.linked("")
	}, s)
}

// TestClientThatCantBeMade checks that a kubeconfig of which no client can be made is reported as
// unusable.
func TestClientThatCantBeMade(t *testing.T) {
	from := &rest.Config{Host: "https://east", TLSClientConfig: rest.TLSClientConfig{CAData: []byte("no certificate")}}
	_, err := (&Store{}).newCluster(from, cluster.Config{Name: "east"})
	if err == nil || !strings.Contains(err.Error(), "cluster east: ") {
		t.Errorf("a broken certificate: %v", err)
	}
}

func TestShutdownWithdrawsNothing(t *testing.T) {
	inBubble(t, func(e *env) {
		e.made[0].sync()
		e.made[1].fail("refused")
		before := e.table.Linked()
		set, _ := e.watch.Get()
		e.shutdown()
		if now, _ := e.watch.Get(); now != set {
			t.Error("the table has published a new set")
		}
		if now := e.table.Linked(); len(now) != len(before) {
			t.Errorf("linked: %v, before %v", now, before)
		}
	}, secret("a", "east", "t1", 0), secret("b", "north", "t1", 0))
}

// TestRemovedOnlyWithoutSecrets checks that a link stays if it gets a Secret just before it would
// be removed.
func TestRemovedOnlyWithoutSecrets(t *testing.T) {
	s := &Store{links: make(map[federation.ClusterName]*link), settled: make(chan struct{})}
	l := &link{store: s, name: "east"}
	s.links["east"] = l
	l.mailbox.Set([]*credentials{{}})
	if s.removeIfUnused(l) || s.links["east"] == nil {
		t.Error("the link was removed although it has a Secret")
	}
	l.mailbox.Set(nil)
	if !s.removeIfUnused(l) || s.links["east"] != nil {
		t.Error("the link was not removed")
	}
}

// TestSyncedAtAnyMoment checks that a cluster is promoted even if it syncs while its link is being
// reconciled. This includes clusters that are reached through gateways.
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
					e.reached() // its Pods cannot be reached
				}
			})
		})
	}
}

// TestListedAtAnyMoment checks that a successor may finish its first sync even if it is listed
// while its link is being reconciled.
func TestListedAtAnyMoment(t *testing.T) {
	for at := 1; at <= 4; at++ {
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			inBubble(t, func(e *env) {
				e.sync(1)
				e.listedAt = at
				e.put(secret("s", "east", "t2", 0))
				if c := e.last(2); closed(c.listed) && !closed(c.cfg.Admit) {
					t.Error("the listed successor was not admitted")
				}
			}, secret("s", "east", "t1", 0))
		})
	}
}

func (e *env) report(c cluster.Change) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.changes = append(e.changes, c)
}

// reported checks the events since the last call. Each text begins with the number of the event's
// kind and has a "!" for a problem.
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
		e.reported("east 2 !new credentials do not work; the old credentials stay in use: Unauthorized")
		put(s("t3"))
		e.sync(3)
		e.reported("east 2 new credentials are in use")
		put(s("t3", "cordon", "true"))
		put(s("t3"))
		e.reported(
			"east 1 !withdrawn: cordoned by annotation…",
			"east 1 in-service: the cluster is not cordoned, and its API is watched",
		)
		put(s("t3", "when-lost", "withdraw", "lost-after", "1m"))
		e.last(3).lose("gone")
		e.pass(time.Minute)
		e.reported("east 0 !stale: gone", "east 1 !withdrawn: lost for 1m0s")
		e.remove("s")
		e.reported("east 0 unlinked")
		bad := secret("bad", "north", "t", 0)
		bad.Data = nil
		e.put(bad)
		e.reported("north 0 !link Secret bad cannot be used: …")
	}, secret("s", "east", "t1", 0))
}

const panicked = "pods: Isthmus panicked, because of a bug: boom"

// panic gives the cluster the health that a panic in its lists or watches leaves behind.
func (c *scripted) panic() {
	c.health.Set(healthOf(follow.Health{Failed: true, Err: errors.New(panicked), StaleSince: time.Now()}))
	synctest.Wait()
}

// TestPanicOfServing checks that a cluster that has panicked is stale and still served. After a
// second, a successor with the same credentials starts. It replaces the cluster once it has synced.
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
		e.pass(time.Hour) // it may take any time
		e.put(secret("s", "east", "t1", 0))
		e.last(2)
		if second.rest.BearerToken != first.rest.BearerToken || first.isStopped() {
			t.Error("the successor has other credentials, or the first cluster was stopped")
		}
		second.sync()
		e.served(second)
		e.status("s east ready")
		if !first.isStopped() {
			t.Error("the first cluster was not stopped")
		}
	}, secret("s", "east", "t1", 0))
}

// TestPanicOfSuccessors checks that a successor that panics too is replaced. The pauses are 1 s, 2
// s, 4 s and so on up to 5 min. The pauses restart at 1 s after a successor that has run for 5 min.
// New credentials are tried at once.
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

// TestPanicOfFirst checks that a cluster that panics before it has synced is unreachable and is
// retried.
func TestPanicOfFirst(t *testing.T) {
	inBubble(t, func(e *env) {
		first := e.last(1)
		first.panic()
		e.status("s east unreachable: " + panicked)
		e.linked("east=unreachable")
		e.pass(time.Second)
		if !first.isStopped() {
			t.Error("the first cluster was not stopped")
		}
		e.served(e.sync(2))
		e.linked("east=ready")
	}, secret("s", "east", "t1", 0))
}

// TestPanicThenUnlink checks that a cluster that has panicked is removed together with its Secret,
// with or without a successor.
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

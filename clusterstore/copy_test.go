package clusterstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"isthmus/clusterstore/follow"
	"isthmus/federation"
	"isthmus/internal/adminapi"
)

// copyStore is a fake of the storage that holds copies.
type copyStore struct {
	takes time.Duration // how long a read takes
	copy  *Copy
	err   error
	early int // number of first reads that fail, as while the copy is being written
	reads int
}

func (s *copyStore) read(ctx context.Context, name federation.ClusterName) (*Copy, error) {
	s.reads++
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(s.takes):
	}
	if s.reads <= s.early {
		return nil, errors.New("it is being written")
	}
	if name != "east" {
		return nil, s.err
	}
	return s.copy, s.err
}

// withCopies runs a test with a Store that reads its copies from s.
func withCopies(t *testing.T, s *copyStore, f func(*env), secrets ...*corev1.Secret) {
	t.Helper()
	inBubbleWith(t, Options{ReadCopy: s.read, LostAfter: time.Hour}, f, secrets...)
}

// servingCopy runs a test with a Store that serves a copy of cluster east.
func servingCopy(t *testing.T, f func(e *env, copied *scripted), secrets ...*corev1.Secret) {
	t.Helper()
	withCopies(t, &copyStore{copy: eastCopy()}, func(e *env) {
		e.last(1).fail("connection refused")
		f(e, e.loadCopy(2))
	}, secrets...)
}

func eastCopy() *Copy {
	return &Copy{CopiedCluster: CopiedCluster{
		Cluster: "east", Server: "api.example:6443", Lost: bubbleStart.Add(-10 * time.Minute),
	}}
}

var bubbleStart = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// loadCopy lets the newest cluster load the copy. n is the number of clusters made so far.
func (e *env) loadCopy(n int) *scripted {
	e.t.Helper()
	c := e.last(n)
	if c.cfg.Copied == nil {
		e.t.Fatal("the newest cluster does not load a copy")
	}
	c.health.Set(healthOf(follow.Health{
		Err: errors.New("from a copy"), StaleSince: c.cfg.Copied.Lost, LastEvent: c.cfg.Copied.Lost,
	}))
	c.sync()
	return c
}

func TestCopyAfterFailure(t *testing.T) {
	s := &copyStore{copy: eastCopy()}
	withCopies(t, s, func(e *env) {
		live := e.last(1)
		live.fail("connection refused")
		e.settled(false)
		e.linked("east=pending")
		copied := e.loadCopy(2)
		e.settled(true)
		e.linked("east=ready")
		e.served(copied)
		e.status("s east stale: from a copy of 1999-12-31T23:50:00Z: connection refused")
		if st := e.store.Status()[0]; !st.CopyOf.Equal(s.copy.Lost) || !st.Since.Equal(s.copy.Lost) ||
			st.SecretVersion != "" {
			t.Errorf("copy of %v, since %v, version %q", st.CopyOf, st.Since, st.SecretVersion)
		}
		if caches, listed := e.store.Caches(); !listed || len(caches) != 1 || caches[0].Copy != nil {
			t.Errorf("a replica that serves a copy offers the copy again: %+v", caches)
		}

		live.recover()
		live.sync()
		e.served(live)
		e.status("s east ready")
		e.steps("east pending", "east ready-copy", "east ready-t1")
		if !copied.isStopped() || s.reads != 1 {
			t.Errorf("the copy is stopped: %v; it was read %d times", copied.isStopped(), s.reads)
		}
		if st := e.store.Status()[0]; !st.CopyOf.IsZero() {
			t.Errorf("copy of %v", st.CopyOf)
		}
	}, secret("s", "east", "t1", 0))
}

// TestCopyAfterFailureAnyTime checks that the copy is used even if the cluster fails while its link
// is being reconciled.
func TestCopyAfterFailureAnyTime(t *testing.T) {
	for failAt := 1; failAt <= 10; failAt++ {
		t.Run(fmt.Sprint(failAt), func(t *testing.T) {
			withCopies(t, &copyStore{copy: eastCopy()}, func(e *env) {
				e.failAt = failAt
				e.put(secret("s", "east", "t2", 0))
				e.failAt = 0
				if len(e.made) == 2 { // Health was called fewer than failAt times
					e.last(2).fail("connection refused")
				}
				e.served(e.loadCopy(3))
			}, secret("s", "east", "t1", 0))
		})
	}
}

func TestCopyAfterSilence(t *testing.T) {
	s := &copyStore{copy: eastCopy()}
	withCopies(t, s, func(e *env) {
		e.pass(silence - time.Millisecond)
		e.last(1)
		e.pass(time.Millisecond)
		e.served(e.loadCopy(2))
		e.status("s east stale: from a copy of 1999-12-31T23:50:00Z: the API server has not responded…")
		e.settled(true)
	}, secret("s", "east", "t1", 0))
}

// TestCopyOfSlowCluster checks that a cluster that has listed one kind gets more time for the other
// kinds.
func TestCopyOfSlowCluster(t *testing.T) {
	s := &copyStore{copy: eastCopy()}
	withCopies(t, s, func(e *env) {
		e.pass(3 * time.Second)
		e.last(1).health.Set(healthOf(follow.Health{LastEvent: time.Now()}))
		e.pass(silence - time.Second)
		if s.reads != 0 {
			t.Error("the copy was read although the cluster sends objects")
		}
		e.served(e.sync(1))
		e.pass(time.Minute)
		if s.reads != 0 {
			t.Error("the copy of a ready cluster was read")
		}
	}, secret("s", "east", "t1", 0))
}

// TestNoCopyOfLaterLinks checks that only links that exist when the Store starts read copies.
func TestNoCopyOfLaterLinks(t *testing.T) {
	s := &copyStore{copy: eastCopy()}
	withCopies(t, s, func(e *env) {
		e.sync(1)
		e.settled(true)
		e.put(secret("s", "east", "t1", 0))
		e.last(2).fail("connection refused")
		e.pass(time.Minute)
		e.linked("east=unreachable north=ready")
		if s.reads != 0 {
			t.Error("the copy of a new link was read")
		}
	}, secret("n", "north", "t1", 0))
}

// TestCopyReadAgain checks that a failed read of a copy is retried and that readiness waits for the
// copy.
func TestCopyReadAgain(t *testing.T) {
	s := &copyStore{copy: eastCopy(), early: 4}
	withCopies(t, s, func(e *env) {
		e.last(1).fail("connection refused")
		e.pass(3 * time.Second)
		e.settled(false)
		e.pass(time.Second)
		e.served(e.loadCopy(2))
		e.settled(true)
	}, secret("s", "east", "t1", 0))
}

func TestCopyDelaysReadiness(t *testing.T) {
	s := &copyStore{copy: eastCopy(), takes: time.Hour}
	withCopies(t, s, func(e *env) {
		e.last(1).fail("connection refused")
		e.pass(copyPatience - time.Millisecond)
		e.settled(false)
		e.pass(time.Millisecond)
		e.settled(true)
		e.linked("east=unreachable")
	}, secret("s", "east", "t1", 0))
}

// TestLiveWhileLoading checks that a link drops its copy as soon as the live cluster has synced.
func TestLiveWhileLoading(t *testing.T) {
	for name, takes := range map[string]time.Duration{"reading": time.Minute, "loading": 0} {
		t.Run(name, func(t *testing.T) {
			withCopies(t, &copyStore{copy: eastCopy(), takes: takes}, func(e *env) {
				live := e.last(1)
				live.fail("connection refused")
				e.pass(time.Second)
				e.linked("east=pending")
				e.logs.TakeAll()
				live.recover()
				live.sync()
				e.served(live)
				e.linked("east=ready")
				e.logged("cluster ready")
				if takes == 0 && !e.last(2).isStopped() {
					t.Error("the cluster of the copy was not stopped")
				}
			}, secret("s", "east", "t1", 0))
		})
	}
}

// TestNoCopyOfFormerCluster checks that the cache of a cluster is not copied if the link Secret now
// names another cluster. No replica could use that copy.
func TestNoCopyOfFormerCluster(t *testing.T) {
	copied := func(e *env, want bool) {
		e.t.Helper()
		e.pass(0)
		caches, _ := e.store.Caches()
		if len(caches) != 1 || (caches[0].Copy != nil) != want {
			e.t.Errorf("caches are %+v; one should be copyable: %v", caches, want)
		}
	}
	inBubble(t, func(e *env) {
		e.sync(1).lose("connection refused")
		copied(e, true)
		other := secret("s", "east", "t2", 0)
		other.Data[KubeconfigKey] = bytes.ReplaceAll(other.Data[KubeconfigKey], []byte("api."), []byte("other."))
		e.put(other)
		copied(e, false)
		e.put(secret("s", "east", "t3", 0))
		copied(e, true)
	}, secret("s", "east", "t1", 0))
}

// TestSlowCopy checks that a copy that loads slowly is used once it is loaded, but does not delay
// readiness.
func TestSlowCopy(t *testing.T) {
	s := &copyStore{copy: eastCopy()}
	withCopies(t, s, func(e *env) {
		e.last(1).fail("connection refused")
		e.last(2)
		e.pass(copyPatience)
		e.settled(true)
		e.linked("east=pending")
		e.served(e.loadCopy(2))
		e.linked("east=ready")
	}, secret("s", "east", "t1", 0))
}

// TestEditOfSlowCopy checks that a copy that is still loading after the Store has settled is loaded
// again after a change of the Secret.
func TestEditOfSlowCopy(t *testing.T) {
	for name, rotates := range map[string]bool{"cordon": false, "new credentials": true} {
		t.Run(name, func(t *testing.T) {
			withCopies(t, &copyStore{copy: eastCopy()}, func(e *env) {
				e.last(1).fail("connection refused")
				e.last(2)
				e.pass(copyPatience)
				e.settled(true)
				if rotates {
					e.put(secret("s", "east", "t2", 0))
					e.served(e.loadCopy(4))
					return
				}
				s := secret("s", "east", "t1", 0)
				s.Annotations[CordonAnnotation] = "true"
				e.put(s)
				copied := e.loadCopy(3)
				e.put(secret("s", "east", "t1", 0))
				e.served(copied)
			}, secret("s", "east", "t1", 0))
		})
	}
}

// TestEditsDoNotExtendPatience checks that a copy delays readiness by at most copyPatience, even if
// changes of the Secret interrupt loading.
func TestEditsDoNotExtendPatience(t *testing.T) {
	withCopies(t, &copyStore{copy: eastCopy()}, func(e *env) {
		e.last(1).fail("connection refused")
		for _, cordon := range []string{"true", "false"} {
			e.pass(copyPatience * 4 / 10)
			s := secret("s", "east", "t1", 0)
			s.Annotations[CordonAnnotation] = cordon
			e.put(s)
		}
		e.pass(copyPatience*2/10 - time.Millisecond)
		e.settled(false)
		e.pass(time.Millisecond)
		e.settled(true)
		e.served(e.loadCopy(4))
	}, secret("s", "east", "t1", 0))
}

// TestCopyAfterCorrection checks that a copy that could not be used is loaded after the Secret names
// the copied cluster.
func TestCopyAfterCorrection(t *testing.T) {
	const problem = "connection refused; the saved cache of the cluster cannot be used: it is of another cluster, at "
	t.Run("server", func(t *testing.T) {
		elsewhere := func(token string) *corev1.Secret {
			s := secret("s", "east", token, 0)
			s.Data[KubeconfigKey] = bytes.ReplaceAll(s.Data[KubeconfigKey], []byte("api."), []byte("other."))
			return s
		}
		withCopies(t, &copyStore{copy: eastCopy()}, func(e *env) {
			e.last(1).fail("connection refused")
			e.status("s east unreachable: " + problem + "api.example:6443")
			e.put(elsewhere("t2"))
			e.status("s east pending")
			e.last(2).fail("connection refused")
			e.status("s east unreachable: " + problem + "api.example:6443")
			e.put(secret("s", "east", "t2", 0))
			e.status("s east pending")
			e.last(3).fail("connection refused")
			e.served(e.loadCopy(4))
			e.status("s east stale: from a copy of 1999-12-31T23:50:00Z: connection refused")
		}, elsewhere("t1"))
	})
	t.Run("identity", func(t *testing.T) {
		of := func(identity string) *corev1.Secret {
			s := secret("s", "east", "t1", 0)
			s.Annotations[LinkedClusterAnnotation] = identity
			return s
		}
		stored := eastCopy()
		stored.Identity = "uid-1"
		withCopies(t, &copyStore{copy: stored}, func(e *env) {
			e.last(1).fail("connection refused")
			e.status("s east unreachable: " + problem + "api.example:6443")
			e.put(of("uid-1"))
			e.served(e.loadCopy(2))
			e.status("s east stale: from a copy of 1999-12-31T23:50:00Z: connection refused")
		}, of("uid-2"))
	})
}

func TestUnusableCopies(t *testing.T) {
	identified := secret("s", "east", "t1", 0)
	identified.Annotations[LinkedClusterAnnotation] = "uid-2"
	other := eastCopy()
	other.Identity = "uid-1"
	elsewhere := eastCopy()
	elsewhere.Server = "api.example:6443/other"
	for name, x := range map[string]struct {
		store  *copyStore
		secret *corev1.Secret
		why    string
	}{
		"none":           {&copyStore{}, secret("s", "east", "t1", 0), ""},
		"unreadable":     {&copyStore{err: UnusableCopy("damaged")}, secret("s", "east", "t1", 0), "damaged"},
		"other identity": {&copyStore{copy: other}, identified, "it is of another cluster, at " + other.Server},
		"other server": {
			&copyStore{copy: elsewhere}, secret("s", "east", "t1", 0),
			"it is of another cluster, at " + elsewhere.Server,
		},
	} {
		t.Run(name, func(t *testing.T) {
			withCopies(t, x.store, func(e *env) {
				e.logs.TakeAll()
				live := e.last(1)
				live.fail("connection refused")
				e.settled(true)
				e.linked("east=unreachable")
				logged := []string{"cluster unreachable…"}
				reason := "connection refused"
				if x.why != "" {
					logged = append([]string{"the copy of a cluster cannot be used"}, logged...)
					reason += "; the saved cache of the cluster cannot be used: " + x.why
				}
				e.logged(logged...)
				if st := e.store.Status()[0]; st.Reason != reason {
					t.Errorf("reason %q, want %q", st.Reason, reason)
				}
				live.recover()
				live.sync()
				e.status("s east ready")
			}, x.secret)
		})
	}
}

// TestCopyOverCap checks that a copy over the memory cap is dropped.
func TestCopyOverCap(t *testing.T) {
	withCopies(t, &copyStore{copy: eastCopy()}, func(e *env) {
		live := e.last(1)
		live.fail("connection refused")
		copied := e.last(2)
		copied.lose("over budget")
		e.linked("east=unreachable")
		e.settled(true)
		if !copied.isStopped() {
			t.Error("the cluster of the copy was not stopped")
		}
		live.sync()
		e.served(live)
	}, secret("s", "east", "t1", 0))
}

// TestRotationDuringCopy checks that a rotation treats a copy like a cluster with no permissions.
func TestRotationDuringCopy(t *testing.T) {
	servingCopy(t, func(e *env, copied *scripted) {
		e.put(secret("s", "east", "t2", 0))
		live := e.last(3)
		e.served(copied)
		e.status("s east stale: from a copy of 1999-12-31T23:50:00Z: the API server has not responded…")
		live.fail("connection refused")
		e.status("s east stale: from a copy of 1999-12-31T23:50:00Z: connection refused")
		live.sync()
		e.served(live)
		if !copied.isStopped() {
			t.Error("the cluster of the copy was not stopped")
		}
	}, secret("s", "east", "t1", 0))
}

// TestRangesOfNewCredentials checks that address ranges that come with new credentials take effect
// together with those credentials.
func TestRangesOfNewCredentials(t *testing.T) {
	servingCopy(t, func(e *env, copied *scripted) {
		s := secret("s", "east", "t2", 0)
		s.Annotations[RangesAnnotation] = "10.9.0.0/16"
		e.put(s)
		live := e.last(3)
		e.served(copied)
		live.sync()
		e.served()
	}, secret("s", "east", "t1", 0))
}

// TestCopyOfMoreKinds checks that a copy is served until optional kinds are listed, but only for a
// limited time. A starting API server may reject optional kinds.
func TestCopyOfMoreKinds(t *testing.T) {
	for name, lists := range map[string]bool{"listed later": true, "never listed": false} {
		t.Run(name, func(t *testing.T) {
			withCopies(t, &copyStore{copy: eastCopy()}, func(e *env) {
				live := e.last(1)
				live.fail("connection refused")
				copied := e.last(2)
				h := follow.Health{Err: errors.New("x"), StaleSince: copied.cfg.Copied.Lost}
				h.Resources = []adminapi.Resource{{Resource: "servers", Synced: true, Objects: 1}}
				copied.health.Set(healthOf(h))
				copied.sync()
				now := follow.Health{Resources: []adminapi.Resource{
					{Resource: "servers", Err: "refused", Failure: adminapi.Forbidden},
				}}
				live.health.Set(healthOf(now))
				live.sync()
				e.served(copied)
				e.pass(syncGrace - time.Second)
				e.served(copied)
				if lists {
					now.Resources = []adminapi.Resource{{Resource: "servers", Synced: true}}
					live.health.Set(healthOf(now))
					e.pass(0)
				} else {
					e.pass(time.Second)
				}
				e.served(live)
				e.status("s east ready")
			}, secret("s", "east", "t1", 0))
		})
	}
}

func TestUnlinkDuringCopy(t *testing.T) {
	servingCopy(t, func(e *env, copied *scripted) {
		e.remove("s")
		e.served()
		e.linked("")
		if !copied.isStopped() {
			t.Error("the cluster of the copy was not stopped")
		}
	}, secret("s", "east", "t1", 0))
}

// TestUnlinkWhileLoading checks that a link that reads or loads a copy is removed together with its
// Secret at once.
func TestUnlinkWhileLoading(t *testing.T) {
	for name, takes := range map[string]time.Duration{"reading": time.Minute, "loading": 0} {
		t.Run(name, func(t *testing.T) {
			withCopies(t, &copyStore{copy: eastCopy(), takes: takes}, func(e *env) {
				e.last(1).fail("connection refused")
				e.pass(time.Second)
				began := time.Now()
				e.remove("s")
				e.linked("")
				if waited := time.Since(began); waited > 0 {
					t.Errorf("the link was removed after %v", waited)
				}
				if takes == 0 && !e.last(2).isStopped() {
					t.Error("the cluster of the copy was not stopped")
				}
			}, secret("s", "east", "t1", 0))
		})
	}
}

// TestCordonWhileLoading checks that a change of a Secret takes effect while its link reads or loads
// a copy. The replica is not ready until the link serves the copy.
func TestCordonWhileLoading(t *testing.T) {
	for name, takes := range map[string]time.Duration{"reading": 5 * time.Second, "loading": 0} {
		t.Run(name, func(t *testing.T) {
			withCopies(t, &copyStore{copy: eastCopy(), takes: takes}, func(e *env) {
				e.last(1).fail("connection refused")
				e.pass(time.Second)
				s := secret("s", "east", "t1", 0)
				s.Annotations[CordonAnnotation] = "true"
				e.put(s)
				e.settled(false)
				e.pass(takes)
				n := 2
				if takes == 0 { // the first cluster of the copy was stopped
					n = 3
				}
				copied := e.loadCopy(n)
				e.served()
				e.settled(true)
				e.put(secret("s", "east", "t1", 0))
				e.served(copied)
			}, secret("s", "east", "t1", 0))
		})
	}
}

// TestLoadsAtOnce checks that at most maxLoads copies are read or loaded at the same time.
func TestLoadsAtOnce(t *testing.T) {
	const links = maxLoads + 2
	var secrets []*corev1.Secret
	for i := range links {
		secrets = append(secrets, secret(fmt.Sprint("s", i), fmt.Sprint("c", i), "t1", 0))
	}
	read := func(_ context.Context, name federation.ClusterName) (*Copy, error) {
		c := eastCopy()
		c.Cluster = name
		return c, nil
	}
	inBubbleWith(t, Options{ReadCopy: read}, func(e *env) {
		e.pass(silence)
		for loaded := range links {
			if n, want := len(e.made), links+min(loaded+maxLoads, links); n != want {
				t.Fatalf("with %d loaded copies, %d clusters were made, want %d", loaded, n, want)
			}
			c := e.made[links+loaded]
			c.health.Set(healthOf(follow.Health{Err: errors.New("from a copy"), StaleSince: c.cfg.Copied.Lost}))
			c.sync()
		}
		e.settled(true)
	}, secrets...)
}

// TestStandingOfCopy checks that cordons and the settings for lost clusters apply to a copy. The
// loss counts from the time at which the original cluster was lost.
func TestStandingOfCopy(t *testing.T) {
	lost := secret("s", "east", "t1", 0)
	lost.Annotations[whenLostAnnotation] = "withdraw"
	lost.Annotations[lostAfterAnnotation] = "11m"
	servingCopy(t, func(e *env, copied *scripted) {
		e.served(copied)
		e.pass(time.Minute - time.Second)
		e.served(copied)
		e.pass(time.Second)
		e.served()
	}, lost)
	servingCopy(t, func(e *env, copied *scripted) {
		s := secret("s", "east", "t1", 0)
		s.Annotations[CordonAnnotation] = "true"
		e.put(s)
		e.served()
		s = secret("s", "east", "t1", 0)
		s.Annotations[RangesAnnotation] = "10.9.0.0/16"
		e.put(s)
		e.served()
		e.put(secret("s", "east", "t1", 0))
		e.served(copied)
	}, secret("s", "east", "t1", 0))
}

// TestHealthOfCopy checks that the status counts the cached objects of the copy and shows the
// errors of the live cluster.
func TestHealthOfCopy(t *testing.T) {
	withCopies(t, &copyStore{copy: eastCopy()}, func(e *env) {
		live := e.last(1)
		live.health.Set(healthOf(follow.Health{Err: errors.New("refused"), Resources: unsynced("pods")}))
		e.pass(0)
		copied := e.last(2)
		h := follow.Health{Err: errors.New("x"), StaleSince: copied.cfg.Copied.Lost, Resources: unsynced("pods")}
		h.Resources[0].Synced = true
		h.Resources[0].Objects = 7
		h.Resources[0].Err = ""
		copied.health.Set(healthOf(h))
		copied.sync()
		st := e.store.Status()[0]
		if r := st.Resources[0]; !r.Synced || r.Objects != 7 || r.Err != "refused" || len(st.Warnings) > 0 {
			t.Errorf("%+v, warnings %q", r, st.Warnings)
		}
		for _, l := range e.store.publishedLinks() {
			if h := l.health(); !h.StaleSince.Equal(copied.cfg.Copied.Lost) {
				t.Errorf("stale since %v", h.StaleSince)
			}
		}
	}, secret("s", "east", "t1", 0))
}

func unsynced(resource string) []adminapi.Resource {
	return []adminapi.Resource{{Resource: resource, Needed: true, Err: "refused", Failure: adminapi.Failing}}
}

// TestGatewaysOfCopy checks that the gateways of a copy are used until the live cluster's gateways
// replace them in one step.
func TestGatewaysOfCopy(t *testing.T) {
	withCopies(t, &copyStore{copy: eastCopy()}, func(e *env) {
		live := e.last(1)
		live.fail("connection refused")
		copied := e.last(2)
		copied.setGateways(gatewayService("192.0.2.1"))
		e.loadCopy(2)
		e.reached(through("192.0.2.1:4143"))
		defer e.neverEmpty()()
		live.setGateways(gatewayService("192.0.2.2"))
		e.reached(through("192.0.2.1:4143"))
		live.sync()
		e.reached(through("192.0.2.2:4143"))
	}, with(secret("s", "east", "t1", 0), "network", "far"))
}

// TestCopyWithoutGateways checks that Pods on another network stay unreachable if the copy has no
// gateways.
func TestCopyWithoutGateways(t *testing.T) {
	withCopies(t, &copyStore{copy: eastCopy()}, func(e *env) {
		e.last(1).fail("connection refused")
		e.loadCopy(2)
		e.reached()
		e.settled(true)
	}, with(secret("s", "east", "t1", 0), "network", "far"))
}

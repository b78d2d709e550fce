package clusterstore

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"isthmus/clusterstore/cluster"
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
		if c := east.cfg; c.Name != "east" || c.TrustDomain != "trust.test" || east.rest.BearerToken != "t1" || east.rest.Host != "https://api.example:6443" {
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
			`b - rejected: label multicluster.linkerd.io/cluster-name is "local", the name of the cluster that the gateway runs in: link the cluster under another name `+
				`(linkerd multicluster link-gen --cluster-name NAME), and write that name where multicluster.linkerd.io/remote-discovery has "local"`,
			"c - rejected: label multicluster.linkerd.io/cluster-name is empty",
			"d east rejected: annotation multicluster.linkerd.io/trust-domain is missing",
			"e east rejected: annotation multicluster.linkerd.io/cluster-domain is missing",
			"f f rejected: key kubeconfig is missing",
			"g g rejected: kubeconfig can't be parsed",
		)
		if n := e.logs.FilterMessage("link Secret can't be used").Len(); n != 7 || e.logs.Len() != n {
			t.Errorf("%d of %d lines report the 7 rejected Secrets", n, e.logs.Len())
		}
		e.put(secret("f", "f", "t", 0))
		e.linked("f=pending")
		e.last(1)
		if n := e.logs.FilterMessage("link Secret can't be used").Len(); n != 7 {
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
		dead.recover() // it answers, but has not synced yet
		e.linked("east=unreachable north=ready")
		dead.sync()
		e.linked("east=ready north=ready")
		e.served(dead, alive)
		e.status("a east ready", "b north ready")
	}, secret("a", "east", "t1", 0), secret("b", "north", "t1", 0))
}

// A cluster that accepts connections and never answers is pending for exactly the
// grace, and delays no other cluster.
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

// Edits of a pending link don't prolong the time that it holds readiness.
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

// Some kubeconfigs are only found to be unusable when a client is made.
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

// A link that gets a Secret just before it is removed stays.
func TestRemovedOnlyWithoutSecrets(t *testing.T) {
	s := &Store{links: make(map[federation.ClusterName]*link), settled: make(chan struct{})}
	l := &link{store: s, name: "east"}
	s.links["east"] = l
	l.mailbox.Set([]*credentials{{}})
	if s.removeIfUnused(l) || s.links["east"] == nil {
		t.Error("removed though it has a Secret")
	}
	l.mailbox.Set(nil)
	if !s.removeIfUnused(l) || s.links["east"] != nil {
		t.Error("not removed")
	}
}

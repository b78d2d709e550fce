package clusterstore

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// TestSameCredentials checks that a change of the Secret that does not concern the cluster starts
// no rotation.
func TestSameCredentials(t *testing.T) {
	inBubble(t, func(e *env) {
		s := secret("s", "east", "t1", 0)
		s.Labels["more"], s.Annotations["more"], s.Data["more"] = "x", "x", []byte("x")
		e.put(s)
		e.sync(1)
		e.put(secret("s", "east", "t1", 0))
		e.served(e.last(1))
	}, secret("s", "east", "t1", 0))
}

// TestSecretVersion checks that the status has the version of the Secret whose credentials are in
// use.
func TestSecretVersion(t *testing.T) {
	versioned := func(version, token string) *corev1.Secret {
		s := secret("s", "east", token, 0)
		s.ResourceVersion = version // fakes do not set a version
		return s
	}
	inBubble(t, func(e *env) {
		expect := func(when, want string) {
			if v := e.store.Status()[0].SecretVersion; v != want {
				t.Errorf("version %q, not %q, %s", v, want, when)
			}
		}
		expect("before the first sync", "")
		e.sync(1)
		expect("after the first sync", "1")
		e.put(versioned("2", "t2"))
		expect("while new credentials are tried", "1")
		e.sync(2)
		expect("once the new credentials work", "2")
		s := versioned("3", "t2")
		s.Annotations[CordonAnnotation] = "true"
		e.put(s)
		expect("after an edit of an annotation", "3")
	}, versioned("1", "t1"))
}

func TestCheckLink(t *testing.T) {
	s := secret("s", "east", "t1", 0)
	s.Type = SecretType
	s.Annotations[CordonAnnotation] = "maybe"
	if name, warnings, err := CheckLink(s, nil); name != "east" || err != nil || len(warnings) != 1 {
		t.Errorf("%q, %q, %v", name, warnings, err)
	}
	s.Data[KubeconfigKey] = []byte("token: secret-token")
	if _, _, err := CheckLink(s, nil); err == nil || strings.Contains(err.Error(), "secret-token") {
		t.Error(err)
	}
	s.Type = "Opaque"
	if _, _, err := CheckLink(s, nil); err == nil || !strings.Contains(err.Error(), `its type is "Opaque"`) {
		t.Error(err)
	}
}

func TestDomainsRotate(t *testing.T) {
	for _, annotation := range []string{TrustDomainAnnotation, ClusterDomainAnnotation} {
		inBubble(t, func(e *env) {
			e.sync(1)
			s := secret("s", "east", "t1", 0)
			s.Annotations[annotation] = "other.test"
			e.put(s)
			e.served(e.made[0])
			e.served(e.sync(2))
		}, secret("s", "east", "t1", 0))
	}
}

// TestRotationThatWorksInTheEnd checks that new credentials are retried while they are in the
// Secret.
func TestRotationThatWorksInTheEnd(t *testing.T) {
	inBubble(t, func(e *env) {
		e.sync(1)
		e.put(secret("s", "east", "t2", 0))
		e.pass(syncGrace - time.Nanosecond)
		e.status("s east ready !new credentials are being tried; the old credentials stay in use")
		e.pass(time.Nanosecond)
		e.status("s east ready !new credentials do not work; the old credentials stay in use: not synced within 30s")
		e.pass(time.Hour)
		e.served(e.made[0])
		e.served(e.sync(2))
		e.status("s east ready")
		if !e.made[0].isStopped() {
			t.Error("the old cluster was not stopped")
		}
		e.logged("cluster linked", "cluster ready", "new credentials do not work…", "credentials rotated")
	}, secret("s", "east", "t1", 0))
}

// TestRotationFailsAgain checks that a failed rotation is shown as in progress again once its
// credentials work. The next failure is logged too.
func TestRotationFailsAgain(t *testing.T) {
	inBubble(t, func(e *env) {
		e.sync(1)
		e.put(secret("s", "east", "t2", 0))
		second := e.last(2)
		second.fail("Unauthorized")
		e.status("s east ready !new credentials do not work; the old credentials stay in use: Unauthorized")
		second.fail("pods: Unauthorized")
		e.status("s east ready !new credentials do not work; the old credentials stay in use: pods: Unauthorized")
		second.recover()
		e.status("s east ready !new credentials are being tried; the old credentials stay in use")
		second.fail("Unauthorized")
		e.status("s east ready !new credentials do not work; the old credentials stay in use: Unauthorized")
		second.recover()
		e.served(e.sync(2))
		e.status("s east ready")
		e.logged("cluster linked", "cluster ready", "new credentials do not work…",
			"new credentials do not work…", "credentials rotated")
	}, secret("s", "east", "t1", 0))
}

func TestRotationTakenBack(t *testing.T) {
	inBubble(t, func(e *env) {
		first := e.sync(1)
		e.put(secret("s", "east", "t2", 0))
		second := e.last(2)
		e.put(secret("s", "east", "t1", 0))
		if !second.isStopped() || first.isStopped() {
			t.Error("the second cluster should be stopped, but not the first")
		}
		e.last(2)
		e.served(first)
		e.status("s east ready")
	}, secret("s", "east", "t1", 0))
}

func TestDuplicatesOfSameAge(t *testing.T) {
	inBubble(t, func(e *env) {
		if token := e.last(1).rest.BearerToken; token != "of-a" {
			t.Errorf("the token of %q is used", token)
		}
	}, secret("b", "east", "of-b", 5), secret("a", "east", "of-a", 5))
}

// TestInvalidWinner checks that an older Secret that was never valid is ignored. A Secret that
// became invalid stays in use, because no edit may take a cluster down.
func TestInvalidWinner(t *testing.T) {
	bad := secret("a", "east", "t", 5)
	bad.Data = nil
	inBubble(t, func(e *env) {
		e.sync(1)
		e.status("a east rejected: key kubeconfig is missing", "b east ready")
		e.put(secret("a", "east", "t", 5))
		first := e.sync(2)
		e.served(first)
		e.put(bad)
		e.served(first)
		e.last(2)
		e.status("a east ready !the current version of the Secret…", "b east rejected: duplicate…")
		e.remove("a")
		e.served(e.sync(3))
	}, bad, secret("b", "east", "young", 0))
}

// TestDuplicateWithSameCredentials checks that a Secret with the same credentials may replace the
// Secret in use without any change.
func TestDuplicateWithSameCredentials(t *testing.T) {
	inBubble(t, func(e *env) {
		e.sync(1)
		e.remove("a")
		e.last(1)
		e.served(e.last(1))
		e.status("b east ready")
		e.remove("b")
		e.linked("")
	}, secret("a", "east", "t", 5), secret("b", "east", "t", 0))
}

func withRanges(s *corev1.Secret, list string) *corev1.Secret {
	s.Annotations[RangesAnnotation] = list
	return s
}

// TestRangesWithCredentials checks that ranges that come with new credentials take effect with
// them. Ranges of credentials that are still being tried can be edited.
func TestRangesWithCredentials(t *testing.T) {
	inBubble(t, func(e *env) {
		e.served(e.sync(1)) // 10.0.0.1
		e.put(withRanges(secret("s", "east", "t2", 0), "10.9.0.0/16"))
		second := e.last(2) // offers 10.0.0.2 later
		e.served(e.made[0])
		e.put(withRanges(secret("s", "east", "t2", 0), "10.0.0.2/32"))
		e.last(2)
		second.sync()
		e.served(second)
	}, withRanges(secret("s", "east", "t1", 0), "10.0.0.1/32"))
}

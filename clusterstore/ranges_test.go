package clusterstore

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func withRanges(s *corev1.Secret, list string) *corev1.Secret {
	s.Annotations[RangesAnnotation] = list
	return s
}

// TestRangesEdited: an edit of the address ranges takes effect without a new connection,
// and one that can't be used changes nothing but the status.
func TestRangesEdited(t *testing.T) {
	inBubble(t, func(e *env) {
		east := e.sync(1) // offers 10.0.0.1
		e.served(east)
		e.put(withRanges(secret("s", "east", "t1", 0), "10.9.0.0/16"))
		e.served()
		e.put(withRanges(secret("s", "east", "t1", 0), "10.0.0.0/16,10.0.0.1"))
		e.served()
		e.status(`s east ready !the Secret as it is now can't be used: annotation isthmus.io/address-ranges: "10.0.0.1" is an address, no CIDR…; its previous version is used`)
		e.put(withRanges(secret("s", "east", "t1", 0), "10.0.0.0/16"))
		e.served(east)
		e.put(secret("s", "east", "t1", 0))
		e.served(east)
		e.status("s east ready")
		if e.last(1).isStopped() {
			t.Error("the cluster was stopped")
		}
		e.logged("cluster linked", "cluster ready", "address ranges changed", "link Secret can't be used", "address ranges changed", "address ranges changed")
	}, secret("s", "east", "t1", 0))
}

// TestRangesWithCredentials: ranges that come with new credentials take effect with them,
// and those of credentials that are still being tried can be edited.
func TestRangesWithCredentials(t *testing.T) {
	inBubble(t, func(e *env) {
		e.served(e.sync(1)) // 10.0.0.1
		e.put(withRanges(secret("s", "east", "t2", 0), "10.9.0.0/16"))
		second := e.last(2) // will offer 10.0.0.2
		e.served(e.made[0])
		e.put(withRanges(secret("s", "east", "t2", 0), "10.0.0.2/32"))
		e.last(2)
		second.sync()
		e.served(second)
	}, withRanges(secret("s", "east", "t1", 0), "10.0.0.1/32"))
}

// TestRangesInvalidAtFirst: a Secret that never had valid ranges is rejected.
func TestRangesInvalidAtFirst(t *testing.T) {
	inBubble(t, func(e *env) {
		e.linked("")
		e.status("s east rejected: annotation isthmus.io/address-ranges: a CIDR is empty: …")
	}, withRanges(secret("s", "east", "t1", 0), ""))
}

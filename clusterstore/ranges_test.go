package clusterstore

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func withRanges(s *corev1.Secret, list string) *corev1.Secret {
	s.Annotations[RangesAnnotation] = list
	return s
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

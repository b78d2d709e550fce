package clusterstore

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// describe lists accesses as SECRET CLUSTER TOKEN and what is wrong.
func describe(list []Access) (lines []string) {
	for _, a := range list {
		line := fmt.Sprintf("%s %s", a.Secret, a.Cluster.Cluster)
		if a.REST != nil {
			line += " " + a.REST.BearerToken
			if s := fmt.Sprintf("%v %+v", a, a); strings.Contains(s, a.REST.BearerToken) {
				line += " shows its token: " + s
			}
		}
		if a.UsedInstead != "" {
			line += " used: " + a.UsedInstead
		}
		if a.SecretRefused != "" {
			line += " refused"
		}
		for _, w := range a.Unread {
			annotation, _, _ := strings.Cut(w, ":")
			line += " unread: " + annotation
		}
		lines = append(lines, line)
	}
	return lines
}

// statuses are a Store's, as accesses.
func statuses(s *Store) (list []Access) {
	for _, c := range s.Status() {
		list = append(list, Access{Cluster: c})
	}
	return list
}

// TestAccesses: what a Store shows of its Secrets, and what they show by themselves, are the same, except for a Secret
// that has become invalid, and for credentials, which a Store does not show.
func TestAccesses(t *testing.T) {
	odd := secret("odd", "north", "x", 3)
	delete(odd.Annotations, TrustDomainAnnotation)
	other := secret("other", "south", "x", 3)
	other.Type = corev1.SecretTypeOpaque
	old := secret("b", "east", "old", 5)
	old.Annotations[lostAfterAnnotation] = "10"
	secrets := []*corev1.Secret{secret("a", "east", "young", 0), old, odd}
	inBubble(t, func(e *env) {
		e.sync(1)
		var plain []corev1.Secret
		for _, s := range append(secrets, other) {
			plain = append(plain, *s)
		}
		want := []string{"b east unread: annotation isthmus.io/lost-after", "odd north refused", "a east used: b"}
		if got := describe(statuses(e.store)); !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
		bad := secret("b", "east", "old", 5)
		delete(bad.Annotations, TrustDomainAnnotation)
		bad.Annotations[CordonAnnotation] = "ture"
		e.put(bad)
		now := "b east refused unread: annotation isthmus.io/cordon"
		if got := describe(statuses(e.store)); !slices.Equal(got, append([]string{now}, want[1:]...)) {
			t.Errorf("%q, want %q", got, want)
		}
		want[0] = "b east old unread: annotation isthmus.io/lost-after"
		if got := describe(ReadAccesses(plain)); !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}, secrets...)
}

// TestExpiry: when credentials expire is shown of what is in use, and of what would be.
func TestExpiry(t *testing.T) {
	s := secret("a", "east", "e30.eyJleHAiOjE3MDAwMDAwMDB9.sig", 0)
	inBubble(t, func(e *env) {
		e.sync(1)
		for _, a := range []Access{statuses(e.store)[0], ReadAccesses([]corev1.Secret{*s})[0]} {
			if x := a.API.Expiry; x == nil || x.What != "token" || x.At.Unix() != 1700000000 {
				t.Errorf("%+v", x)
			}
		}
		e.put(secret("a", "east", "e30.eyJleHAiOjE4MDAwMDAwMDB9.sig", 0)) // which do not work yet
		if x := statuses(e.store)[0].API.Expiry; x == nil || x.At.Unix() != 1700000000 {
			t.Errorf("in a rotation: %+v", x)
		}
		e.sync(2)
		if x := statuses(e.store)[0].API.Expiry; x == nil || x.At.Unix() != 1800000000 {
			t.Errorf("after a rotation: %+v", x)
		}
	}, s)
}

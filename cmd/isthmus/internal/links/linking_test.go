package links

import (
	"cmp"
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	k8stesting "k8s.io/client-go/testing"
)

// TestUnsureWrite: a link whose write got no answer, or one that leaves open whether it is done, remembers that; one that was refused
// does not.
func TestUnsureWrite(t *testing.T) {
	secrets := schema.GroupResource{Resource: "secrets"}
	for _, c := range []struct {
		failure error
		unsure  bool
	}{
		{errors.New("EOF"), true}, {context.DeadlineExceeded, true}, {apierrors.NewTimeoutError("etcdserver: request timed out", 1), true},
		{apierrors.NewServerTimeout(secrets, "update", 1), true}, {apierrors.NewInternalError(errors.New("leader changed")), true},
		{apierrors.NewForbidden(secrets, "s", nil), false}, {apierrors.NewAlreadyExists(secrets, "s"), false}, {errChanged, false},
	} {
		here, api := newFake("west")
		api.PrependReactor("create", "secrets", func(k8stesting.Action) (bool, runtime.Object, error) {
			return true, (*corev1.Secret)(nil), c.failure
		})
		w, _ := newWork()
		l := &linking{o: &linkOptions{name: "east", apply: true}, here: here, content: *newContent("new")}
		l.o.Namespace, l.content.server.Server = "linkerd", "https://127.0.0.1:1" // where nothing listens
		if _, err := l.deliver(t.Context(), w); err == nil || l.unsure != c.unsure {
			t.Errorf("%v: unsure %v, %v", c.failure, l.unsure, err)
		}
	}
}

// TestNetworkOfLink: --network is written as the annotation, and an annotation stays without
// the flag.
func TestNetworkOfLink(t *testing.T) {
	var s *corev1.Secret
	for _, flag := range []string{"far", "", "farther"} {
		var err error
		if s, err = (&content{link: "east", network: flag, server: server{Server: "https://api.example:6443"}}).into(s, "linkerd"); err != nil {
			t.Fatal(err)
		}
		if got, want := s.Annotations["isthmus.io/network"], cmp.Or(flag, "far"); got != want {
			t.Errorf("--network=%s: the network is %q, want %q", flag, got, want)
		}
	}
}

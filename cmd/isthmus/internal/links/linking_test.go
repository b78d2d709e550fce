package links

import (
	"context"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	k8stesting "k8s.io/client-go/testing"
)

// TestMayBeDone: only an API server's own refusal shows that a Secret has not been written.
func TestMayBeDone(t *testing.T) {
	secrets := schema.GroupResource{Resource: "secrets"}
	for _, c := range []struct {
		err  error
		want bool
	}{
		{nil, false},
		{errChanged, false},
		{apierrors.NewForbidden(secrets, "s", nil), false},
		{apierrors.NewAlreadyExists(secrets, "s"), false},
		{apierrors.NewConflict(secrets, "s", nil), false},
		{apierrors.NewUnauthorized("no"), false},
		{apierrors.NewTimeoutError("etcdserver: request timed out", 1), true},
		{apierrors.NewServerTimeout(secrets, "update", 1), true},
		{apierrors.NewInternalError(errors.New("leader changed")), true},
		{fmt.Errorf("put: %w", context.DeadlineExceeded), true},
		{errors.New("connection reset by peer"), true},
	} {
		if got := mayBeDone(c.err); got != c.want {
			t.Errorf("%v: %v", c.err, got)
		}
	}
}

// TestUnsureWrite: a link whose write got no answer remembers that, and one that was refused does not.
func TestUnsureWrite(t *testing.T) {
	for _, failure := range []error{errors.New("EOF"), apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "s", nil)} {
		here, api := newFake("west")
		api.PrependReactor("create", "secrets", func(k8stesting.Action) (bool, runtime.Object, error) {
			return true, (*corev1.Secret)(nil), failure
		})
		w, _ := newWork()
		l := &linking{o: &linkOptions{name: "east", apply: true}, here: here, content: *newContent("new")}
		l.o.Namespace, l.content.server.Server = "linkerd", "https://127.0.0.1:1" // where nothing listens
		if _, err := l.deliver(t.Context(), w); err == nil || l.unsure != !apierrors.IsForbidden(failure) {
			t.Errorf("%v: unsure %v, %v", failure, l.unsure, err)
		}
		if list, err := api.CoreV1().Secrets("linkerd").List(t.Context(), metav1.ListOptions{}); err != nil || len(list.Items) != 0 {
			t.Errorf("%v, %v", err, list.Items)
		}
	}
}

package links

import (
	"context"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
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

// TestBoundBy: a binding of the account is accepted by the ServiceAccount and by its user name,
// and no other subject is.
func TestBoundBy(t *testing.T) {
	a := newAccess(types.NamespacedName{Namespace: "linkerd-multicluster", Name: "isthmus-remote-access"})
	account := rbacv1.Subject{
		Kind: rbacv1.ServiceAccountKind, Namespace: "linkerd-multicluster", Name: "isthmus-remote-access",
	}
	user := rbacv1.Subject{
		Kind:     rbacv1.UserKind,
		APIGroup: rbacv1.GroupName,
		Name:     "system:serviceaccount:linkerd-multicluster:isthmus-remote-access",
	}
	elsewhere := user
	elsewhere.Name = "system:serviceaccount:other:isthmus-remote-access"
	for _, c := range []struct {
		subjects []rbacv1.Subject
		want     bool
	}{
		{[]rbacv1.Subject{account}, true},
		{[]rbacv1.Subject{user}, true},
		{[]rbacv1.Subject{elsewhere}, false},
		{[]rbacv1.Subject{account, elsewhere}, false},
		{nil, false},
	} {
		found := a.binding.DeepCopy()
		found.Subjects = c.subjects
		if got := a.boundBy(found); got != c.want {
			t.Errorf("%v: %v", c.subjects, got)
		}
	}
	other := a.binding.DeepCopy()
	other.RoleRef.Name = "cluster-admin"
	if a.boundBy(other) {
		t.Error("a binding of another role is accepted")
	}
}

package links

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	k8stesting "k8s.io/client-go/testing"

	"isthmus/clusterstore"
)

// TestMayBeDone checks that a failed write counts as not executed only if the API server itself
// rejected the write.
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

// TestUnsureWrite checks that a link records a write without a response as unsure, but not a
// rejected write.
func TestUnsureWrite(t *testing.T) {
	for _, failure := range []error{errors.New("EOF"),
		apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "s", nil)} {
		local, api := newFake("west")
		api.PrependReactor("create", "secrets", func(k8stesting.Action) (bool, runtime.Object, error) {
			return true, (*corev1.Secret)(nil), failure
		})
		w, _ := newWork()
		l := &linking{o: &linkOptions{name: "east", apply: true}, local: local, content: *newContent("new")}
		l.o.Namespace, l.content.server.Server = "linkerd", "https://127.0.0.1:1" // nothing listens there
		if _, err := l.deliver(t.Context(), w); err == nil || l.unsure != !apierrors.IsForbidden(failure) {
			t.Errorf("%v: unsure %v, %v", failure, l.unsure, err)
		}
		if list, err := api.CoreV1().Secrets("linkerd").List(t.Context(), metav1.ListOptions{}); err != nil ||
			len(list.Items) != 0 {
			t.Errorf("%v, %v", err, list.Items)
		}
	}
}

// TestBoundBy checks that a binding may name the account as ServiceAccount or by its user name, and
// may have no other subject.
func TestBoundBy(t *testing.T) {
	a := newRemoteAccess(types.NamespacedName{Namespace: "linkerd-multicluster", Name: "isthmus-remote-access"})
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
		t.Error("a binding to another role is accepted")
	}
}

// TestTokenBefore checks that the previous token is deleted only after the replica reads the
// cluster with the new token.
func TestTokenBefore(t *testing.T) {
	old := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "old", UID: "u"}}
	written := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "linkerd", Name: "s", ResourceVersion: "8"}}
	linked, east := newFake("east", old)
	local, _ := newFake("west", written)
	left := func() bool {
		_, err := east.CoreV1().Secrets("ns").Get(t.Context(), "old", metav1.GetOptions{})
		return err == nil
	}
	const follows = `{"clusters":[{"cluster":"east","secret":"s","secretVersion":"8","state":"ready"}]}`
	var asked atomic.Int64
	var pages []string // the last page is repeated
	admin := showing(t, func() string {
		if !left() {
			t.Error("the previous token was deleted while the replica may use it")
		}
		return pages[min(int(asked.Add(1)), len(pages))-1]
	})
	finish := func(timeout string) error {
		o, ctx := newOptions(t, "--apply", "--admin", admin, "--timeout", timeout)
		w, _ := newWork()
		l := &linking{o: o, local: local, linked: linked, before: []corev1.Secret{*old}}
		return l.finish(ctx, w, written)
	}
	pages = []string{
		strings.Replace(follows, `"8"`, `"7"`, 1),           // has not read the new Secret yet
		strings.Replace(follows, "ready", "unreachable", 1), // the new token does not work
		`{"clusters":[]}`, // has just started
	}
	if err := finish("2s"); err == nil || !strings.Contains(err.Error(), "older tokens stay valid") ||
		!left() || asked.Load() < 2 {
		t.Errorf("%v, the token exists: %v, %d requests", err, left(), asked.Load())
	}
	pages = append(pages, follows)
	asked.Store(2)
	if err := finish("1m"); err != nil || left() {
		t.Errorf("%v, the token exists: %v", err, left())
	}
}

// TestTakenBack checks that an incomplete rotation is undone if the replica continues with the
// previous token. Otherwise, the new token stays.
func TestTakenBack(t *testing.T) {
	for state, back := range map[string]bool{"ready": true, "unreachable": false} {
		t.Run(state, func(t *testing.T) {
			existing, err := newContent("old").toSecret(nil, "linkerd")
			if err != nil {
				t.Fatal(err)
			}
			existing.Annotations[clusterstore.CordonAnnotation] = "false"
			token := func(name string) *corev1.Secret {
				return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: defaultAccount.Namespace, Name: name}}
			}
			linked, east := newFake("east", token("s-old"), token("s-new"))
			local, west := newFake("west", existing)
			page := `{"clusters":[{"cluster":"east","secret":"` + existing.Name +
				`","secretVersion":"before","state":"` + state + `"}]}`
			o, ctx := newOptions(t, "--apply", "--admin", showing(t, func() string { return page }), "--timeout", "1s")
			l := &linking{o: o, local: local, linked: linked, existing: existing,
				before: []corev1.Secret{*token("s-old")}, content: *newContent("new"),
				access: newRemoteAccess(defaultAccount)}
			w, _ := newWork()
			written, err := l.content.write(t.Context(), local, "linkerd", existing)
			if err != nil {
				t.Fatal(err)
			}
			if l.finish(ctx, w, written) == nil {
				t.Error("no error, although the new token is not in use")
			}
			now, err := west.CoreV1().Secrets("linkerd").Get(t.Context(), existing.Name, metav1.GetOptions{})
			if err != nil || sameCredentials(now, existing) != back ||
				(now.Annotations[tokenAnnotation] == "s-old") != back ||
				now.Annotations[clusterstore.CordonAnnotation] != "false" {
				t.Errorf("%v, %+v", err, now)
			}
			_, gone := east.CoreV1().Secrets(defaultAccount.Namespace).Get(t.Context(), "s-new", metav1.GetOptions{})
			if _, err := east.CoreV1().Secrets(defaultAccount.Namespace).Get(t.Context(), "s-old",
				metav1.GetOptions{}); err != nil || (gone != nil) != back {
				t.Errorf("previous token: %v; new token: %v", err, gone)
			}
		})
	}
}

// TestTryWithoutTime checks a timeout while the credentials are tested. The new token is then
// deleted, and the error does not say that the token stays.
func TestTryWithoutTime(t *testing.T) {
	hang := make(chan bool)
	defer close(hang)
	kubeconfig, east, _ := hostileWorld(t, map[string]http.HandlerFunc{
		"POST /apis/authentication.k8s.io/v1/selfsubjectreviews": func(w http.ResponseWriter, r *http.Request) {
			select {
			case <-hang:
			case <-r.Context().Done():
			}
		},
	})
	began := time.Now()
	code, _, errs := call(t, "link", "east", "--context", "east", "--kubeconfig", kubeconfig, "--apply", "--timeout",
		"5s")
	if code != 1 || !strings.Contains(errs, "did not respond in time (--timeout)") ||
		strings.Contains(errs, "stays") ||
		!slices.Contains(east.requests(), "DELETE "+tokens+"/isthmus-remote-access-token-new") {
		t.Errorf("exit code %d after %v, %s, requests %v", code, time.Since(began), errs, east.requests())
	}
}

package externalworkload

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
)

// TestDeletionUnseen: a deletion that the informer missed has the object's last state.
func TestDeletionUnseen(t *testing.T) {
	svc := aService("web")
	for _, o := range []any{svc, cache.DeletedFinalStateUnknown{Key: "ns/web", Obj: svc}} {
		if got, ok := objectOf[*corev1.Service](o); !ok || got != svc {
			t.Errorf("%T: %v, %t", o, got, ok)
		}
	}
	for _, o := range []any{nil, "x", cache.DeletedFinalStateUnknown{Key: "ns/web", Obj: nil}} {
		if got, ok := objectOf[*corev1.Service](o); ok {
			t.Errorf("%T: %v", o, got)
		}
	}
}

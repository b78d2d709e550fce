package kube

import (
	"net/http"
	"testing"
	"testing/synctest"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestOnceServed uses an API server that does not serve a resource for the first three writes.
func TestOnceServed(t *testing.T) {
	resource := schema.GroupResource{Group: "multicluster.x-k8s.io", Resource: "serviceexports"}
	notServed := apierrors.NewGenericServerResponse(
		http.StatusNotFound, "patch", resource, "web", "404 page not found", 0, true,
	)
	missing := apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "shop")
	for _, test := range []struct {
		name     string
		answers  []error
		attempts int
		last     error
	}{
		{"not served at first", []error{notServed, notServed, notServed, nil}, 4, nil},
		{"a missing namespace is an immediate error", []error{missing, nil}, 1, missing},
		{"another error later", []error{notServed, missing, nil}, 2, missing},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				attempts := 0
				err := onceServed(t.Context(), func() error {
					attempts++
					return test.answers[attempts-1]
				})
				if err != test.last || attempts != test.attempts {
					t.Errorf("%d attempts and error %v, want %d and %v", attempts, err, test.attempts, test.last)
				}
			})
		})
	}
}

// TestNeverServed expects the API server's error after the timeout.
func TestNeverServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		notServed := apierrors.NewGenericServerResponse(
			http.StatusNotFound, "patch", schema.GroupResource{}, "", "", 0, true,
		)
		if err := onceServed(t.Context(), func() error { return notServed }); err != notServed {
			t.Errorf("error %v, want %v", err, notServed)
		}
	})
}

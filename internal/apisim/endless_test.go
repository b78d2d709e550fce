package apisim

import (
	"context"
	"errors"
	"net/http/httptest"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestEndlessCanceled checks that endless lists encode no object after the request has ended.
// Handlers that continue would still run after Server.Close.
func TestEndlessCanceled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	of, ok := parsePath("/api/v1/services")
	if !ok {
		t.Fatal("the path is not served")
	}
	for _, how := range []Endless{EndlessPages, EndlessRepeats, EndlessLists, EndlessElements} {
		for _, protobuf := range []bool{false, true} {
			r := &request{target: of, options: metav1.ListOptions{Limit: 500}, protobuf: protobuf}
			if err := how.answer(r)(ctx, httptest.NewRecorder()); !errors.Is(err, context.Canceled) {
				t.Errorf("%s, protobuf %v: %v", how, protobuf, err)
			}
		}
	}
}

package kube

import (
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestErrorInYAML: the body of an error is not decoded as YAML, whose aliases make some kilobytes large. Its status counts.
func TestErrorInYAML(t *testing.T) {
	body := "kind: Status\napiVersion: v1\nmessage: no\nx: &a " + strings.Repeat("x", 30<<10) + "\ny: [" + strings.Repeat("*a, ", 7<<10) + "]\n"
	client := hostileClient(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/yaml")
		w.WriteHeader(http.StatusForbidden)
		io.WriteString(w, body)
	}), false)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := client.Pods("").List(t.Context(), metav1.ListOptions{})
	runtime.ReadMemStats(&after)
	if !apierrors.IsForbidden(err) {
		t.Error(err)
	}
	if took := (after.TotalAlloc - before.TotalAlloc) >> 20; took > 20 {
		t.Errorf("%d MiB are allocated", took)
	}
}

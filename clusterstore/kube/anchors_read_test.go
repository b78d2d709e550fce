package kube

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// TestAnchorsOf: trust anchors come from an API server that has them, or else the reason is an error. Whatever it answers,
// that takes some megabytes: a list of empty Pods, as which client-go would decode it, takes hundreds.
func TestAnchorsOf(t *testing.T) {
	good, err := json.Marshal(map[string]any{"kind": "ConfigMap", "apiVersion": "v1", "data": map[string]string{anchorsKey: certificate(t, time.Hour)}})
	if err != nil {
		t.Fatal(err)
	}
	for want, answer := range map[string]string{
		"":              string(good),
		"has no key":    `{"kind":"ConfigMap","apiVersion":"v1"}`,
		"50000 values":  `{"kind":"PodList","apiVersion":"v1","items":[` + strings.Repeat("{},", 200_000) + `{}]}`,
		"than 1 MiB":    `{"data":{"x":"` + strings.Repeat("x", 1<<20) + `"}}`,
		"no ConfigMap ": "",
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			if answer == "" {
				w.WriteHeader(http.StatusNotFound)
				_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"no ConfigMap here","reason":"NotFound","code":404}`)
				return
			}
			if r.URL.Path != "/api/v1/namespaces/linkerd/configmaps/"+AnchorsConfigMap {
				t.Errorf("asked for %s", r.URL)
			}
			_, _ = io.WriteString(w, answer)
		}))
		client, err := New("east", &rest.Config{Host: server.URL}, nil)
		if err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		anchors, err := readAnchors(t.Context(), client.Sources, "linkerd")
		runtime.ReadMemStats(&after)
		if (want == "") != (err == nil && len(anchors) == 1) || want != "" && !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%v, %v, want %q", anchors, err, want)
		}
		if took := after.TotalAlloc - before.TotalAlloc; took > 32<<20 {
			t.Errorf("%q: %d MiB were allocated", want, took>>20)
		}
		client.Close()
		server.Close()
	}
}

package faults

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"isthmus/e2e/bench/proc"
	"isthmus/e2e/gateway"
	"isthmus/e2e/object"
)

// largeDiscovery is the size of an answer of API discovery: less than an answer may have at all.
const largeDiscovery = 200 << 20

// TestLargeDiscovery links a cluster whose API server answers 404 to the lists of optional kinds. The gateway then asks API
// discovery, for all of them at the same time, and gets far more than its memory. What discovery answers counts for the
// cluster's budget.
func TestLargeDiscovery(t *testing.T) {
	t.Parallel()
	optional := []string{"replicasets", "jobs", "servers", "externalworkloads"}
	item := `{"name":"` + strings.Repeat("x", 256) + `"},`
	var answered atomic.Int32
	a := newActor(t, "vast", func(w http.ResponseWriter, r *http.Request, resource string) bool {
		switch {
		case slices.Contains(optional, resource):
			return answer(w, http.StatusNotFound, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`)
		case r.URL.Path != "/apis": // which is what discovery is asked first
			return false
		}
		defer answered.Add(1)
		w.Header().Set("Content-Type", "application/json")
		_, err := io.WriteString(w, `{"kind":"APIGroupList","groups":[`)
		for sent := 0; err == nil && sent < largeDiscovery; sent += len(item) {
			_, err = io.WriteString(w, item)
		}
		return true
	}, object.Service("ns", "one"))
	w, _ := newActorsOf(t, gateway.Config{Env: []string{"GOMEMLIMIT=" + endlessMemory}}, a)
	w.awaitState(t, a.name, "ready", recovery)
	await(t, patience, func() error {
		if n := int(answered.Load()); n < len(optional) {
			return fmt.Errorf("API discovery has been asked %d times", n)
		}
		return nil
	})
	peak, err := proc.Peak(w.gateway.Pid())
	must(t, err)
	t.Logf("the gateway took %d MiB at most", peak>>20)
	if peak > endlessPeak {
		t.Errorf("the gateway took %d MiB", peak>>20)
	}
}

package faults

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"isthmus/e2e/harness"
	"isthmus/e2e/harness/kube"
	"isthmus/internal/apisim"
)

// optional lists the resources that the cluster does not serve. Isthmus confirms the absence of
// each resource with an API discovery, so this test causes several discoveries at once.
var optional = []string{"replicasets", "jobs", "servers", "externalworkloads"}

// TestVastDiscovery checks that responses to API discovery count towards the cluster's memory cap.
// The replica must not use more memory than it has in an HA installation of Linkerd.
func TestVastDiscovery(t *testing.T) {
	inTurn(t)
	start := func(name string) *endlessCluster {
		s, err := apisim.Start(name, nil)
		must(t, err)
		t.Cleanup(func() { must(t, s.Close()) })
		s.Admit("good")
		return &endlessCluster{Server: s, name: name}
	}
	own, vast := start("own"), start("vast")
	target, err := url.Parse("http://" + vast.Addr())
	must(t, err)
	var discovered atomic.Int32
	server := harness.Intercept(
		t,
		target,
		&http.Transport{},
		func(w http.ResponseWriter, r *http.Request, forward http.HandlerFunc) {
			w.Header().Set("Content-Type", "application/json")
			switch {
			case slices.Contains(optional, path.Base(r.URL.Path)):
				w.WriteHeader(http.StatusNotFound)
				_, _ = io.WriteString(
					w,
					`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`,
				)
			case r.URL.Path == "/apis": // the first request of API discovery
				_, err := io.WriteString(w, `{"kind":"APIGroupList","groups":[`)
				item := `{"name":"` + strings.Repeat("x", 256) + `"},`
				for sent := 0; err == nil && sent < 200<<20; sent += len(item) { // below the limit for a response
					_, err = io.WriteString(w, item)
				}
				discovered.Add(1)
			default:
				w.Header().Del("Content-Type")
				forward(w, r)
			}
		},
	)
	kubeconfig, err := vast.Kubeconfig(server.Listener.Addr().String(), "good")
	must(t, err)
	must(t, own.Put(kube.Link(vast.name, kubeconfig)))
	w := startBeside(t, own)
	// Isthmus waits 25 s for resources whose absence discovery does not confirm.
	w.awaitState(t, vast.name, "ready", 40*time.Second)
	await(t, patience, func() error {
		if n := int(discovered.Load()); n < len(optional) {
			return fmt.Errorf("%d requests for API discovery", n)
		}
		return nil
	})
}

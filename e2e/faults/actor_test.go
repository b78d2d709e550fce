package faults

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"isthmus/e2e/gateway"
	"isthmus/e2e/intercept"
	"isthmus/e2e/object"
	"isthmus/internal/apisim"
)

// actor is the API server of a linked cluster that misbehaves.
type actor struct {
	name   string
	api    *apisim.Server
	server *httptest.Server

	mu       sync.Mutex
	requests map[string]int // lists and watches, by resource
}

// misdeed answers a list or watch. It returns false for what the API server is to answer.
type misdeed func(w http.ResponseWriter, r *http.Request, resource string) bool

// newActor starts the server of a cluster with these objects.
func newActor(t *testing.T, name string, does misdeed, objects ...runtime.Object) *actor {
	t.Helper()
	api, err := apisim.Start(name, nil)
	must(t, err)
	t.Cleanup(func() { must(t, api.Close()) })
	for _, o := range objects {
		must(t, api.Put(o))
	}
	target, err := url.Parse("http://" + api.Addr())
	must(t, err)
	transport := &http.Transport{}
	a := &actor{name: name, api: api, requests: make(map[string]int)}
	a.server = intercept.Start(t, target, transport, func(w http.ResponseWriter, r *http.Request, forward http.HandlerFunc) {
		resource := path.Base(r.URL.Path)
		a.count(resource)
		if does == nil || !does(w, r, resource) {
			forward(w, r)
		}
	})
	return a
}

func (a *actor) count(resource string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.requests[resource]++
}

// requested returns how often a resource has been requested.
func (a *actor) requested(resource string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.requests[resource]
}

func isWatch(r *http.Request) bool { return r.URL.Query().Get("watch") == "true" }

func isStreamedList(r *http.Request) bool { return r.URL.Query().Get("sendInitialEvents") == "true" }

// newActors starts a gateway whose own cluster is a light API server, with links to these. It returns that API server
// too.
func newActors(t *testing.T, actors ...*actor) (*world, *apisim.Server) {
	t.Helper()
	own, err := apisim.Start("own", nil)
	must(t, err)
	t.Cleanup(func() { must(t, own.Close()) })
	for _, a := range actors {
		kubeconfig, err := a.api.Kubeconfig(a.server.Listener.Addr().String(), "token")
		must(t, err)
		must(t, own.Put(object.Link(a.name, kubeconfig)))
	}
	kubeconfig, err := own.Kubeconfig(own.Addr(), "token")
	must(t, err)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	must(t, os.WriteFile(file, kubeconfig, 0o600))
	g, err := gateway.Start(t.Context(), gateway.Config{Kubeconfig: file, Env: []string{"GOMEMLIMIT=" + endlessMemory}})
	must(t, err)
	t.Cleanup(func() { must(t, g.Stop()) })
	return &world{gateway: g}, own
}

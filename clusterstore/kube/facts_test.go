package kube

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"isthmus/internal/adminapi"
)

// TestKeep: once the server has answered its facts are read, and again and again; what may not be read is shown, and is no
// reason to read sooner.
func TestKeep(t *testing.T) {
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.URL.Path == "/version":
			fmt.Fprintf(w, `{"gitVersion":"v%d\u001b"}`, asked.Add(1))
		case strings.HasSuffix(r.URL.Path, "/configmaps/"+AnchorsConfigMap):
			w.WriteHeader(http.StatusNotFound)
			io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`)
		default:
			w.WriteHeader(http.StatusForbidden)
			io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"no"}`)
		}
	}))
	defer server.Close()
	client, err := New("east", &rest.Config{Host: server.URL}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithCancel(t.Context())
	k, done, listed := NewKeeper(client, "mesh", nil), make(chan struct{}), make(chan struct{})
	close(listed)
	k.every = time.Millisecond
	go func() {
		defer close(done)
		k.Run(ctx, listed)
	}()
	if _, err := Version(ctx, client.Sources); err != nil { // the first answer
		t.Fatal(err)
	}
	var before *Facts
	for range 2 {
		for k.Facts() == before { // until they are read, and read again
			time.Sleep(time.Millisecond)
		}
		before = k.Facts()
		var s adminapi.APIServer
		before.AddTo(&s)
		if !strings.HasSuffix(s.Version, "\ufffd") || s.VersionError != "" ||
			s.Anchors.Error != "ConfigMap mesh/linkerd-identity-trust-roots is not there" ||
			s.Networks.Error != "the credentials may not read Nodes" {
			t.Errorf("%+v, %+v, %+v", s, s.Anchors, s.Networks)
		}
	}
	cancel()
	<-done
	if got := fmt.Sprint(client.Server().Refused); got != "[{get configmaps/linkerd-identity-trust-roots 404} {list nodes 403}]" {
		t.Errorf("refused: %s", got)
	}
	var none *Facts
	var s adminapi.APIServer
	if none.AddTo(&s); s.Anchors != nil || s.Version != "" {
		t.Errorf("of nothing: %+v", s)
	}
}

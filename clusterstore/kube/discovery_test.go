package kube

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"isthmus/clusterstore/budget"
)

const (
	withServers    = `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"policy.linkerd.io/v1beta3","resources":[{"name":"httproutes"},{"name":"servers"}]}`
	withoutServers = `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"policy.linkerd.io/v1beta3","resources":[{"name":"servers/status"}]}`
	groupList      = `{"kind":"APIGroupList","apiVersion":"v1","groups":[{"name":"policy.linkerd.io","versions":[{"groupVersion":"policy.linkerd.io/%s","version":"v1"}]}]}`
	notFoundStatus = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`
)

// TestServes: a resource is absent only if discovery has an answer that an API server
// would give, and which does not have it.
func TestServes(t *testing.T) {
	type answer struct {
		code int
		text string
	}
	for name, c := range map[string]struct {
		version, groups answer
		serves, unknown bool
	}{
		"there":                       {version: answer{200, withServers}, serves: true},
		"another resource":            {version: answer{200, withoutServers}},
		"another version":             {version: answer{404, notFoundStatus}, groups: answer{200, fmt.Sprintf(groupList, "v1beta4")}},
		"a contradiction":             {version: answer{404, notFoundStatus}, groups: answer{200, fmt.Sprintf(groupList, "v1beta3")}, unknown: true},
		"everything is not found":     {version: answer{404, notFoundStatus}, groups: answer{404, notFoundStatus}, unknown: true},
		"not found, and no groups":    {version: answer{404, notFoundStatus}, groups: answer{200, `{"kind":"APIGroupList","apiVersion":"v1","groups":[]}`}, unknown: true},
		"not found, and another kind": {version: answer{404, notFoundStatus}, groups: answer{200, withServers}, unknown: true},
		"forbidden":                   {version: answer{403, "{}"}, unknown: true},
		"groups are forbidden":        {version: answer{404, notFoundStatus}, groups: answer{403, "{}"}, unknown: true},
		"another kind":                {version: answer{200, `{"kind":"Status","apiVersion":"v1","status":"Success"}`}, unknown: true},
		"a list of another version":   {version: answer{200, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"v1","resources":[]}`}, unknown: true},
		"a web page":                  {version: answer{200, "<html>"}, unknown: true},
		"nothing":                     {version: answer{200, ""}, unknown: true},
	} {
		t.Run(name, func(t *testing.T) {
			client := hostileClient(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				is := c.groups
				if r.URL.Path == "/apis/policy.linkerd.io/v1beta3" {
					is = c.version
				} else if r.URL.Path != "/apis" {
					t.Errorf("%s is requested", r.URL)
				}
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(is.code)
				_, _ = w.Write([]byte(is.text))
			}), false)
			serves, err := client.Serves(t.Context(), schema.GroupVersionResource{Group: "policy.linkerd.io", Version: "v1beta3", Resource: "servers"})
			if serves != c.serves || (err != nil) != c.unknown {
				t.Errorf("%v, %v", serves, err)
			}
		})
	}
}

// TestServesBudget: answers of API discovery count for the budget while they are decoded,
// in turn. Between them no turn is taken, so that a slow server keeps no other cluster's
// lists waiting.
func TestServesBudget(t *testing.T) {
	pool := budget.NewPool(budget.Limits{Cluster: 8 << 20, All: 32 << 20})
	b, other := pool.Add(), pool.Add()
	defer takeTurn(t, pool).End()
	large := false
	client := hostileClient(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path == "/apis" {
			ctx, request := other.Begin(context.Background(), "a list of another cluster", nil)
			defer request.End()
			ctx, stop := context.WithTimeout(ctx, 10*time.Second)
			defer stop()
			if err := request.AwaitTurn(ctx); err != nil {
				t.Error("the turn is taken between two answers")
			}
			w.WriteHeader(http.StatusNotFound)
			return
		}
		if large {
			_, _ = fmt.Fprintf(w, `{"resources":[%s{}]}`, strings.Repeat(`{"name":"x"},`, 1<<18))
			return
		}
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte(notFoundStatus))
	}), false)
	for _, large = range []bool{false, true} {
		ctx, request := b.Begin(t.Context(), "API discovery for servers", nil)
		_, err := client.Serves(ctx, schema.GroupVersionResource{Group: "policy.linkerd.io", Version: "v1beta3", Resource: "servers"})
		if errors.Is(err, budget.ErrOver) != large || err == nil {
			t.Errorf("large %v: %v", large, err)
		}
		if used := b.Usage().Used; used != 0 {
			t.Errorf("large %v: %d bytes are taken", large, used)
		}
		request.End()
	}
}

// takeTurn takes one of the two turns to decode a list.
func takeTurn(t *testing.T, pool *budget.Pool) *budget.Request {
	ctx, r := pool.Add().Begin(t.Context(), "a list that is being decoded", nil)
	if err := r.AwaitTurn(ctx); err != nil {
		t.Fatal(err)
	}
	return r
}

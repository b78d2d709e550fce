package kube

import (
	"fmt"
	"net/http"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
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
		"no resources":                {version: answer{200, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"policy.linkerd.io/v1beta3","resources":null}`}},
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
			serves, err := client.Sources.Serves(t.Context(), schema.GroupVersionResource{Group: "policy.linkerd.io", Version: "v1beta3", Resource: "servers"})
			if serves != c.serves || (err != nil) != c.unknown {
				t.Errorf("%v, %v", serves, err)
			}
		})
	}
}

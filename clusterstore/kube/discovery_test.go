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

// TestServes: a resource is absent only if discovery has answers that an API server
// would give, and which do not have it.
func TestServes(t *testing.T) {
	type answer struct {
		code int
		text string
	}
	groups := func(version string) answer { return answer{200, fmt.Sprintf(groupList, version)} }
	const list = "/apis/policy.linkerd.io/v1beta3"
	for name, c := range map[string]struct {
		groups, version answer // version: of the resources of v1beta3
		serves, unknown bool
		asked           string // besides /apis
	}{
		"there":                     {groups("v1beta3"), answer{200, withServers}, true, false, list},
		"another resource":          {groups("v1beta3"), answer{200, withoutServers}, false, false, list},
		"no resources":              {groups("v1beta3"), answer{200, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"policy.linkerd.io/v1beta3","resources":null}`}, false, false, list},
		"another version":           {groups("v1beta4"), answer{}, false, false, ""},
		"an older version":          {groups("v1beta2"), answer{}, false, true, "/apis/policy.linkerd.io/v1beta2"},
		"a contradiction":           {groups("v1beta3"), answer{404, notFoundStatus}, false, true, list},
		"everything is not found":   {answer{404, notFoundStatus}, answer{}, false, true, ""},
		"no groups":                 {answer{200, `{"kind":"APIGroupList","apiVersion":"v1","groups":[]}`}, answer{}, false, true, ""},
		"resources for groups":      {answer{200, withServers}, answer{}, false, true, ""},
		"forbidden":                 {groups("v1beta3"), answer{403, "{}"}, false, true, list},
		"groups are forbidden":      {answer{403, "{}"}, answer{}, false, true, ""},
		"another kind":              {groups("v1beta3"), answer{200, `{"kind":"Status","apiVersion":"v1","status":"Success"}`}, false, true, list},
		"a list of another version": {groups("v1beta3"), answer{200, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"v1","resources":[]}`}, false, true, list},
		"a web page":                {answer{200, "<html>"}, answer{}, false, true, ""},
		"nothing":                   {answer{200, ""}, answer{}, false, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			asked := ""
			client := hostileClient(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				is := c.groups
				if r.URL.Path != "/apis" {
					asked += r.URL.Path
					is = answer{404, notFoundStatus}
				}
				if r.URL.Path == list {
					is = c.version
				}
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(is.code)
				_, _ = w.Write([]byte(is.text))
			}), false)
			const group = "policy.linkerd.io"
			serves, err := client.Sources.Serves(t.Context(), "servers", schema.GroupVersion{Group: group, Version: "v1beta3"}, schema.GroupVersion{Group: group, Version: "v1beta2"})
			if serves != c.serves || (err != nil) != c.unknown || asked != c.asked {
				t.Errorf("%v, %v; asked for %s", serves, err, asked)
			}
		})
	}
}

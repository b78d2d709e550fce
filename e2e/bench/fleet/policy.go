package fleet

import (
	"fmt"

	"isthmus/e2e/bench/world"
	"isthmus/e2e/object"
)

// serverPort is the port that Servers are of, which no Service has: endpoints are as without them, but what they are has to be
// found out.
const serverPort = 9090

// app is what the Pods of a Server have as their label "app".
func app(i int) string { return fmt.Sprintf("app-%04d", i) }

// rule writes a cluster's Servers, and into the local one the ServiceProfiles.
func (c *member) rule(cfg Config) error {
	for i := range cfg.Servers {
		if err := c.api.Put(object.OpaqueServer(world.Namespace, app(i), app(i), serverPort)); err != nil {
			return err
		}
	}
	for i := range cfg.Profiles {
		if c.number > 0 {
			break
		}
		service, _ := Service(i, false)
		if err := c.api.Put(object.ServiceProfile(world.Namespace, service, route("GET", "/orders"), route("POST", "/orders"))); err != nil {
			return err
		}
	}
	return nil
}

func route(method, path string) map[string]any {
	return map[string]any{"name": method + " " + path, "condition": map[string]any{"method": method, "pathRegex": path + "/[^/]*"}}
}

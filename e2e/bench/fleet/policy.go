package fleet

import (
	"fmt"

	"isthmus/e2e/object"
)

// serverPort is the port that Servers are of, which no Service has: endpoints are as without them, but what they are has to be
// found out.
const serverPort = 9090

// rule writes a cluster's Servers, and into the local one the ServiceProfiles and the clients' nodes.
func (c *member) rule(cfg Config) error {
	for i := range cfg.Servers {
		if err := c.api.Put(object.OpaqueServer(Namespace, app(i), app(i), serverPort)); err != nil {
			return err
		}
	}
	if c.number > 0 {
		return nil
	}
	for i := range nodes {
		if !cfg.Nodes {
			break
		}
		if err := c.api.Put(object.Node(node(i), fmt.Sprintf("zone-%d", i%zones))); err != nil {
			return err
		}
	}
	for i := range cfg.Profiles {
		if err := c.api.Put(object.ServiceProfile(Namespace, Service(i), route("GET", "/orders"), route("POST", "/orders"))); err != nil {
			return err
		}
	}
	return nil
}

func route(method, path string) map[string]any {
	return map[string]any{"name": method + " " + path, "condition": map[string]any{"method": method, "pathRegex": path + "/[^/]*"}}
}

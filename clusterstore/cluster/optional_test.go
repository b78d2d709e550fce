package cluster

import (
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestOptional: an optional kind that can't be read delays nothing and makes no cluster stale. What it has is there soon
// after it can be read, and stays when it can't be any more.
func TestOptional(t *testing.T) {
	replicaSet := metadataOf("ReplicaSet", "web-1", "Deployment", "web")
	replicaSet.APIVersion = "apps/v1"
	for resource, x := range map[string]struct {
		o     runtime.Object
		shows func(*running) bool
	}{
		"replicasets": {replicaSet, func(r *running) bool {
			return strings.Contains(describe(r.Reader(web80.Service, 80).Read().Slices[0].Endpoints[0]), "deployment:web")
		}},
		"servers":           {aServer("s", "8080", ""), func(r *running) bool { return r.opaque() == "10.0.0.1:8080" }},
		"externalworkloads": {aWorkload("v"), func(r *running) bool { return r.addrs() == "10.0.0.1:8080 10.0.0.2:8080" }},
		"serviceprofiles": {aProfile("web.ns", `{}`), func(r *running) bool {
			_, exists := r.ServiceProfile("ns", "web.ns.svc.cluster.local")
			return exists
		}},
		"nodes": {aNode("a", "north"), func(r *running) bool { return r.Region() == "north" }},
	} {
		for why, err := range map[string]error{
			"forbidden": forbidden(resource), "absent": apierrors.NewNotFound(schema.GroupResource{Resource: resource}, ""),
		} {
			t.Run(resource+" "+why, func(t *testing.T) {
				inCluster(t, func(c *Config, tr *trouble) {
					withAddresses(c)
					c.Nodes = true
					tr.set("* "+resource, err)
				}, func(r *running) {
					check := func(synced, failing bool) {
						t.Helper()
						h, one := r.Health(), r.resource(resource)
						if !r.isSynced() || h.Err != nil || !h.StaleSince.IsZero() || one.Needed || one.Synced != synced || (one.Err != "") != failing || x.shows(r) != synced {
							t.Errorf("%+v, of %+v", one, h)
						}
					}
					r.create(x.o)
					time.Sleep(time.Hour)
					check(false, true)
					r.trouble.set("* "+resource, nil)
					r.until("it is read", 30*time.Second, func() bool { return x.shows(r) })
					check(true, false)
					r.trouble.set("* "+resource, forbidden(resource))
					r.trouble.cut()
					time.Sleep(time.Hour)
					check(true, true)
				}, aService("web", "http=80"), aPod("p", ownedBy("ReplicaSet", "web-1")), aSlice("s", "web", "http=8080", "10.0.0.1 pod=p", "10.0.0.2 ew=v"))
			})
		}
	}
}

func (r *running) opaque() string {
	w := &world{Own: r.Own, t: r.t}
	return w.opaqueAt(80)
}

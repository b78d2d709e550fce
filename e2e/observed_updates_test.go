package e2e

import (
	"context"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"isthmus/e2e/harness/kube"
	"isthmus/e2e/shop"
)

// endpoints is an object that only the second gateway reads.
const endpoints = `
apiVersion: v1
kind: Endpoints
metadata: {name: extra, namespace: shop}
subsets: [{addresses: [{ip: 10.210.0.1}], ports: [{port: 8080}]}]
`

// updated is an object that the world keeps updating.
type updated struct {
	cluster  string
	resource schema.GroupVersionResource
	name     string
}

// updates keeps updating an object of each kind whose informer lag is measured, but EndpointSlices, which follow the
// Pods, until the test ends. A gateway measures the first update in each second of a kind in a cluster, unless an object
// of that kind was made in that second before. So the objects are where no others of their kind are made: Pods in north,
// which is not scaled.
func (o *observed) updates() {
	// Of these kinds the shop has no objects.
	west := o.shops["west"]
	must(o.t, west.ApplyYAML(o.t.Context(), endpoints))
	must(o.t, west.Apply(o.t.Context(), kube.OpaqueServer(shop.Namespace, "extra", "extra", kube.Port),
		kube.ExternalWorkload(shop.Namespace, "extra", "10.210.0.2"), kube.ServiceProfile(shop.Namespace, "extra")))
	pods, err := o.shops["north"].CoreV1().Pods(shop.Namespace).List(o.t.Context(), metav1.ListOptions{})
	must(o.t, err)
	all := []updated{
		{"north", schema.GroupVersionResource{Version: "v1", Resource: "pods"}, pods.Items[0].Name},
		{"north", schema.GroupVersionResource{Version: "v1", Resource: "services"}, "cart"},
		{"west", schema.GroupVersionResource{Version: "v1", Resource: "endpoints"}, "extra"},
		{"west", schema.GroupVersionResource{Group: "policy.linkerd.io", Version: "v1beta3", Resource: "servers"}, "extra"},
		{"west", schema.GroupVersionResource{Group: "workload.linkerd.io", Version: "v1beta1", Resource: "externalworkloads"}, "extra"},
		{"west", schema.GroupVersionResource{Group: "linkerd.io", Version: "v1alpha2", Resource: "serviceprofiles"}, "extra.shop.svc.cluster.local"},
	}
	var loops []func(context.Context, int) error
	for _, u := range all {
		objects := o.shops[u.cluster].In(u.resource, shop.Namespace)
		loops = append(loops, func(ctx context.Context, n int) error {
			note := fmt.Appendf(nil, `{"metadata":{"annotations":{"n":"%d"}}}`, n)
			_, err := objects.Patch(ctx, u.name, types.MergePatchType, note, metav1.PatchOptions{})
			return err
		})
	}
	o.again(loops...)
}

// again does things five times a second, each counting up, until the test ends. An API server of a busy machine may fail
// now and then, but not for a minute.
func (o *observed) again(things ...func(ctx context.Context, n int) error) {
	ctx, stop := context.WithCancel(context.Background())
	var done sync.WaitGroup
	for _, do := range things {
		done.Go(func() {
			tick := time.NewTicker(200 * time.Millisecond)
			defer tick.Stop()
			last := time.Now() // when all went well
			for n := 0; ctx.Err() == nil; n++ {
				switch err := do(ctx, n); {
				case err == nil:
					last = time.Now()
				case ctx.Err() == nil && time.Since(last) > time.Minute:
					o.t.Error(err)
					return
				}
				select {
				case <-tick.C:
				case <-ctx.Done():
				}
			}
		})
	}
	o.t.Cleanup(func() {
		stop()
		done.Wait()
	})
}

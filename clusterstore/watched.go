package clusterstore

import (
	"context"
	"unique"

	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"isthmus/clusterstore/crd"
	"isthmus/clusterstore/kube"
)

// watched says which resources the cluster follows, and how each gets into the
// state. To follow another one, add it here.
func (c *Cluster) watched(api *kube.Client) []*resource {
	rules, s := c.cfg.Rules, c.state
	all := []*resource{
		newResource(c, api, "services", true, &corev1.Service{}, typed(api.Core.Services("")),
			&feed[*corev1.Service, *Service]{compact: c.compactService, kind: s.serviceKind(), changed: c.toldService()}),
		newResource(c, api, "pods", true, &corev1.Pod{}, typed(api.Core.Pods("")),
			&feed[*corev1.Pod, placedPod]{compact: c.compactPod, kind: s.podKind(), changed: c.checkProxy}),
	}
	if rules.EndpointSlices {
		all = append(all, newResource(c, api, "endpointslices", true, &discoveryv1.EndpointSlice{}, typed(api.Discovery.EndpointSlices("")),
			&feed[*discoveryv1.EndpointSlice, *sliceData]{compact: c.compactSlice, kind: s.sliceKind()}))
	} else {
		all = append(all, newResource(c, api, "endpoints", true, &coreEndpoints{}, typed(api.Core.Endpoints("")),
			&feed[*coreEndpoints, *sliceData]{compact: c.compactEndpoints, kind: s.sliceKind()}))
	}
	meta := func(group, resource string) calls {
		return typed(api.Metadata.Resource(schema.GroupVersionResource{Group: group, Version: "v1", Resource: resource}))
	}
	all = append(all,
		newResource(c, api, "replicasets", false, &metav1.PartialObjectMetadata{}, meta("apps", "replicasets"),
			&feed[*metav1.PartialObjectMetadata, unique.Handle[reference]]{compact: compactOwner, kind: s.ownerKind(kindReplicaSet)}),
		newResource(c, api, "jobs", false, &metav1.PartialObjectMetadata{}, meta("batch", "jobs"),
			&feed[*metav1.PartialObjectMetadata, unique.Handle[reference]]{compact: compactOwner, kind: s.ownerKind(kindJob)}))
	// ExternalWorkloads of a linked cluster are read if it lets us.
	all = append(all,
		newResource(c, api, "servers", false, &crd.Server{}, typed(api.Servers),
			&feed[*crd.Server, *serverFacts]{compact: compactServer, kind: s.serverKind()}),
		newResource(c, api, "externalworkloads", false, &crd.ExternalWorkload{}, typed(api.Workloads),
			&feed[*crd.ExternalWorkload, placedPod]{compact: c.compactWorkload, kind: s.workloadKind()}))
	if s.addresses != nil {
		all = append(all, newResource(c, api, "serviceprofiles", false, &crd.ServiceProfile{}, typed(api.Profiles),
			&feed[*crd.ServiceProfile, *profileFacts]{compact: compactServiceProfile, kind: s.profileKind(), changed: c.checkProfile}))
	}
	if c.cfg.OnNode != nil {
		all = append(all, newResource(c, api, "nodes", false, &metav1.PartialObjectMetadata{}, meta("", "nodes"),
			&feed[*metav1.PartialObjectMetadata, string]{compact: compactNode, kind: s.nodeKind(), changed: c.cfg.OnNode}))
	}
	return all
}

func (c *Cluster) compactService(o *corev1.Service) (*Service, bool) {
	return c.cfg.Rules.compactService(o, c.cfg.OnService != nil), true
}

func (c *Cluster) compactPod(o *corev1.Pod) (p placedPod, ok bool) {
	p.facts = c.cfg.Rules.compactPod(o)
	if c.state.addresses != nil {
		p.site = podSite(o)
	}
	return p, true
}

func (c *Cluster) compactWorkload(o *crd.ExternalWorkload) (p placedPod, ok bool) {
	p.facts = c.cfg.Rules.compactWorkload(o)
	if c.state.addresses != nil && p.facts.template.Value().invalid == "" {
		p.site = workloadSite(o)
	}
	return p, true
}

func (c *Cluster) compactSlice(o *discoveryv1.EndpointSlice) (*sliceData, bool) {
	return compactSlice(o, c.state.addresses != nil)
}

func (c *Cluster) compactEndpoints(o *coreEndpoints) (*sliceData, bool) {
	return compactEndpoints(o, c.state.addresses != nil)
}

// toldService is what to call when a Service has changed; nil: nobody wants to know.
func (c *Cluster) toldService() func(string, *Service, bool) {
	tell := c.cfg.OnService
	if tell == nil {
		return nil
	}
	return func(key string, s *Service, _ bool) { tell(serviceID(key), s) }
}

// checkProxy says which Pods are behind Health's MalformedProxies.
func (c *Cluster) checkProxy(key string, p placedPod, ok bool) {
	if ok && p.facts.template.Value().malformed() {
		c.cfg.Log.Debug("meshed pod does not say where its proxy listens", zap.String("pod", key))
	}
}

// calls are what is asked of the API about one resource.
type calls struct {
	list  func(context.Context, metav1.ListOptions) (runtime.Object, error)
	watch func(context.Context, metav1.ListOptions) (watch.Interface, error)
}

// lister is a client of one resource, in all namespaces.
type lister[L runtime.Object] interface {
	List(context.Context, metav1.ListOptions) (L, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
}

func typed[L runtime.Object](client lister[L]) calls {
	return calls{
		list: func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
			return client.List(ctx, opts)
		},
		watch: client.Watch,
	}
}

func newResource[O runtime.Object, T any](c *Cluster, api *kube.Client, name string, needed bool, example O, ask calls, f *feed[O, T]) *resource {
	r := &resource{
		name:        name,
		needed:      needed,
		example:     example,
		calls:       ask,
		noWatchList: api.NoWatchList,
		feed:        f,
		health:      c.health,
		lag:         c.cfg.Metrics.lag(name),
		settled:     make(chan struct{}),
	}
	f.state, f.resource = c.state, r
	return r
}

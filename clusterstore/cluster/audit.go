package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"isthmus/clusterstore/follow"
	"isthmus/federation"
)

// maxSelector is how long a Service's selector may be, in bytes.
const maxSelector = 4096

// Look compares what is kept of a Service with what the API has now, and returns one result
// for each resource: the Service, its EndpointSlices, the Pods and ExternalWorkloads that it
// selects, and a few others that its slices name. It changes nothing. What is on its way here
// is a difference too: look again later.
//
// admit is called before each request, and returns when it may be sent. The cluster's budget
// counts what comes. It fails if the cluster does not run.
func (c *Cluster) Look(ctx context.Context, svc federation.ServiceID, admit func(context.Context) error) ([]Looked, error) {
	ctx, done, err := c.looks.begin(ctx)
	if err != nil {
		return nil, fmt.Errorf("cluster %s: %w", c.cfg.Name, err)
	}
	defer done()
	from := &looking{cluster: c, namespace: svc.Namespace, admit: admit}
	var all []Looked
	service, selector := c.lookAtService(ctx, from, svc)
	if all = append(all, service); service.Err != nil {
		return all, nil
	}
	inSlices, named := c.lookAtSlices(ctx, from, svc)
	if all = append(all, inSlices); inSlices.Err != nil {
		return all, nil
	}
	if named.pods {
		all = append(all, c.lookAtPods(ctx, from, svc, selector))
	}
	if named.workloads {
		all = append(all, c.lookAtWorkloads(ctx, from, svc, selector))
	}
	return all, nil
}

// Relist makes a resource of the cluster be listed again. All objects stay meanwhile.
func (c *Cluster) Relist(resource string) {
	for _, r := range c.resources {
		if r.Name() == resource {
			r.Relist()
		}
	}
}

// lookAtService also returns the Service's selector; empty: it selects nothing.
func (c *Cluster) lookAtService(ctx context.Context, from *looking, svc federation.ServiceID) (Looked, string) {
	l := newLook(from, c.services())
	l.list = listOf(c.cfg.Client.Services(svc.Namespace))
	l.kept = func(key string) (*Service, bool) {
		e := c.state.services[serviceID(key)]
		if e == nil {
			return nil, false
		}
		return e.spec, e.spec != nil
	}
	l.same = (*Service).equal
	selector := ""
	l.listed = func(o *corev1.Service, _ *Service) {
		if selector = labels.SelectorFromSet(o.Spec.Selector).String(); len(selector) > maxSelector {
			selector = ""
		}
	}
	l.one(ctx, svc.Name)
	return l.Looked, selector
}

// named is what slices name.
type named struct{ pods, workloads bool }

func (n *named) add(d *sliceData) {
	for a := range d.all {
		n.addTarget(a.target)
	}
	for i := range d.subsets {
		for _, u := range d.unready(i) {
			n.addTarget(u.target)
		}
	}
}

func (n *named) addTarget(target string) {
	switch targetKind(target) {
	case federation.Pod:
		n.pods = true
	case federation.Workload:
		n.workloads = true
	}
}

// lookAtSlices looks at the Service's EndpointSlices or, if these are not read, its Endpoints.
// It also returns what they name.
func (c *Cluster) lookAtSlices(ctx context.Context, from *looking, svc federation.ServiceID) (Looked, named) {
	var names named
	kept := func(key string) (*sliceData, bool) {
		l := c.state.slices[key]
		if l == nil {
			return nil, false
		}
		return l.data, true
	}
	if !c.cfg.Rules.EndpointSlices {
		l := newLook(from, c.endpoints())
		l.list, l.kept, l.same = listOf(c.cfg.Client.Endpoints(svc.Namespace)), kept, (*sliceData).equal
		l.listed = func(_ *coreEndpoints, d *sliceData) { names.add(d) }
		l.one(ctx, svc.Name)
		return l.Looked, names
	}
	l := newLook(from, c.slices())
	l.list, l.kept, l.same = listOf(c.cfg.Client.EndpointSlices(svc.Namespace)), kept, (*sliceData).equal
	l.listed = func(_ *discoveryv1.EndpointSlice, d *sliceData) { names.add(d) }
	selector := labels.SelectorFromSet(labels.Set{discoveryv1.LabelServiceName: svc.Name}).String()
	if l.all(ctx, metav1.ListOptions{LabelSelector: selector}) {
		var keys []string
		for _, s := range c.state.slicesOf(svc) {
			keys = append(keys, s.key)
		}
		l.absent(ctx, keys)
	}
	return l.Looked, names
}

func (c *Cluster) lookAtPods(ctx context.Context, from *looking, svc federation.ServiceID, selector string) Looked {
	l := newLook(from, c.pods())
	l.list = listOf(c.cfg.Client.Pods(svc.Namespace))
	l.kept = func(key string) (placedPod, bool) { return c.state.placed(key) }
	l.same = placedPod.same
	if selector == "" || l.all(ctx, metav1.ListOptions{LabelSelector: selector}) {
		l.absent(ctx, c.state.targetsOf(svc, federation.Pod))
	}
	return l.Looked
}

func (c *Cluster) lookAtWorkloads(ctx context.Context, from *looking, svc federation.ServiceID, selector string) Looked {
	l := newLook(from, c.workloads())
	l.list = func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
		// The client is for all namespaces.
		within := fields.OneTermEqualSelector("metadata.namespace", svc.Namespace).String()
		opts.FieldSelector = strings.TrimPrefix(opts.FieldSelector+","+within, ",")
		return c.cfg.Client.Workloads.List(ctx, opts)
	}
	l.kept = func(key string) (placedPod, bool) { return c.state.placed(workloadPrefix + key) }
	l.same = placedPod.same
	if selector == "" || l.all(ctx, metav1.ListOptions{LabelSelector: selector}) {
		l.absent(ctx, c.state.targetsOf(svc, federation.Workload))
	}
	return l.Looked
}

// listOf returns the list call of a client.
func listOf[L runtime.Object](client follow.Lister[L]) func(context.Context, metav1.ListOptions) (runtime.Object, error) {
	return follow.CallsOf(client).List
}

// placed returns what is kept of a Pod or ExternalWorkload. s.mu is held.
func (s *state) placed(key string) (placedPod, bool) {
	p := s.pods.get(key)
	if p == nil || !p.facts.known() {
		return placedPod{}, false
	}
	o := placedPod{facts: p.facts}
	if s.addresses != nil {
		o.location = s.addresses.locations[p]
	}
	return o, true
}

func (p placedPod) same(o placedPod) bool { return p.facts == o.facts && p.location.equal(o.location) }

// targetsOf returns the keys, within their kind, of the objects that a Service's slices name
// and that are kept. It holds the state's lock for one slice at a time.
func (s *state) targetsOf(svc federation.ServiceID, kind federation.Kind) (keys []string) {
	add := func(l *slice) {
		s.mu.RLock()
		defer s.mu.RUnlock()
		for a := range l.data.all {
			if a.pod != nil && a.pod.facts.known() && targetKind(a.target) == kind {
				keys = append(keys, strings.TrimPrefix(a.target, workloadPrefix))
			}
		}
	}
	for _, l := range s.slicesOf(svc) {
		add(l)
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

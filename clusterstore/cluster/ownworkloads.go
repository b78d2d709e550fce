package cluster

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"isthmus/clusterstore/decode"
	"isthmus/clusterstore/follow"
	"isthmus/federation"
)

// What EndpointSlices for ExternalWorkloads are made of is kept for whoever writes them. The mark is
// LocalConfig.SliceManager: the value of the label by which slices name who manages them.

// Selecting returns a Service with what its slices for ExternalWorkloads are made of. It has no
// selector if it selects nothing. nil: there is no such Service.
func (c *Local) Selecting(id federation.ServiceID) *corev1.Service {
	if s := c.Service(id); s != nil {
		return s.decodeSelecting(id)
	}
	return nil
}

// SelectingIn returns the Services of a namespace that have a selector.
func (c *Local) SelectingIn(namespace string) (list []*corev1.Service) {
	c.state.mu.RLock()
	found := maps.Clone(c.state.own.selecting[namespace])
	c.state.mu.RUnlock()
	for name, s := range found {
		list = append(list, s.decodeSelecting(federation.ServiceID{Namespace: namespace, Name: name}))
	}
	return list
}

// setSelecting keeps a Service if it has a selector; nil: there is no such Service. x may be nil.
func (x *ownIndex) setSelecting(id federation.ServiceID, to *Service) {
	switch {
	case x == nil:
	case to == nil || to.selecting == nil:
		x.selecting.drop(id.Namespace, id.Name)
	default:
		x.selecting.set(id.Namespace, id.Name, to)
	}
}

// encodeSelecting keeps what slices are made of; nil: the Service selects nothing. Encoded it takes some
// 400 bytes, and has no pointers that the garbage collector would follow.
func encodeSelecting(o *corev1.Service) *string {
	if o.Spec.Type == corev1.ServiceTypeExternalName || len(o.Spec.Selector) == 0 {
		return nil
	}
	kept := corev1.Service{
		ObjectMeta: metav1.ObjectMeta{UID: o.UID, Labels: o.Labels, DeletionTimestamp: o.DeletionTimestamp},
		Spec:       corev1.ServiceSpec{ClusterIP: o.Spec.ClusterIP, Selector: o.Spec.Selector, IPFamilies: o.Spec.IPFamilies},
	}
	for _, p := range o.Spec.Ports {
		kept.Spec.Ports = append(kept.Spec.Ports, corev1.ServicePort{Name: p.Name, Protocol: p.Protocol, Port: p.Port, TargetPort: p.TargetPort})
	}
	data, _ := kept.Marshal() // it has no error of its own
	return new(string(data))
}

func (s *Service) decodeSelecting(id federation.ServiceID) *corev1.Service {
	o := &corev1.Service{}
	if s.selecting != nil {
		_ = o.Unmarshal([]byte(*s.selecting)) // encodeSelecting has made it
	}
	o.Namespace, o.Name = id.Namespace, id.Name
	return o
}

// Workloads returns the ExternalWorkloads of a namespace, or of all (""), with what slices have of them.
func (c *Local) Workloads(namespace string) (list []*decode.ExternalWorkload) {
	c.state.mu.RLock()
	defer c.state.mu.RUnlock()
	if namespace != "" {
		return slices.Collect(maps.Values(c.state.own.selected[namespace]))
	}
	for _, all := range c.state.own.selected {
		list = slices.AppendSeq(list, maps.Values(all))
	}
	return list
}

// HasWorkloads reports whether a namespace has ExternalWorkloads. It takes no longer if it has many.
func (c *Local) HasWorkloads(namespace string) bool {
	c.state.mu.RLock()
	defer c.state.mu.RUnlock()
	return len(c.state.own.selected[namespace]) > 0
}

// keepSelected returns what slices have of an ExternalWorkload.
func keepSelected(o *decode.ExternalWorkload) *decode.ExternalWorkload {
	kept := &decode.ExternalWorkload{
		ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: o.Name, UID: o.UID, Labels: o.Labels},
		Spec:       decode.ExternalWorkloadSpec{Ports: o.Spec.Ports, WorkloadIPs: o.Spec.WorkloadIPs},
		Invalid:    o.Invalid,
	}
	for _, condition := range o.Status.Conditions {
		if condition.Type == string(corev1.PodReady) {
			kept.Status.Conditions = append(kept.Status.Conditions, decode.WorkloadCondition{Type: condition.Type, Status: condition.Status})
		}
	}
	return kept
}

func sameSelected(a, b *decode.ExternalWorkload) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.UID == b.UID && a.Invalid == b.Invalid && maps.Equal(a.Labels, b.Labels) && slices.Equal(a.Spec.Ports, b.Spec.Ports) &&
		slices.Equal(a.Spec.WorkloadIPs, b.Spec.WorkloadIPs) && slices.Equal(a.Status.Conditions, b.Status.Conditions)
}

// selectedAt returns what slices have of the ExternalWorkload with that key; nil: nothing. x may be nil.
func (x *ownIndex) selectedAt(key string) *decode.ExternalWorkload {
	if x == nil {
		return nil
	}
	namespace, name := follow.SplitKey(key)
	return x.selected[namespace][name]
}

// setSelected keeps what slices have of the ExternalWorkload with that key; nil: nothing. x may be nil.
func (x *ownIndex) setSelected(key string, to *decode.ExternalWorkload) {
	if x == nil {
		return
	}
	x.replaced = x.selectedAt(key)
	namespace, name := follow.SplitKey(key)
	if to == nil {
		x.selected.drop(namespace, name)
	} else {
		x.selected.set(namespace, name, to)
	}
}

// byNamespace has something of objects, by namespace and name. Namespaces without any have no map.
type byNamespace[V any] map[string]map[string]V

func (b byNamespace[V]) set(namespace, name string, v V) {
	if b[namespace] == nil {
		b[namespace] = make(map[string]V)
	}
	b[namespace][name] = v
}

func (b byNamespace[V]) drop(namespace, name string) {
	if delete(b[namespace], name); len(b[namespace]) == 0 {
		delete(b, namespace)
	}
}

// ManagedSlices returns how many of a Service's slices have the mark.
func (c *Local) ManagedSlices(id federation.ServiceID) int {
	c.state.mu.RLock()
	defer c.state.mu.RUnlock()
	return c.state.own.marked[id]
}

// AllManagedSlices returns how many slices have the mark, by Service, without Services that have none.
func (c *Local) AllManagedSlices() map[federation.ServiceID]int {
	c.state.mu.RLock()
	defer c.state.mu.RUnlock()
	return maps.Clone(c.state.own.marked)
}

// countMarked adds n to how many slices of a Service have the mark, if the slice has it. x may be nil.
func (x *ownIndex) countMarked(l *slice, n int) {
	if x == nil || l == nil || l.marked == "" {
		return
	}
	if x.marked[l.service] += n; x.marked[l.service] == 0 {
		delete(x.marked, l.service)
	}
}

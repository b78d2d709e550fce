package cluster

import (
	"hash/maphash"
	"iter"
	"maps"
	"slices"
	"strings"
	"unique"

	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"isthmus/clusterstore/decode"
	"isthmus/clusterstore/follow"
	"isthmus/federation"
)

const (
	controlPlaneLabel     = "linkerd.io/control-plane-ns"
	opaqueAnnotation      = "config.linkerd.io/opaque-ports"
	skipAnnotation        = "config.linkerd.io/skip-inbound-ports"
	templateHashLabel     = "pod-template-hash"
	defaultServiceAccount = "default"
)

func podKind(c *Cluster) follow.Kind[*corev1.Pod, compactedPod] {
	return follow.Kind[*corev1.Pod, compactedPod]{
		Name: "pods", Needed: true,
		Source:  c.cfg.Client.Sources.Pods,
		Compact: func(o *corev1.Pod) (compactedPod, bool) { return compactPod(c, o) },
		Into:    c.cache.pods.store(""),
		Size:    compactedPod.size,
		Shared:  compactedPod.shared,
		Changed: func(key string, p compactedPod, exists bool) {
			if exists && p.facts.template.Value().malformed() { // Health reports how many such Pods exist
				c.cfg.Log.Debug("meshed Pod with missing or invalid proxy listen addresses", zap.String("pod", key))
			}
		},
	}
}

// Only Pods of the local cluster are cached with their addresses.
func compactPod(c *Cluster, o *corev1.Pod) (p compactedPod, ok bool) {
	p.facts = podFactsOf(o, c.cfg.Rules)
	if c.cache.local != nil {
		p.location = podLocation(o)
	}
	return p, true
}

func podFactsOf(o *corev1.Pod, r Rules) podFacts {
	t := template{
		owner:          onlyOwner(o.OwnerReferences),
		serviceAccount: o.Spec.ServiceAccountName,
		controlPlane:   o.Labels[controlPlaneLabel],
		opaque:         r.DefaultOpaquePorts,
		labels:         newLabelSet(o.Labels),
		ports:          containerPorts(&o.Spec),
	}
	if t.serviceAccount == "" {
		t.serviceAccount = defaultServiceAccount
	}
	// Invalid items in the lists of ports are ignored, as in Linkerd, and the valid items are used.
	if list, ok := o.Annotations[opaqueAnnotation]; ok {
		t.opaque, _ = ParsePorts(list, t.ports.numbers())
	}
	if list := o.Annotations[skipAnnotation]; list != "" {
		t.skip, _ = ParsePorts(list, nil)
	}
	if t.controlPlane != "" {
		t.proxy = readProxy(&o.Spec)
	}
	return newFacts(t, o.Spec.NodeName)
}

// expandPod takes the cached form of a Pod in a linked cluster, and returns the smallest Pod that
// has this cached form. If the Pod's opaque ports are exactly the default ports, expandPod omits
// them. The replica that reads the copy therefore applies its own default opaque ports.
func expandPod(p compactedPod, r Rules) *corev1.Pod {
	t := p.facts.fullTemplate()
	o := &corev1.Pod{ObjectMeta: t.expandMetadata(r)}
	o.Spec.NodeName = p.facts.node.Value()
	o.Spec.ServiceAccountName = t.serviceAccount
	c := corev1.Container{Name: proxyContainer, Env: t.proxy.environment()}
	for name, number := range t.ports.all {
		c.Ports = append(c.Ports, corev1.ContainerPort{Name: name, ContainerPort: int32(number)})
	}
	if len(c.Env)+len(c.Ports) > 0 {
		o.Spec.Containers = []corev1.Container{c}
	}
	return o
}

// expandMetadata reconstructs the metadata of a Pod or ExternalWorkload from its template. The
// metadata contains the opaque ports only if they differ from the default.
func (t *template) expandMetadata(r Rules) metav1.ObjectMeta {
	annotations := nonEmpty(map[string]string{skipAnnotation: t.skip.String()})
	if t.opaque != r.DefaultOpaquePorts {
		annotations[opaqueAnnotation] = t.opaque.formatDistinct(t.ports.numbers())
	}
	return metav1.ObjectMeta{
		Labels: maps.Collect(t.labels.all), Annotations: annotations, OwnerReferences: t.owner.references(),
	}
}

// If the Pod has no address yet, podLocation returns nil.
func podLocation(o *corev1.Pod) *location {
	s := &location{life: lifeOf(o), hostNetwork: o.Spec.HostNetwork}
	s.ips = addIP(s.ips, o.Status.PodIP)
	for _, p := range o.Status.PodIPs {
		s.ips = addIP(s.ips, p.IP)
	}
	if s.hostPorts = readHostPorts(&o.Spec); len(s.hostPorts) > 0 {
		s.hosts = addIP(s.hosts, o.Status.HostIP)
		for _, h := range o.Status.HostIPs {
			s.hosts = addIP(s.hosts, h.IP)
		}
	}
	if len(s.ips) == 0 && len(s.hosts) == 0 {
		return nil
	}
	for _, h := range s.hostPorts {
		if h.bound.IsValid() && !s.contains(h.bound) && !slices.Contains(s.bound, h.bound) && len(s.bound) < maxIPs {
			s.bound = append(s.bound, h.bound)
		}
	}
	return s
}

func lifeOf(o *corev1.Pod) life {
	switch terminating := o.DeletionTimestamp != nil; {
	case o.Status.Phase == corev1.PodRunning && terminating:
		return podEnding
	case o.Status.Phase == corev1.PodRunning:
		return podRunning
	case o.Status.Phase == corev1.PodSucceeded, o.Status.Phase == corev1.PodFailed, terminating:
		return podGone
	}
	return podStarting
}

// compactedPod is the cached form of a Pod or ExternalWorkload. The location field is set only in
// the local cluster.
type compactedPod struct {
	facts    podFacts
	location *location
	selected *decode.ExternalWorkload // fields that determine EndpointSlices; only set with LocalConfig.SliceManager
	// The evaluated field is a new podSet with the Pod's opaque ports, which are determined before
	// the Pod is added to the cache. The evaluated field is nil if the namespace has no Servers, or
	// if a sibling of the Pod is already cached.
	evaluated *podSet
}

func (p compactedPod) same(o compactedPod) bool {
	return p.facts == o.facts && p.location.equal(o.location) && sameSelected(p.selected, o.selected)
}

// The size of a Pod includes its owner or a placeholder for the owner.
func (p compactedPod) size(key string) int64 {
	t := p.facts.fullTemplate()
	n := sizeof[pod]() + indexEntry[*pod]() + groupedSize + textSize(p.facts.traits)
	if t.external() {
		return n + textSize(workloadPrefix+key) + unusableSize("ExternalWorkload "+key, t.invalid)
	}
	if t.owner.kind == kindReplicaSet || t.owner.kind == kindJob {
		namespace, _ := follow.SplitKey(key)
		n += ownerSize() + textSize(namespace+"/"+t.owner.name)
	}
	return n
}

// groupedSize is the number of bytes that the policy of a namespace uses for one Pod. The size
// includes a whole podSet, although siblings may share a podSet.
const groupedSize = 144

func (p compactedPod) shared(yield func(any, int64) bool) {
	_ = yield(p.facts.template, p.facts.template.Value().size()) && yield(p.facts.node, uniqueText(p.facts.node))
}

// pod represents a Pod in the cache. Each pod uses 80 bytes for itself, plus memory for its name
// and traits. If several Pods of a ReplicaSet or Job have equal traits, the cache usually stores
// these traits only once. Data other than the name and the traits is usually shared by many Pods.
//
// In measurements with realistic labels and without slices, a Pod with siblings in a ReplicaSet or
// StatefulSet uses 220 to 280 bytes. If a Job has only one Pod, the cache uses up to 530 bytes for
// this Pod. If a Pod has a label key that no other Pod has, the cache uses another 600 to 700 bytes
// for this Pod.
//
// ExternalWorkloads are cached as pods too, because Pods and ExternalWorkloads become endpoints in
// the same way. The key of an ExternalWorkload never equals the key of a Pod.
type pod struct {
	key    string // namespace/name, with workloadPrefix for an ExternalWorkload
	facts  podFacts
	owner  *owner   // ReplicaSet or Job that owns the Pod; nil if there is none
	slices []*slice // slices with an address of this Pod
}

// The argument must be the template of this Pod or ExternalWorkload.
func (p *pod) id(t *template) (namespace, name string) {
	if t.external() {
		return follow.SplitKey(strings.TrimPrefix(p.key, workloadPrefix))
	}
	return follow.SplitKey(p.key)
}

// namespace returns the namespace of the Pod or ExternalWorkload. The namespace method also works
// for placeholders, whereas the id method does not.
func (p *pod) namespace() string { return namespaceOfPod(p.key) }

func namespaceOfPod(key string) string {
	if strings.Count(key, "/") > 1 {
		key = strings.TrimPrefix(key, workloadPrefix)
	}
	namespace, _ := follow.SplitKey(key)
	return namespace
}

// podFacts contains the data about a Pod that affects endpoints. The zero value is a placeholder
// for a Pod that has not been read.
type podFacts struct {
	template unique.Handle[template] // without traits
	node     unique.Handle[string]
	// The traits string contains the owner name, the service account name and the label values of a
	// Pod. Each value in the traits string is followed by labelEnd. If templates contained the
	// traits, each workload or even each Pod would need its own template.
	traits string
}

func newFacts(t template, node string) podFacts {
	traits := t.owner.name + labelEnd + t.serviceAccount + labelEnd + t.labels.values
	t.owner.name = ""
	t.serviceAccount = ""
	t.labels.values = ""
	return podFacts{template: unique.Make(t), node: unique.Make(node), traits: traits}
}

func (f podFacts) fullTemplate() template {
	t := f.template.Value()
	var rest string
	t.owner.name, rest, _ = strings.Cut(f.traits, labelEnd)
	t.serviceAccount, t.labels.values, _ = strings.Cut(rest, labelEnd)
	return t
}

func (f podFacts) isRead() bool { return f != podFacts{} }

// The siblings method reports whether the facts about two Pods are equal, apart from the nodes.
func (f podFacts) siblings(o podFacts) bool { return f.template == o.template && f.traits == o.traits }

// The facts that withoutNode returns are the same for all siblings.
func (f podFacts) withoutNode() podFacts { return podFacts{template: f.template, traits: f.traits} }

// A placeholder has no template, so podFacts.external panics if it is called for a placeholder.
func (f podFacts) external() bool {
	t := f.template.Value()
	return t.external()
}

// template contains the values that a Pod usually shares with its siblings, or all values of an
// ExternalWorkload.
type template struct {
	owner          ownerRef // the only owner; zero if there is not exactly one
	serviceAccount string
	controlPlane   string // namespace of the control plane that injected the proxy; empty if the Pod is not meshed
	opaque         Ports
	skip           Ports
	proxy          proxyPorts
	labels         labelSet
	ports          namedPorts
	identity       unique.Handle[federation.Identity] // identity of an ExternalWorkload; zero for a Pod
	invalid        string                             // why an ExternalWorkload cannot be used; otherwise empty
}

func (t *template) external() bool { return t.identity != unique.Handle[federation.Identity]{} }

// malformed reports whether the Pod is a meshed Pod whose proxy ports cannot be read. Endpoints of
// a malformed Pod have no inbound port, and [Health] reports the number of malformed Pods.
func (t template) malformed() bool { return t.controlPlane != "" && t.proxy == proxyPorts{} }

func (t template) size() int64 {
	n := uniqueSize + sizeof[template]() +
		textSize(t.owner.kind) + textSize(t.controlPlane) + textSize(t.opaque.ranges) +
		textSize(t.skip.ranges) + textSize(t.labels.keys) + textSize(string(t.ports)) + textSize(t.invalid)
	if t.external() {
		identity := t.identity.Value()
		n += uniqueSize + sizeof[federation.Identity]() + textSize(identity.URI) + textSize(identity.ServerName)
	}
	return n
}

const podShards = 64

// podIndex contains the pods of a cluster, by key. The cache.mu mutex guards it.
//
// All pods in a namespace are in the same shard. After a change to a Server, the worker iterates
// over only one shard, because a whole cluster may have 100,000 Pods. A separate map for each
// namespace would use more memory in clusters with many small namespaces.
type podIndex struct {
	cache *cache
	seed  maphash.Seed // fixed

	shards    [podShards]map[string]*pod
	malformed int    // number of Pods whose proxy addresses cannot be read
	traits    string // traits of the Pod stored last
}

func newPodIndex(c *cache) podIndex {
	x := podIndex{cache: c, seed: maphash.MakeSeed()}
	for i := range x.shards {
		x.shards[i] = make(map[string]*pod)
	}
	return x
}

// shardOf returns the shard that contains the pods of a namespace. The shard of a namespace may
// also contain pods of other namespaces.
func (x *podIndex) shardOf(namespace string) map[string]*pod {
	return x.shards[maphash.String(x.seed, namespace)%podShards]
}

func (x *podIndex) get(key string) *pod { return x.shardOf(namespaceOfPod(key))[key] }

func (x *podIndex) all(yield func(*pod) bool) {
	for _, pods := range x.shards {
		for _, p := range pods {
			if !yield(p) {
				return
			}
		}
	}
}

// inNamespace iterates over the Pods and ExternalWorkloads of a namespace, except for placeholders.
func (x *podIndex) inNamespace(namespace string) iter.Seq[*pod] {
	return func(yield func(*pod) bool) {
		for _, p := range x.shardOf(namespace) {
			if p.facts.isRead() && p.namespace() == namespace && !yield(p) {
				return
			}
		}
	}
}

// store returns a store for ExternalWorkloads if the prefix is workloadPrefix, or for Pods if the
// prefix is empty.
func (x *podIndex) store(prefix string) store[compactedPod] {
	ofWorkloads := prefix != ""
	get := func(key string) (compactedPod, bool) {
		o, exists := x.cached(prefix + key)
		if ofWorkloads {
			o.selected = x.cache.local.selectedAt(key)
		}
		return o, exists
	}
	set := func(key string, to compactedPod, _ bool) {
		x.set(prefix+key, to)
		if ofWorkloads {
			setWorkload(x.cache, key, to)
		}
	}
	keys := func(yield func(string) bool) {
		for p := range x.all {
			if !p.facts.isRead() || p.facts.external() != ofWorkloads {
				continue
			}
			if !yield(strings.TrimPrefix(p.key, prefix)) {
				return
			}
		}
	}
	return store[compactedPod]{
		cache: x.cache,
		same:  compactedPod.same,
		get:   get,
		set:   set,
		keys:  keys,
		prepare: func(key string, to compactedPod) compactedPod {
			return x.cache.policies.evaluatePod(prefix+key, to)
		},
		release: func(key string) { x.cache.local.setLocation(x.get(prefix+key), nil) },
	}
}

func (x *podIndex) cached(key string) (o compactedPod, ok bool) {
	p := x.get(key)
	if p == nil || !p.facts.isRead() {
		return o, false
	}
	return compactedPod{facts: p.facts, location: x.cache.local.location(p)}, true
}

// set adds or replaces a Pod or ExternalWorkload. If the facts are empty, the object is removed.
func (x *podIndex) set(key string, to compactedPod) {
	p := x.entry(key)
	if p.facts != to.facts {
		x.setFacts(p, to)
	}
	x.cache.local.setLocation(p, to.location)
	x.sweep(p)
}

func (x *podIndex) setFacts(p *pod, to compactedPod) {
	before := p.facts
	if before.isRead() {
		x.countMalformed(before, -1)
		x.cache.owners.detach(p)
	}
	p.facts = to.facts
	if p.facts.isRead() {
		if p.facts.traits == x.traits {
			p.facts.traits = x.traits // siblings are usually adjacent in a list, and share one copy
		}
		x.traits = p.facts.traits
		x.countMalformed(p.facts, 1)
		x.cache.owners.attach(p)
	}
	if !before.siblings(p.facts) {
		x.cache.policies.regroup(p, to.evaluated)
	}
	x.invalidate(p)
}

func (x *podIndex) countMalformed(f podFacts, n int) {
	if f.template.Value().malformed() {
		x.malformed += n
	}
}

func (x *podIndex) malformedProxies() int {
	x.cache.mu.RLock()
	defer x.cache.mu.RUnlock()
	return x.malformed
}

func (x *podIndex) invalidate(p *pod) {
	for _, l := range p.slices {
		x.cache.slices.invalidate(l)
	}
	x.cache.local.markLocation(p)
}

func (x *podIndex) entry(key string) *pod {
	pods := x.shardOf(namespaceOfPod(key))
	p := pods[key]
	if p == nil {
		p = &pod{key: key}
		pods[key] = p
	}
	return p
}

// sweep removes a placeholder to which no slice refers.
func (x *podIndex) sweep(p *pod) {
	if !p.facts.isRead() && len(p.slices) == 0 {
		delete(x.shardOf(p.namespace()), p.key)
	}
}

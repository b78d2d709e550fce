package cluster

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"isthmus/clusterstore/decode"
	"isthmus/clusterstore/follow"
	"isthmus/clusterstore/kube"
	"isthmus/federation"
)

var testRules = Rules{ControllerNamespace: "linkerd", DefaultOpaquePorts: ports("25,3306"), EndpointSlices: true}

func ports(list string) Ports {
	p, err := ParsePorts(list, nil)
	if err != nil {
		panic(err)
	}
	return p
}

func testConfig() Config {
	return Config{
		Name:        "east",
		TrustDomain: "cluster.local",
		Rules:       testRules,
		Log:         zap.NewNop(),
		Changed:     func(federation.ServiceID, time.Time) {},
	}
}

// newOn returns a cluster that reads the fake API. The cluster is a linked one unless withAddresses
// has changed cfg. For a linked cluster, only the methods of Cluster may be called.
func newOn(api *fakeAPI, cfg Config) *Local {
	cfg.Client = &kube.Client{Sources: api.Sources}
	c, err := New(cfg)
	if err != nil {
		panic(err)
	}
	if c.cache.local != nil {
		return c.cache.local
	}
	return &Local{Cluster: c}
}

// world is a cluster whose objects come from the test instead of an API server.
type world struct {
	t testing.TB
	*Local
}

func newWorld(t testing.TB, change func(*Config)) *world {
	cfg := testConfig()
	if change != nil {
		change(&cfg)
	}
	w := &world{t: t, Local: newOn(newFakeAPI(), cfg)}
	w.goLive()
	return w
}

func (w *world) feed(o metav1.Object) follow.Feed {
	kind := reflect.TypeOf(o).Elem().Name()
	switch o := o.(type) {
	case *metav1.PartialObjectMetadata:
		kind = o.Kind
	case *decode.Server:
		kind = "server"
	case *decode.ExternalWorkload:
		kind = "externalworkload"
	case *decode.ServiceProfile:
		kind = "serviceprofile"
	}
	return w.store(strings.TrimSuffix(strings.ToLower(kind), "s") + "s")
}

func (w *world) store(name string) follow.Feed {
	for _, r := range w.resources {
		if r.Name() == name {
			return r.Feed()
		}
	}
	w.t.Helper()
	w.t.Fatalf("no resource %q", name)
	return nil
}

func (w *world) put(objects ...metav1.Object) {
	w.t.Helper()
	for _, o := range objects {
		w.feed(o).Update(o)
	}
	w.evaluate()
}

func (w *world) del(objects ...metav1.Object) {
	w.t.Helper()
	for _, o := range objects {
		w.feed(o).Delete(o)
	}
	w.evaluate()
}

// evaluate evaluates the policy of all namespaces, as workers do.
func (w *world) evaluate() {
	w.cache.policies.dirty.Drain(context.Background(), w.evaluatePolicy)
}

func (w *world) read(service string, port uint16) federation.Share {
	return w.Reader(federation.ServiceID{Namespace: "ns", Name: service}, port).Read()
}

// size returns the number of objects and placeholders in the cache.
func (c *cache) size() int {
	pods := 0
	for range c.pods.all {
		pods++
	}
	return len(c.services.byID) + len(c.slices.byKey) + pods + len(c.owners.replicaSets) + len(c.owners.jobs) +
		len(c.policies.byNamespace) + len(c.unusable) + len(c.gateways.byService)
}

// marked returns the Services that were reported as changed since the last call.
func (w *world) marked() []string {
	var list []string
	w.cfg.Changed = func(id federation.ServiceID, _ time.Time) { list = append(list, id.Name) }
	w.evaluate()
	w.cache.dirty.Drain(context.Background(), w.cfg.Changed)
	return list
}

// The following functions build objects in namespace ns. Options change them.

func inNS(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "ns", Name: name} }

func aPod(name string, options ...func(*corev1.Pod)) *corev1.Pod {
	o := &corev1.Pod{ObjectMeta: inNS(name)}
	o.Spec.Containers = []corev1.Container{{Name: "app"}}
	o.Spec.NodeName = "node-1"
	for _, f := range options {
		f(o)
	}
	return o
}

// meshed gives a Pod a proxy of the control plane in namespace linkerd.
func meshed(o *corev1.Pod) {
	o.Labels = with(o.Labels, controlPlaneLabel, "linkerd")
	o.Spec.Containers = append(o.Spec.Containers, corev1.Container{Name: proxyContainer, Env: []corev1.EnvVar{
		{Name: inboundListenEnv, Value: "0.0.0.0:4143"},
		{Name: adminListenEnv, Value: "0.0.0.0:4191"},
		{Name: controlListenEnv, Value: "0.0.0.0:4190"},
	}})
}

func podLabel(key, value string) func(*corev1.Pod) {
	return func(o *corev1.Pod) { o.Labels = with(o.Labels, key, value) }
}

func podAnnotation(key, value string) func(*corev1.Pod) {
	return func(o *corev1.Pod) { o.Annotations = with(o.Annotations, key, value) }
}

func ownedBy(kind, name string) func(*corev1.Pod) {
	return func(o *corev1.Pod) {
		o.OwnerReferences = append(o.OwnerReferences, metav1.OwnerReference{Kind: kind, Name: name})
	}
}

func with(m map[string]string, key, value string) map[string]string {
	if m == nil {
		m = make(map[string]string)
	}
	m[key] = value
	return m
}

// metadataOf returns the metadata of a ReplicaSet, Job or Node.
func metadataOf(kind, name, ownerKind, ownerName string) *metav1.PartialObjectMetadata {
	o := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{Kind: kind}, ObjectMeta: inNS(name)}
	if ownerKind != "" {
		o.OwnerReferences = []metav1.OwnerReference{{Kind: ownerKind, Name: ownerName}}
	}
	return o
}

// aService returns a Service. Its ports are "name=number" or "name=number/PROTOCOL".
func aService(name string, ports ...string) *corev1.Service {
	o := &corev1.Service{ObjectMeta: inNS(name)}
	for _, p := range ports {
		name, number, protocol := splitPort(p)
		o.Spec.Ports = append(o.Spec.Ports, corev1.ServicePort{Name: name, Port: *number, Protocol: protocol})
	}
	return o
}

// splitPort parses "name=number" or "name=number/PROTOCOL". It returns a nil number if there is
// none after "=".
func splitPort(s string) (name string, number *int32, protocol corev1.Protocol) {
	s, over, _ := strings.Cut(s, "/")
	protocol = corev1.Protocol(over)
	name, digits, ok := strings.Cut(s, "=")
	if !ok {
		name, digits = "", name
	}
	if digits == "" {
		return name, nil, protocol
	}
	var n int32
	if _, err := fmt.Sscan(digits, &n); err != nil {
		panic(err)
	}
	return name, &n, protocol
}

// aSlice returns an EndpointSlice of a Service. Its ports are "name=number" or
// "name=number/PROTOCOL", separated by commas. An endpoint is "IP[+IP] [pod=NAME|ew=NAME] [zone=Z]
// [hint=Z+Z] [nodehint=N+N] [host=H] [node=N] [unready|ready|kind=K] [terminating]".
func aSlice(name, service, ports string, endpoints ...string) *discoveryv1.EndpointSlice {
	o := &discoveryv1.EndpointSlice{ObjectMeta: inNS(name), AddressType: discoveryv1.AddressTypeIPv4}
	if service != "" {
		o.Labels = map[string]string{discoveryv1.LabelServiceName: service}
	}
	if ports != "" {
		for p := range strings.SplitSeq(ports, ",") {
			name, number, protocol := splitPort(p)
			port := discoveryv1.EndpointPort{Name: &name, Port: number}
			if protocol != "" {
				port.Protocol = &protocol
			}
			o.Ports = append(o.Ports, port)
		}
	}
	for _, e := range endpoints {
		o.Endpoints = append(o.Endpoints, anEndpoint(e))
	}
	return o
}

func anEndpoint(text string) discoveryv1.Endpoint {
	words := strings.Fields(text)
	e := discoveryv1.Endpoint{Addresses: strings.Split(words[0], "+")}
	for _, w := range words[1:] {
		key, value, _ := strings.Cut(w, "=")
		switch key {
		case "pod":
			e.TargetRef = &corev1.ObjectReference{Kind: "Pod", Namespace: "ns", Name: value}
		case "ew":
			e.TargetRef = &corev1.ObjectReference{Kind: "ExternalWorkload", Namespace: "ns", Name: value}
		case "kind":
			e.TargetRef = &corev1.ObjectReference{Kind: value, Namespace: "ns", Name: "x"}
		case "zone":
			e.Zone = &value
		case "hint":
			e.Hints = cmp.Or(e.Hints, &discoveryv1.EndpointHints{})
			for z := range strings.SplitSeq(value, "+") {
				e.Hints.ForZones = append(e.Hints.ForZones, discoveryv1.ForZone{Name: z})
			}
		case "nodehint":
			e.Hints = cmp.Or(e.Hints, &discoveryv1.EndpointHints{})
			for n := range strings.SplitSeq(value, "+") {
				e.Hints.ForNodes = append(e.Hints.ForNodes, discoveryv1.ForNode{Name: n})
			}
		case "host":
			e.Hostname = &value
		case "node":
			e.NodeName = &value
		case "terminating":
			terminating := true
			e.Conditions.Terminating = &terminating
		case "ready", "unready":
			ready := key == "ready"
			e.Conditions.Ready = &ready
		default:
			panic(w)
		}
	}
	return e
}

// addrs lists the addresses of a share by slice.
func addrs(s federation.Share) string {
	var parts []string
	for _, l := range s.Slices {
		var list []string
		for _, e := range l.Endpoints {
			list = append(list, e.Addr.String())
		}
		parts = append(parts, strings.Join(list, " "))
	}
	return strings.Join(parts, " | ")
}

// aServer returns a Server that makes a port of Pods opaque. The port is a number or a name. The
// labels of the Pods are "key=value,key=value".
func aServer(name, port, labels string, options ...func(*decode.Server)) *decode.Server {
	selector, err := metav1.ParseToLabelSelector(labels)
	if err != nil {
		panic(err)
	}
	o := &decode.Server{ObjectMeta: inNS(name), Spec: decode.ServerSpec{
		PodSelector: selector, Port: intstr.Parse(port), ProxyProtocol: decode.ProtocolOpaque,
	}}
	for _, f := range options {
		f(o)
	}
	return o
}

// forWorkloads makes a Server select ExternalWorkloads instead of Pods.
func forWorkloads(o *decode.Server) {
	o.Spec.PodSelector, o.Spec.ExternalWorkloadSelector = nil, o.Spec.PodSelector
}

func protocol(name string) func(*decode.Server) {
	return func(o *decode.Server) { o.Spec.ProxyProtocol = name }
}

// aWorkload returns an ExternalWorkload. Its ports are "name=number" or "name=number/PROTOCOL".
func aWorkload(name string, ports ...string) *decode.ExternalWorkload {
	o := &decode.ExternalWorkload{ObjectMeta: inNS(name)}
	o.Spec.MeshTLS = decode.MeshTLS{Identity: "spiffe://root/" + name, ServerName: name + ".example"}
	for _, p := range ports {
		name, number, protocol := splitPort(p)
		o.Spec.Ports = append(o.Spec.Ports, decode.PortSpec{Name: name, Port: *number, Protocol: string(protocol)})
	}
	return o
}

// withAddresses makes a cluster the local cluster.
func withAddresses(c *Config) {
	c.Name, c.local = federation.Local, localConfig()
}

// localConfig returns a LocalConfig that ignores all changes.
func localConfig() *LocalConfig {
	return &LocalConfig{
		ServiceChanged: func(federation.ServiceID) {}, NodeChanged: func(string, string, bool) {},
		ProfileChanged: func(Topic, time.Time) {},
	}
}

func phase(p corev1.PodPhase) func(*corev1.Pod) { return func(o *corev1.Pod) { o.Status.Phase = p } }

// at returns an option that makes a Pod run and gives it IPs.
func at(ips ...string) func(*corev1.Pod) {
	return func(o *corev1.Pod) {
		o.Status.Phase, o.Status.PodIP, o.Status.PodIPs = corev1.PodRunning, ips[0], nil
		for _, ip := range ips {
			o.Status.PodIPs = append(o.Status.PodIPs, corev1.PodIP{IP: ip})
		}
	}
}

// onHost returns an option that gives a Pod the IPs of its node.
func onHost(ips ...string) func(*corev1.Pod) {
	return func(o *corev1.Pod) {
		o.Status.HostIP, o.Status.HostIPs = ips[0], nil
		for _, ip := range ips {
			o.Status.HostIPs = append(o.Status.HostIPs, corev1.HostIP{IP: ip})
		}
	}
}

func hostNetwork(o *corev1.Pod) { o.Spec.HostNetwork = true }

func terminating(o *corev1.Pod) { o.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }

func clusterIP(o *corev1.Service, ips ...string) *corev1.Service {
	o.Spec.ClusterIP, o.Spec.ClusterIPs = ips[0], ips
	return o
}

func serviceAnnotation(o *corev1.Service, key, value string) *corev1.Service {
	o.Annotations = with(o.Annotations, key, value)
	return o
}

func workloadAt(o *decode.ExternalWorkload, ips ...string) *decode.ExternalWorkload {
	for _, ip := range ips {
		o.Spec.WorkloadIPs = append(o.Spec.WorkloadIPs, decode.WorkloadIP{IP: ip})
	}
	return o
}

// describeFound renders the object that an address belongs to.
func describeFound(f Found) string {
	switch {
	case f.Claimed != "":
		return "claimed by " + f.Claimed
	case f.Service != nil:
		return "Service " + f.ID.String()
	}
	return describe(f.Endpoint)
}

func (w *world) at(addr string) string {
	return describeFound(w.LookupAddress(netip.MustParseAddrPort(addr)))
}

// markedTopics searches for conflicts, as the worker does. It then returns the topics reported
// since its last call.
func (w *world) markedTopics() map[Topic]time.Time {
	topics := make(map[Topic]time.Time)
	w.cfg.local.ProfileChanged = func(t Topic, at time.Time) { topics[t] = at }
	w.cache.local.dirty.Drain(context.Background(), w.topicChanged)
	return topics
}

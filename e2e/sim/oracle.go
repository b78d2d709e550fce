package sim

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"isthmus/e2e/harness/kube"
	"isthmus/internal/spec"
)

// The oracle computes what clients must hold, from nothing but the objects in the clusters and
// which clusters are linked. It is as plain as can be, and computes everything anew.

// view is a Service as clients in a zone (empty: not known) see it.
type view struct{ service, zone string }

// answer is what a service is for clients.
type answer struct {
	code      codes.Code // what a stream that opens ends with; OK: it is served
	exists    bool
	endpoints map[netip.AddrPort]endpoint // that clients hold in the end
	served    map[netip.AddrPort]endpoint // that clients hold if all tiers are in use
	vague     bool                        // which tiers are in use depends on clusters that are away
	offers    map[offer]grade             // all that there are, those that lose an address to another too
	least     int                         // so many endpoints suffice; 1 for a percentage
}

// offer is an address, and who offers it.
type offer struct {
	addr    netip.AddrPort
	cluster string
	pod     string
}

// grade is how certain it is that clients hold what is offered.
type grade int

const (
	unused   grade = iota // they may not, or another cluster's endpoint at the address
	reserved              // if there is nothing better
	useful                // if tiers before do not suffice
	certain               // always
)

// endpoint is what clients are sent about an address.
type endpoint struct {
	cluster *cluster
	labels  map[string]string // without zone_locality
	zone    string
	tls     string
	hint    string
}

type member struct {
	cluster *cluster
	service string
}

// ask answers for a service of the local cluster.
func (w *world) ask(v view) answer {
	a := answer{
		endpoints: map[netip.AddrPort]endpoint{},
		served:    map[netip.AddrPort]endpoint{},
		offers:    map[offer]grade{},
	}
	definition := w.clusters[0].services[v.service]
	if definition == nil {
		a.code = codes.NotFound
		return a
	}
	a.exists = true
	mirror := definition.Labels[kube.RemoteDiscovery] != ""
	c := &choice{world: w}
	c.Zone = v.zone
	c.Preference = w.flags.preference().With(definition.Annotations)
	c.Federated = !mirror && federated(definition)
	for _, m := range w.members(definition) {
		switch {
		case !m.cluster.linked():
			if mirror {
				a.code, a.exists = codes.NotFound, false
			}
		case mirror && c.standing(m.cluster) == spec.Withdrawn:
			// It exists and is empty.
		case m.cluster.services[m.service] == nil:
			a.exists = a.exists && !mirror
		default:
			c.add(m)
		}
	}
	c.answer(&a)
	return a
}

func federated(s *corev1.Service) bool {
	_, local := s.Annotations[kube.LocalDiscovery]
	_, remote := s.Annotations[kube.RemoteDiscovery]
	return local || remote
}

// members returns what a Service is made of, in order of precedence.
func (w *world) members(s *corev1.Service) (list []member) {
	if name := s.Labels[kube.RemoteDiscovery]; name != "" {
		return []member{{w.named(name), s.Labels[kube.RemoteService]}}
	}
	local, hasLocal := s.Annotations[kube.LocalDiscovery]
	remote, hasRemote := s.Annotations[kube.RemoteDiscovery]
	if !hasLocal && !hasRemote {
		return []member{{w.clusters[0], s.Name}}
	}
	if hasLocal {
		list = append(list, member{w.clusters[0], local})
	}
	for _, item := range strings.Split(remote, ",") {
		if service, cluster, ok := strings.Cut(item, "@"); ok {
			list = append(list, member{w.named(cluster), service})
		}
	}
	return list
}

// share is what a cluster has of a service.
type share struct {
	cluster *cluster
	ready   map[netip.AddrPort]endpoint
	pods    map[netip.AddrPort]string // of ready
	unready map[netip.AddrPort]string // their zones
	behind  *spec.Behind              // ready are gateways, and this is behind each; nil: they are Pods
	lasting map[netip.AddrPort]lasting
}

// lasting is a Pod that clients have a way to whichever network its cluster is on: it can be
// reached itself, and through some gateway.
type lasting struct{ pod, zone string }

// share returns what a cluster has of a service.
func (w *world) share(c *cluster, service string) share {
	s := share{
		cluster: c,
		ready:   map[netip.AddrPort]endpoint{},
		pods:    map[netip.AddrPort]string{},
		unready: map[netip.AddrPort]string{},
		lasting: map[netip.AddrPort]lasting{},
	}
	behind, gateways := w.behind(c), c.hasGateway()
	for _, l := range c.slicesOf(service) {
		port, ok := slicePort(l)
		if !ok {
			continue
		}
		for _, e := range l.Endpoints {
			pod := c.pods[e.TargetRef.Name]
			for _, ip := range e.Addresses {
				addr := netip.AddrPortFrom(netip.MustParseAddr(ip), port)
				switch {
				case c.number != 0 && !behind && w.owned(ip):
				case !*e.Conditions.Ready:
					s.unready[addr] = *e.Zone
				case pod != nil:
					s.ready[addr], s.pods[addr] = c.describe(service, pod, *e.Zone, port), pod.Name
					if gateways && !shared(addr) && !w.owned(ip) {
						s.lasting[addr] = lasting{pod.Name, *e.Zone}
					}
				}
			}
		}
	}
	if behind {
		return s.throughGateways(service)
	}
	return s
}

// slicePort is the port of the name that all Services here have.
func slicePort(l *discoveryv1.EndpointSlice) (uint16, bool) {
	for _, p := range l.Ports {
		if *p.Name == kube.PortName && p.Port != nil {
			return uint16(*p.Port), true
		}
	}
	return 0, false
}

func (c *cluster) describe(service string, pod *corev1.Pod, zone string, port uint16) endpoint {
	account := pod.Spec.ServiceAccountName
	e := endpoint{cluster: c, zone: zone, hint: "none", labels: map[string]string{
		"namespace": namespace, "service": service, "pod": pod.Name, "serviceaccount": account, "zone": zone,
	}}
	if c.number != 0 {
		e.labels["target_cluster"] = c.name
	}
	if hash, ok := pod.Labels[kube.HashLabel]; ok {
		e.labels["pod_template_hash"] = hash
	}
	if kind, name := c.workload(pod); kind != "" {
		e.labels[kind] = name
	}
	if pod.Labels[kube.MeshLabel] == "" {
		return e
	}
	e.labels["control_plane_ns"] = pod.Labels[kube.MeshLabel]
	e.tls = account + "." + namespace + ".serviceaccount.identity." + kube.LinkNamespace + ".cluster.local"
	e.hint = "h2"
	if c.opaque(service, pod, port) {
		e.hint = "opaque"
		if len(pod.Spec.Containers[1].Env) > 0 {
			e.hint = "opaque by 4143"
		}
	}
	return e
}

// workload returns the kind and name of what a Pod belongs to.
func (c *cluster) workload(pod *corev1.Pod) (kind, name string) {
	if len(pod.OwnerReferences) == 0 {
		return "", ""
	}
	of := pod.OwnerReferences[0]
	if set := c.replicaSets[of.Name]; of.Kind == "ReplicaSet" && set != nil {
		of = set.OwnerReferences[0]
	}
	return strings.ToLower(of.Kind), of.Name
}

func (c *cluster) opaque(service string, pod *corev1.Pod, port uint16) bool {
	if pod.Annotations[kube.OpaquePorts] == fmt.Sprint(port) {
		return true
	}
	for _, s := range c.servers {
		number, _, _ := unstructured.NestedInt64(s.Object, "spec", "port")
		app, _, _ := unstructured.NestedString(s.Object, "spec", "podSelector", "matchLabels", "app")
		if app == pod.Labels["app"] && number == int64(port) {
			return true
		}
	}
	return false
}

// text returns, to compare, all that a client of a zone (empty: unknown) is sent about the endpoint.
func (e endpoint) text(zone string) string {
	labels := maps.Clone(e.labels)
	switch {
	case zone == "" || e.zone == "":
		labels["zone_locality"] = "unknown"
	case zone == e.zone:
		labels["zone_locality"] = "local"
	default:
		labels["zone_locality"] = "remote"
	}
	return describe(labels, e.tls, e.hint)
}

func describe(labels map[string]string, tls, hint string) string {
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		fmt.Fprintf(&b, "%s=%s ", k, labels[k])
	}
	fmt.Fprintf(&b, "tls=%s hint=%s", tls, hint)
	return b.String()
}

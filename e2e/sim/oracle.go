package sim

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"

	"isthmus/e2e/harness/kube"
	"isthmus/internal/spec"
)

// The oracle computes what clients must hold from two inputs: the objects in the clusters, and
// which clusters are linked. Package spec has the rules. The oracle computes each answer from
// scratch.

// view is a Service as seen from a zone. The zone is empty if it is unknown.
type view struct{ service, zone string }

// answer is what clients should get for a view.
type answer struct {
	code      codes.Code // the status that rejects a stream; OK if the Service is served
	exists    bool
	endpoints map[netip.AddrPort]endpoint // endpoints that clients hold once nothing changes
	served    map[netip.AddrPort]endpoint // endpoints that clients hold if all tiers are in use
	vague     bool                        // which tiers are in use depends on clusters that are away
	offers    map[offer]grade             // all offers, including those that lose an address to another
	least     int                         // number of endpoints that suffice; 1 if min-ready is a percentage
}

// offer is an address and the Pod that offers it.
type offer struct {
	addr    netip.AddrPort
	cluster string
	pod     string
}

// grade is how certain it is that clients hold an offer.
type grade int

const (
	unused   grade = iota // perhaps not, or clients hold another cluster's endpoint at the address
	reserved              // if there is nothing better
	useful                // if earlier tiers do not suffice
	certain               // always
)

// ask computes the answer for a view of a local Service.
func ask(w *world, v view) answer {
	a := answer{
		endpoints: map[netip.AddrPort]endpoint{},
		served:    map[netip.AddrPort]endpoint{},
		offers:    map[offer]grade{},
	}
	o := w.clusters[0].services[v.service]
	if o == nil {
		a.code = codes.NotFound
		return a
	}
	definition := spec.Define(o.Name, o.Labels, o.Annotations)
	c := &choice{world: w}
	c.Zone = v.zone
	c.Preference = w.flags.preference().With(o.Annotations)
	c.Federated = definition.Federated
	for _, m := range definition.Members {
		c.add(m)
	}
	a.exists = c.Exists()
	if c.NotLinked() {
		a.code = codes.NotFound
	}
	c.answer(&a)
	return a
}

// asSpec returns the objects of a cluster's namespace, in the form that package spec uses.
func asSpec(c *cluster) *spec.Namespace {
	n := &spec.Namespace{
		Name: namespace,
		// No port of a Service in this package is opaque by default.
		Mesh:           spec.Mesh{TrustDomain: domain, ControllerNamespace: kube.LinkNamespace},
		Services:       c.services,
		EndpointSlices: c.slices,
		Pods:           c.pods,
		ReplicaSets:    make(map[string]metav1.Object),
		Servers:        make(map[string]spec.Server),
	}
	for name, o := range c.replicaSets {
		n.ReplicaSets[name] = o
	}
	for name, o := range c.servers {
		port, _, _ := unstructured.NestedInt64(o.Object, "spec", "port")
		labels, _, _ := unstructured.NestedStringMap(o.Object, "spec", "podSelector", "matchLabels")
		n.Servers[name] = spec.Server{
			Pods:   &metav1.LabelSelector{MatchLabels: labels},
			Port:   intstr.FromInt32(int32(port)),
			Opaque: true,
		}
	}
	return n
}

// domain is the trust domain and the DNS domain of all clusters.
const domain = "cluster.local"

// offered returns the slices that a cluster offers for a service. They contain its Pods, or its
// Linkerd gateways if clients reach the cluster through them.
func offered(w *world, c *cluster, service string) (list []spec.Slice) {
	backends := asSpec(c).Backends(service, kube.ServicePort)
	if behind(w, c) {
		route := spec.Route{
			Cluster: c.name, Domain: domain, Namespace: namespace, Service: service, Port: kube.ServicePort,
		}
		through, behind := route.Through(specGateways(c), backends)
		l := spec.BackendSlice{Ready: through}
		list = []spec.Slice{l.Slice()}
		list[0].Behind = &behind
	} else {
		for _, l := range backends {
			list = append(list, l.Slice())
		}
	}
	for _, l := range list {
		for i, e := range l.Ready {
			l.Ready[i].Of = endpoint{e.Of.(spec.Backend), c}
		}
	}
	return list
}

// endpoint is what Isthmus sends about an address.
type endpoint struct {
	spec.Backend
	cluster *cluster
}

// text describes everything that Isthmus sends about the endpoint to clients in a zone. The zone is
// empty if it is unknown.
func (e endpoint) text(zone string) string {
	labels := maps.Clone(e.Labels)
	if e.cluster.number != 0 {
		labels["target_cluster"] = e.cluster.name
	}
	if e.Authority != "" {
		labels[authorityLabel] = e.Authority
	}
	if e.Kind != "" {
		labels["zone"] = e.Zone
	}
	switch {
	case zone == "" || e.Zone == "":
		labels["zone_locality"] = "unknown"
	case zone == e.Zone:
		labels["zone_locality"] = "local"
	default:
		labels["zone_locality"] = "remote"
	}
	return describe(labels, e.DNS, e.hint())
}

// authorityLabel is the key under which text and textOf show the authority override, which is not a
// label.
const authorityLabel = "(authority)"

// hint returns the protocol hint that Isthmus sends.
func (e endpoint) hint() string {
	switch {
	case e.Kind != "" && !e.Meshed:
		return "none"
	case e.Opaque && e.InboundPort != 0:
		return fmt.Sprintf("opaque by %d", e.InboundPort)
	case e.Opaque:
		return "opaque"
	}
	return "h2"
}

func describe(labels map[string]string, tls, hint string) string {
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		fmt.Fprintf(&b, "%s=%s ", k, labels[k])
	}
	fmt.Fprintf(&b, "tls=%s hint=%s", tls, hint)
	return b.String()
}

package cluster

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"isthmus/federation"
)

// describe renders an endpoint, label by label.
func describe(e *federation.Endpoint) string {
	parts := []string{e.Addr.String()}
	add := func(name, value string) {
		if value != "" {
			parts = append(parts, name+"="+value)
		}
	}
	common := e.Common.Get()
	own := slices.Clone(common.Labels)
	if name, ok := e.NameLabel(); ok && e.Common != nil { // an endpoint that is not ready only has its target
		own = append(own, name)
	}
	slices.SortFunc(own, func(a, b federation.Label) int { return strings.Compare(a.Name, b.Name) })
	for _, l := range slices.Concat(common.Group, own) {
		parts = append(parts, l.Name+":"+l.Value)
	}
	add("zone", e.Zone)
	add("node", e.Node)
	add("host", e.Hostname)
	add("twin", e.Twin)
	add("hints", strings.Join(e.Hints.Zones(), "+"))
	add("nodehints", strings.Join(e.Hints.Nodes(), "+"))
	add("id", common.Identity.DNS)
	add("uri", common.Identity.URI)
	add("sni", common.Identity.ServerName)
	add("authority", common.Authority)
	if e.Meshed {
		parts = append(parts, "meshed")
	}
	if e.Opaque {
		parts = append(parts, "opaque")
	}
	if e.InboundPort != 0 {
		parts = append(parts, fmt.Sprint("inbound=", e.InboundPort))
	}
	return strings.Join(parts, " ")
}

// TestSiblingsShare checks that endpoints share their common facts if their Pods differ only in
// name and node. A Pod that moves to another node still shares them. Endpoints of other Pods do
// not.
func TestSiblingsShare(t *testing.T) {
	w := newWorld(t, nil)
	on := func(node string) func(o *corev1.Pod) { return func(o *corev1.Pod) { o.Spec.NodeName = node } }
	w.put(
		aService("web", "http=80"),
		aSlice("s", "web", "http=8080", "10.0.0.1 pod=p", "10.0.0.2 pod=q", "10.0.0.3 pod=r"),
		aPod(
			"p",
			meshed,
			on("node-1"),
		),
		aPod("q", meshed, on("node-2")),
		aPod("r", meshed, podLabel("pod-template-hash", "abc")),
	)
	reader := w.Reader(federation.ServiceID{Namespace: "ns", Name: "web"}, 80)
	list := reader.Read().Slices[0].Endpoints
	p, q, r := list[0], list[1], list[2]
	if p.Common != q.Common {
		t.Error("siblings do not share their common facts")
	}
	for i, want := range []string{"pod:p", "pod:q", "pod:r pod_template_hash:abc"} {
		if got := describe(list[i]); !strings.Contains(got, want+" ") {
			t.Errorf("%s: no %s", got, want)
		}
	}
	if p.Node != "node-1" || q.Node != "node-2" || len(r.Common.Labels) != len(p.Common.Labels)+1 {
		t.Errorf("nodes %s and %s, labels %v", p.Node, q.Node, r.Common.Labels)
	}
	w.put(aPod("q", meshed, on("node-3")))
	if now := reader.Read().Slices[0].Endpoints[1]; now.Node != "node-3" || now.Common != p.Common {
		t.Errorf("%s does not share its common facts after a move to another node", describe(now))
	}
}

// TestPodEndpoint checks all fields of the endpoint of a Pod.
func TestPodEndpoint(t *testing.T) {
	w := newWorld(t, nil)
	w.put(
		aService("web", "http=80"),
		aSlice("s", "web", "http=8080", "10.0.0.1 pod=p zone=z1 hint=z2+z1 host=h"),
		aPod(
			"p",
			meshed,
			podLabel("pod-template-hash", "abc"),
			ownedBy("ReplicaSet", "web-abc"),
			func(o *corev1.Pod) { o.Spec.ServiceAccountName = "sa" },
		),
		metadataOf("ReplicaSet", "web-abc", "Deployment", "web"),
	)
	const id = "sa.ns.serviceaccount.identity.linkerd.cluster.local"
	want := "10.0.0.1:8080 namespace:ns service:web " +
		"control_plane_ns:linkerd deployment:web pod:p pod_template_hash:abc serviceaccount:sa " +
		"zone=z1 node=node-1 host=h twin=ns/p hints=z1+z2 id=" + id + " sni=" + id + " meshed inbound=4143"
	e := w.read("web", 80).Slices[0].Endpoints[0]
	if got := describe(e); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if e.Kind != federation.Pod || e.Cluster != "east" {
		t.Errorf("kind %v, cluster %v", e.Kind, e.Cluster)
	}
}

// TestNodeHintsAreLocal checks that node hints count in the local cluster only.
func TestNodeHintsAreLocal(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Config)
		want   *federation.Hints
	}{
		"local":  {withAddresses, &federation.Hints{ForZones: []string{"z1"}, ForNodes: []string{"n1", "n2"}}},
		"linked": {nil, &federation.Hints{ForZones: []string{"z1"}}},
	} {
		w := newWorld(t, c.change)
		w.put(aService("web", "http=80"),
			aSlice("s", "web", "http=8080", "10.0.0.1 hint=z1 nodehint=n2+n1+n2", "10.0.0.2 nodehint=n1", "10.0.0.3"))
		list := w.read("web", 80).Slices[0].Endpoints
		if got := list[0].Hints; !got.Equal(c.want) {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
		if own := name == "local"; (list[1].Hints != nil) != own || list[2].Hints != nil {
			t.Errorf("%s: %+v and %+v", name, list[1].Hints, list[2].Hints)
		}
	}
}

// TestPodFacts checks how fields of a Pod that no case changes affect an endpoint. The slice's port
// is 8080. For undeclared ports, the requested number is used.
//
// Behaviours: P-12.
func TestPodFacts(t *testing.T) {
	const sa = "serviceaccount:default"
	id := "id=default.ns.serviceaccount.identity.linkerd.cluster.local " +
		"sni=default.ns.serviceaccount.identity.linkerd.cluster.local"
	env := func(name, value string) func(*corev1.Pod) {
		return func(o *corev1.Pod) {
			for i, e := range o.Spec.Containers[1].Env {
				if e.Name == name {
					o.Spec.Containers[1].Env[i].Value = value
				}
			}
		}
	}
	named := func(o *corev1.Pod) {
		o.Spec.Containers[0].Ports = []corev1.ContainerPort{{Name: "web", ContainerPort: 8080}}
		o.Spec.InitContainers = []corev1.Container{{Ports: []corev1.ContainerPort{{Name: "side", ContainerPort: 4000}}}}
	}
	sidecar := func(o *corev1.Pod) {
		o.Spec.InitContainers, o.Spec.Containers = o.Spec.Containers[1:], o.Spec.Containers[:1]
	}
	type options = []func(*corev1.Pod)
	for _, x := range []struct {
		name string
		port uint16
		pod  options
		want string
	}{
		{"opaque by name in an init container", 4000, options{meshed, named, podAnnotation(opaqueAnnotation, "side")},
			"control_plane_ns:linkerd pod:p " + sa + " " + id + " meshed opaque inbound=4143"},
		{"skipped ports by number only", 8080, options{meshed, named, podAnnotation(skipAnnotation, "web")},
			"control_plane_ns:linkerd pod:p " + sa + " " + id + " meshed inbound=4143"},
		{"the proxy's admin port", 4191, options{meshed},
			"control_plane_ns:linkerd pod:p " + sa + " " + id + " meshed"},
		{"the proxy's control port", 4190, options{meshed},
			"control_plane_ns:linkerd pod:p " + sa + " " + id + " meshed"},
		{"native sidecar", 8080, options{meshed, sidecar},
			"control_plane_ns:linkerd pod:p " + sa + " " + id + " meshed inbound=4143"},
		{"proxy listens on IPv6", 8080, options{meshed, env(inboundListenEnv, "[::]:1")},
			"control_plane_ns:linkerd pod:p " + sa + " " + id + " meshed inbound=1"},
		{"inbound address malformed", 8080, options{meshed, env(inboundListenEnv, "4143")},
			"control_plane_ns:linkerd pod:p " + sa + " " + id + " meshed"},
		{"admin address malformed", 8080, options{meshed, env(adminListenEnv, "")},
			"control_plane_ns:linkerd pod:p " + sa + " " + id + " meshed"},
		{"labelled, but no proxy", 8080, options{podLabel(controlPlaneLabel, "linkerd")},
			"control_plane_ns:linkerd pod:p " + sa + " " + id + " meshed"},
		{"empty control plane", 8080, options{meshed, podLabel(controlPlaneLabel, "")}, "pod:p " + sa},
		{"empty template hash", 8080, options{podLabel(templateHashLabel, "")}, "pod:p pod_template_hash: " + sa},
		{"owner whose kind is a label of Isthmus", 8080, options{ownedBy("Zone", "z")}, "pod:p " + sa},
	} {
		t.Run(x.name, func(t *testing.T) {
			w := newWorld(t, nil)
			w.put(aService("web"), aSlice("s", "web", "http=8080", "10.0.0.1 pod=p"), aPod("p", x.pod...))
			want := fmt.Sprintf("10.0.0.1:%d namespace:ns service:web %s", x.port, x.want)
			got := strings.Replace(
				describe(w.read("web", x.port).Slices[0].Endpoints[0]),
				"node=node-1 twin=ns/p ",
				"",
				1,
			)
			got = strings.TrimSuffix(got, " node=node-1 twin=ns/p")
			if got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
			malformed := 0
			if strings.Contains(x.name, "malformed") || x.name == "labelled, but no proxy" {
				malformed = 1
			}
			if n := w.Health().MalformedProxies; n != malformed {
				t.Errorf("%d malformed proxies, want %d", n, malformed)
			}
			w.del(aPod("p"))
			if n := w.Health().MalformedProxies; n != 0 {
				t.Errorf("%d malformed proxies without pods", n)
			}
		})
	}
}

func TestNoIdentityWithoutTrustDomain(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.TrustDomain = "" })
	w.put(aService("web"), aSlice("s", "web", "http=8080", "10.0.0.1 pod=p"), aPod("p", meshed))
	if e := w.read("web", 80).Slices[0].Endpoints[0]; e.Common.Identity != (federation.Identity{}) || !e.Meshed ||
		e.InboundPort != 4143 {
		t.Errorf("%s", describe(e))
	}
}

// TestOwners checks the owner labels of Pods in odd cases. The cases labels-* and live-owners in
// e2e check the others.
//
// Behaviours: K-02, K-07.
func TestOwners(t *testing.T) {
	for _, x := range []struct {
		name   string
		owner  [2]string
		parent metav1.Object
		want   string
	}{
		{"ReplicaSet that is not known", [2]string{"ReplicaSet", "r"},
			metadataOf("ReplicaSet", "other", "Deployment", "d"), "replicaset:r"},
		{"ReplicaSet of something odd", [2]string{"ReplicaSet", "r"}, metadataOf("ReplicaSet", "r", "Invalid", "x"),
			"replicaset:r"},
		{"ReplicaSet of a Job", [2]string{"ReplicaSet", "r"}, metadataOf("ReplicaSet", "r", "Job", "j"), "k8s_job:j"},
		{"Job that is not known", [2]string{"Job", "j"}, metadataOf("ReplicaSet", "j", "Deployment", "d"), "k8s_job:j"},
		{"kind that is no label name", [2]string{`X="} 1`, "x"}, metadataOf("Job", "x", "CronJob", "c"), ""},
	} {
		t.Run(x.name, func(t *testing.T) {
			w := newWorld(t, nil)
			p := aPod("p", ownedBy(x.owner[0], x.owner[1]))
			w.put(aService("web"), aSlice("s", "web", "http=8080", "10.0.0.1 pod=p"), p, x.parent)
			got := ""
			for _, l := range w.read("web", 80).Slices[0].Endpoints[0].Common.Labels {
				if l.Name != "pod" && l.Name != "serviceaccount" {
					got += l.Name + ":" + l.Value
				}
			}
			if got != x.want {
				t.Errorf("got %q, want %q", got, x.want)
			}
			w.del(p)
			w.del(x.parent)
			if n := len(w.cache.owners.replicaSets) + len(w.cache.owners.jobs); n != 0 {
				t.Errorf("%d owners are still cached", n)
			}
		})
	}
}

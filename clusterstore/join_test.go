package clusterstore

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"isthmus/federation"
)

// TestAddresses: which addresses are on offer, at which port.
func TestAddresses(t *testing.T) {
	web := aService("web", "http=80", "=81", "admin=90")
	byOwner := aSlice("s", "", "http=8080", "10.0.0.1")
	byOwner.OwnerReferences = []metav1.OwnerReference{{Kind: "Other", Name: "x"}, {Kind: "Service", Name: "web"}}
	labelWins := aSlice("s", "web", "http=8080", "10.0.0.1")
	labelWins.OwnerReferences = []metav1.OwnerReference{{Kind: "Service", Name: "other"}}
	fqdn := aSlice("s", "web", "http=8080", "10.0.0.1")
	fqdn.AddressType = discoveryv1.AddressTypeFQDN
	nilName := aSlice("s", "web", "=8081", "10.0.0.1")
	nilName.Ports[0].Name = nil
	elsewhere := aSlice("s", "web", "http=8080", "10.0.0.1 pod=p")
	elsewhere.Endpoints[0].TargetRef.Namespace = "other"
	noNamespace := aSlice("s", "web", "http=8080", "10.0.0.1 pod=p")
	noNamespace.Endpoints[0].TargetRef.Namespace = ""
	noAddress := aSlice("s", "web", "http=8080", "10.0.0.1", "10.0.0.2")
	noAddress.Endpoints[0].Addresses = nil
	for _, x := range []struct {
		name    string
		port    uint16
		objects []runtime.Object
		want    string
	}{
		{"by the name of the Service's port", 80, []runtime.Object{web, aSlice("s", "web", "admin=1,http=8080", "10.0.0.1")}, "10.0.0.1:8080"},
		{"unnamed port", 81, []runtime.Object{web, aSlice("s", "web", "http=8080,=8081", "10.0.0.1")}, "10.0.0.1:8081"},
		{"a nil name is the empty name", 81, []runtime.Object{web, nilName}, "10.0.0.1:8081"},
		{"each slice has its own number", 80, []runtime.Object{web, aSlice("a", "web", "http=1", "10.0.0.1"), aSlice("b", "web", "http=2", "10.0.0.2")}, "10.0.0.1:1 | 10.0.0.2:2"},
		{"slices in order of name", 80, []runtime.Object{web, aSlice("b", "web", "http=2", "10.0.0.2"), aSlice("a", "web", "http=1", "10.0.0.3")}, "10.0.0.3:1 | 10.0.0.2:2"},
		{"no port of that name", 80, []runtime.Object{web, aSlice("s", "web", "other=8080", "10.0.0.1")}, ""},
		{"port without number", 80, []runtime.Object{web, aSlice("s", "web", "http=", "10.0.0.1")}, ""},
		{"impossible number", 80, []runtime.Object{web, aSlice("s", "web", "http=65536", "10.0.0.1")}, ""},
		{"negative number", 80, []runtime.Object{web, aSlice("s", "web", "http=-1", "10.0.0.1")}, ""},
		{"the first of two ports of one name", 80, []runtime.Object{web, aSlice("s", "web", "http=1,http=2", "10.0.0.1")}, "10.0.0.1:1"},
		{"undeclared port", 5959, []runtime.Object{web, aSlice("s", "web", "http=8080", "10.0.0.1")}, "10.0.0.1:5959"},
		{"undeclared port, slice port without number", 5959, []runtime.Object{web, aSlice("s", "web", "http=", "10.0.0.1")}, "10.0.0.1:5959"},
		{"undeclared port, slice without ports", 5959, []runtime.Object{web, aSlice("s", "web", "", "10.0.0.1")}, ""},
		{"ready, unready, unset", 80, []runtime.Object{web, aSlice("s", "web", "http=1", "10.0.0.1 ready", "10.0.0.2 unready", "10.0.0.3")}, "10.0.0.1:1 10.0.0.3:1"},
		{"sorted by address", 80, []runtime.Object{web, aSlice("s", "web", "http=1", "10.0.0.3", "10.0.0.1", "10.0.0.2")}, "10.0.0.1:1 10.0.0.2:1 10.0.0.3:1"},
		{"several addresses of one endpoint", 80, []runtime.Object{web, aSlice("s", "web", "http=1", "10.0.0.3+10.0.0.1")}, "10.0.0.1:1 10.0.0.3:1"},
		{"twice the same address", 80, []runtime.Object{web, aSlice("s", "web", "http=1", "10.0.0.3", "10.0.0.3")}, "10.0.0.3:1"},
		{"IPv4 as IPv6", 80, []runtime.Object{web, aSlice("s", "web", "http=1", "::ffff:10.0.0.3", "fd00::1")}, "10.0.0.3:1 [fd00::1]:1"},
		{"no addresses at all", 80, []runtime.Object{web, aSlice("s", "web", "http=1", "x", "10.0.0.300", "fe80::1%eth0", "10.0.0.1")}, "10.0.0.1:1"},
		{"addresses of our own host", 80, []runtime.Object{web, aSlice("s", "web", "http=1", "127.0.0.1", "::1", "::ffff:127.0.0.1", "0.0.0.0", "169.254.1.1", "224.0.0.1", "10.0.0.1")}, "10.0.0.1:1"},
		{"endpoint without address", 80, []runtime.Object{web, noAddress}, "10.0.0.2:8080"},
		{"slice by owner", 80, []runtime.Object{web, byOwner}, "10.0.0.1:8080"},
		{"label before owner", 80, []runtime.Object{web, labelWins}, "10.0.0.1:8080"},
		{"slice of nobody", 80, []runtime.Object{web, aSlice("s", "", "http=1", "10.0.0.1")}, ""},
		{"slice of names", 80, []runtime.Object{web, fqdn}, ""},
		{"pod", 80, []runtime.Object{web, aPod("p"), aSlice("s", "web", "http=8080", "10.0.0.1 pod=p")}, "10.0.0.1:8080"},
		{"pod after slice", 80, []runtime.Object{web, aSlice("s", "web", "http=8080", "10.0.0.1 pod=p"), aPod("p")}, "10.0.0.1:8080"},
		{"pod unknown", 80, []runtime.Object{web, aPod("q"), aSlice("s", "web", "http=8080", "10.0.0.1 pod=p", "10.0.0.2 pod=q")}, "10.0.0.2:8080"},
		{"pod of another namespace", 80, []runtime.Object{web, aPod("p"), elsewhere}, ""},
		{"pod without namespace", 80, []runtime.Object{web, aPod("p"), noNamespace}, "10.0.0.1:8080"},
		{"something else behind it", 80, []runtime.Object{web, aSlice("s", "web", "http=8080", "10.0.0.1 kind=ExternalWorkload", "10.0.0.2 kind=Node", "10.0.0.3")}, "10.0.0.3:8080"},
		{"another Service's", 80, []runtime.Object{web, aSlice("s", "other", "http=8080", "10.0.0.1")}, ""},
	} {
		t.Run(x.name, func(t *testing.T) {
			w := newWorld(t, nil)
			w.put(x.objects...)
			share := w.read("web", x.port)
			if share.State != federation.Present {
				t.Errorf("state %v", share.State)
			}
			if got := addrs(share); got != x.want {
				t.Errorf("got %q, want %q", got, x.want)
			}
		})
	}
}

// TestEndpoints: the same for the older Endpoints objects.
func TestEndpoints(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Rules.EndpointSlices = false })
	o := &coreEndpoints{ObjectMeta: inNS("web"), Subsets: []coreEndpointSubset{{
		Ports:             []corev1.EndpointPort{{Name: "http", Port: 8080}, {Name: "admin", Port: 9000}},
		Addresses:         []corev1.EndpointAddress{{IP: "10.0.0.2", Hostname: "h2"}, {IP: "10.0.0.1", TargetRef: &corev1.ObjectReference{Kind: "Pod", Name: "p"}}},
		NotReadyAddresses: []corev1.EndpointAddress{{IP: "10.0.0.9"}},
	}, {
		Ports:     []corev1.EndpointPort{{Name: "http", Port: 8081}},
		Addresses: []corev1.EndpointAddress{{IP: "10.0.0.3"}},
	}, {
		Addresses: []corev1.EndpointAddress{{IP: "10.0.0.4"}},
	}}}
	w.put(aService("web", "http=80", "admin=90"), o)
	check := func(port uint16, want string) {
		t.Helper()
		if got := addrs(w.read("web", port)); got != want {
			t.Errorf("port %d: got %q, want %q", port, got, want)
		}
	}
	check(80, "10.0.0.2:8080 10.0.0.3:8081")
	w.put(aPod("p"))
	check(80, "10.0.0.1:8080 10.0.0.2:8080 10.0.0.3:8081")
	check(90, "10.0.0.1:9000 10.0.0.2:9000")
	check(5959, "10.0.0.1:5959 10.0.0.2:5959 10.0.0.3:5959 10.0.0.4:5959")
	w.del(aPod("p"))
	check(90, "10.0.0.2:9000")
	if e := w.read("web", 90).Slices[0].Endpoints[0]; e.Hostname != "h2" || e.Kind != federation.Address {
		t.Errorf("%+v", e)
	}
	w.del(o)
	check(80, "")
}

// TestServiceStates: what is said of the Service itself.
func TestServiceStates(t *testing.T) {
	local, external := corev1.ServiceInternalTrafficPolicyLocal, aService("external", "http=80")
	external.Spec.Type = corev1.ServiceTypeExternalName
	nodeLocal := aService("local", "http=80")
	nodeLocal.Spec.InternalTrafficPolicy = &local
	w := newWorld(t, nil)
	w.put(external, nodeLocal, aService("plain", "http=80"))
	for _, name := range []string{"external", "local", "plain", "lingering"} {
		w.put(aSlice(name, name, "http=8080", "10.0.0.1"))
	}
	for name, want := range map[string]federation.Share{
		"external":  {State: federation.ExternalName},
		"local":     {State: federation.Present, NodeLocal: true},
		"plain":     {State: federation.Present},
		"lingering": {State: federation.Missing}, // slices, but no Service
		"nothing":   {State: federation.Missing},
	} {
		share := w.read(name, 80)
		if share.State != want.State || share.NodeLocal != want.NodeLocal || (len(share.Slices) == 1) != (want.State == federation.Present) {
			t.Errorf("%s: %+v", name, share)
		}
		if state := w.State(federation.ServiceID{Namespace: "ns", Name: name}); state != want.State {
			t.Errorf("%s: state %v, want %v", name, state, want.State)
		}
	}
}

// tell describes an endpoint, label by label.
func tell(e *federation.Endpoint) string {
	parts := []string{e.Addr.String()}
	add := func(name, value string) {
		if value != "" {
			parts = append(parts, name+"="+value)
		}
	}
	for _, l := range append(append([]federation.Label(nil), e.Group...), e.Labels...) {
		parts = append(parts, l.Name+":"+l.Value)
	}
	add("zone", e.Zone)
	add("node", e.Node)
	add("host", e.Hostname)
	add("twin", e.Twin)
	add("hints", strings.Join(e.Hints, "+"))
	add("id", e.Identity.DNS)
	add("sni", e.Identity.ServerName)
	add("authority", e.Authority)
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

// TestPodEndpoint: everything that is told of a pod's address.
func TestPodEndpoint(t *testing.T) {
	w := newWorld(t, nil)
	w.put(
		aService("web", "http=80"),
		aSlice("s", "web", "http=8080", "10.0.0.1 pod=p zone=z1 hint=z2+z1 host=h"),
		aPod("p", meshed, podLabel("pod-template-hash", "abc"), ownedBy("ReplicaSet", "web-abc"), func(o *corev1.Pod) { o.Spec.ServiceAccountName = "sa" }),
		metadataOf("ReplicaSet", "web-abc", "Deployment", "web"),
	)
	const id = "sa.ns.serviceaccount.identity.linkerd.cluster.local"
	want := "10.0.0.1:8080 namespace:ns service:web " +
		"control_plane_ns:linkerd deployment:web pod:p pod_template_hash:abc serviceaccount:sa " +
		"zone=z1 node=node-1 host=h twin=ns/p hints=z1+z2 id=" + id + " sni=" + id + " meshed inbound=4143"
	e := w.read("web", 80).Slices[0].Endpoints[0]
	if got := tell(e); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if e.Kind != federation.Pod || e.Cluster != "east" {
		t.Errorf("kind %v, cluster %v", e.Kind, e.Cluster)
	}
}

// TestPodFacts: what of a pod decides which fact. The slice's port is 8080, but
// for undeclared ports the number asked for counts.
func TestPodFacts(t *testing.T) {
	const sa = "serviceaccount:default"
	id := "id=default.ns.serviceaccount.identity.linkerd.cluster.local sni=default.ns.serviceaccount.identity.linkerd.cluster.local"
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
		{"unmeshed", 8080, nil, "pod:p " + sa},
		{"unmeshed, default opaque port", 3306, nil, "pod:p " + sa + " opaque"},
		{"meshed", 8080, options{meshed}, "control_plane_ns:linkerd pod:p " + sa + " " + id + " meshed inbound=4143"},
		{"default opaque port", 25, options{meshed}, "control_plane_ns:linkerd pod:p " + sa + " " + id + " meshed opaque inbound=4143"},
		{"annotated opaque port", 8080, options{meshed, podAnnotation(opaqueAnnotation, "8080")}, "control_plane_ns:linkerd pod:p " + sa + " " + id + " meshed opaque inbound=4143"},
		{"annotation in place of the defaults", 25, options{meshed, podAnnotation(opaqueAnnotation, "8080")}, "control_plane_ns:linkerd pod:p " + sa + " " + id + " meshed inbound=4143"},
		{"empty annotation", 25, options{meshed, podAnnotation(opaqueAnnotation, "")}, "control_plane_ns:linkerd pod:p " + sa + " " + id + " meshed inbound=4143"},
		{"opaque by name", 8080, options{meshed, named, podAnnotation(opaqueAnnotation, "x, web")}, "control_plane_ns:linkerd pod:p " + sa + " " + id + " meshed opaque inbound=4143"},
		{"opaque by name in an init container", 4000, options{meshed, named, podAnnotation(opaqueAnnotation, "side")}, "control_plane_ns:linkerd pod:p " + sa + " " + id + " meshed opaque inbound=4143"},
		{"skipped port", 8080, options{meshed, podAnnotation(skipAnnotation, "80,8000-9000")}, "control_plane_ns:linkerd pod:p " + sa + " inbound=4143"},
		{"skipped ports go by number only", 8080, options{meshed, named, podAnnotation(skipAnnotation, "web")}, "control_plane_ns:linkerd pod:p " + sa + " " + id + " meshed inbound=4143"},
		{"the proxy's admin port", 4191, options{meshed}, "control_plane_ns:linkerd pod:p " + sa + " " + id + " meshed"},
		{"the proxy's control port", 4190, options{meshed}, "control_plane_ns:linkerd pod:p " + sa + " " + id + " meshed"},
		{"native sidecar", 8080, options{meshed, sidecar}, "control_plane_ns:linkerd pod:p " + sa + " " + id + " meshed inbound=4143"},
		{"proxy listens on IPv6", 8080, options{meshed, env(inboundListenEnv, "[::]:1")}, "control_plane_ns:linkerd pod:p " + sa + " " + id + " meshed inbound=1"},
		{"inbound address malformed", 8080, options{meshed, env(inboundListenEnv, "4143")}, "control_plane_ns:linkerd pod:p " + sa + " " + id + " meshed"},
		{"admin address malformed", 8080, options{meshed, env(adminListenEnv, "")}, "control_plane_ns:linkerd pod:p " + sa + " " + id + " meshed"},
		{"labelled, but no proxy", 8080, options{podLabel(controlPlaneLabel, "linkerd")}, "control_plane_ns:linkerd pod:p " + sa + " " + id + " meshed"},
		{"another control plane", 8080, options{meshed, podLabel(controlPlaneLabel, "viz")}, "control_plane_ns:viz pod:p " + sa + " meshed inbound=4143"},
		{"empty control plane", 8080, options{meshed, podLabel(controlPlaneLabel, "")}, "pod:p " + sa},
		{"empty template hash", 8080, options{podLabel(templateHashLabel, "")}, "pod:p pod_template_hash: " + sa},
		{"two owners", 8080, options{ownedBy("StatefulSet", "a"), ownedBy("StatefulSet", "b")}, "pod:p " + sa},
		{"StatefulSet", 8080, options{ownedBy("StatefulSet", "db")}, "pod:p " + sa + " statefulset:db"},
		{"owner whose kind is a label of ours", 8080, options{ownedBy("Zone", "z")}, "pod:p " + sa},
	} {
		t.Run(x.name, func(t *testing.T) {
			w := newWorld(t, nil)
			w.put(aService("web"), aSlice("s", "web", "http=8080", "10.0.0.1 pod=p"), aPod("p", x.pod...))
			want := fmt.Sprintf("10.0.0.1:%d namespace:ns service:web %s", x.port, x.want)
			got := strings.Replace(tell(w.read("web", x.port).Slices[0].Endpoints[0]), "node=node-1 twin=ns/p ", "", 1)
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
	if e := w.read("web", 80).Slices[0].Endpoints[0]; e.Identity != (federation.Identity{}) || !e.Meshed || e.InboundPort != 4143 {
		t.Errorf("%s", tell(e))
	}
}

// TestOwners: what a pod is said to belong to.
func TestOwners(t *testing.T) {
	for _, x := range []struct {
		name   string
		owner  [2]string
		parent []runtime.Object
		want   string
	}{
		{"none", [2]string{}, nil, ""},
		{"Deployment", [2]string{"ReplicaSet", "t2-5f79f964bc"}, []runtime.Object{metadataOf("ReplicaSet", "t2-5f79f964bc", "Deployment", "t2")}, "deployment:t2"},
		{"ReplicaSet that is not known", [2]string{"ReplicaSet", "r"}, nil, "replicaset:r"},
		{"ReplicaSet of its own", [2]string{"ReplicaSet", "r"}, []runtime.Object{metadataOf("ReplicaSet", "r", "", "")}, "replicaset:r"},
		{"ReplicaSet of something odd", [2]string{"ReplicaSet", "r"}, []runtime.Object{metadataOf("ReplicaSet", "r", "Invalid", "x")}, "replicaset:r"},
		{"ReplicaSet of a Job", [2]string{"ReplicaSet", "r"}, []runtime.Object{metadataOf("ReplicaSet", "r", "Job", "j")}, "k8s_job:j"},
		{"CronJob", [2]string{"Job", "j"}, []runtime.Object{metadataOf("Job", "j", "CronJob", "c")}, "cronjob:c"},
		{"Job", [2]string{"Job", "j"}, []runtime.Object{metadataOf("Job", "j", "", "")}, "k8s_job:j"},
		{"Job that is not known", [2]string{"Job", "j"}, []runtime.Object{metadataOf("ReplicaSet", "j", "Deployment", "d")}, "k8s_job:j"},
		{"ReplicationController", [2]string{"ReplicationController", "rc"}, nil, "replicationcontroller:rc"},
		{"DaemonSet", [2]string{"DaemonSet", "d"}, nil, "daemonset:d"},
	} {
		for _, first := range []string{"pod", "owner"} {
			t.Run(x.name+", first the "+first, func(t *testing.T) {
				w := newWorld(t, nil)
				p := aPod("p")
				if x.owner[0] != "" {
					ownedBy(x.owner[0], x.owner[1])(p)
				}
				w.put(aService("web"), aSlice("s", "web", "http=8080", "10.0.0.1 pod=p"))
				if first == "pod" {
					w.put(p)
					w.put(x.parent...)
				} else {
					w.put(x.parent...)
					w.put(p)
				}
				got := ""
				for _, l := range w.read("web", 80).Slices[0].Endpoints[0].Labels {
					if l.Name != "pod" && l.Name != "serviceaccount" {
						got += l.Name + ":" + l.Value
					}
				}
				if got != x.want {
					t.Errorf("got %q, want %q", got, x.want)
				}
				w.del(p)
				w.del(x.parent...)
				if n := len(w.state.replicaSets) + len(w.state.jobs); n != 0 {
					t.Errorf("%d owners left behind", n)
				}
			})
		}
	}
}

// TestGateway: addresses of a gateway to another cluster.
func TestGateway(t *testing.T) {
	for _, x := range []struct {
		name, cluster, identity, remote string
		want                            string
	}{
		{"plain", "", "", "", ""},
		{"all", "east", "gw.id", "web.ns.svc.east.local", " target_cluster:east target_service:web target_service_namespace:ns host=h hints=z id=gw.id authority=web.ns.svc.east.local:80"},
		{"no identity", "east", "", "web.ns.svc.east.local", " target_cluster:east target_service:web target_service_namespace:ns host=h hints=z authority=web.ns.svc.east.local:80"},
		{"name without dots", "east", "gw.id", "web", " target_cluster:east host=h hints=z id=gw.id authority=web:80"},
		{"no cluster", "", "gw.id", "web.ns.svc.east.local", " host=h hints=z id=gw.id authority=web.ns.svc.east.local:80"},
	} {
		t.Run(x.name, func(t *testing.T) {
			w := newWorld(t, nil)
			o := aSlice("s", "web", "http=4143", "10.0.0.1 zone=z host=h hint=z")
			if x.cluster != "" {
				o.Labels = with(o.Labels, mirrorClusterLabel, x.cluster)
			}
			if x.identity != "" {
				o.Annotations = with(o.Annotations, gatewayIdentityAnnotation, x.identity)
			}
			if x.remote != "" {
				o.Annotations = with(o.Annotations, remoteNameAnnotation, x.remote)
			}
			w.put(aService("web", "http=80"), o)
			want := "10.0.0.1:4143 namespace:ns service:web" + x.want
			if x.want == "" {
				want += " host=h hints=z"
			}
			if got := tell(w.read("web", 80).Slices[0].Endpoints[0]); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// TestNotText: what can't be sent to a proxy is left out alone.
func TestNotText(t *testing.T) {
	w := newWorld(t, nil)
	w.put(aService("web"), aPod("p"), aPod("q", podLabel(templateHashLabel, "\xff")), aPod("r\xff"),
		aSlice("s", "web", "http=1", "10.0.0.1 pod=p", "10.0.0.2 pod=q", "10.0.0.3 pod=r\xff", "10.0.0.4 pod=p zone=\xff", "10.0.0.5"))
	if got, want := addrs(w.read("web", 1)), "10.0.0.1:1 10.0.0.5:1"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestFirstWins: of two endpoints with one address in one slice the first counts.
func TestFirstWins(t *testing.T) {
	w := newWorld(t, nil)
	w.put(aService("web"), aPod("p"), aPod("q"), aSlice("s", "web", "http=1", "10.0.0.1 pod=q", "10.0.0.1 pod=p"))
	list := w.read("web", 1).Slices[0].Endpoints
	if len(list) != 1 || list[0].Twin != "ns/q" || list[0].Addr != netip.MustParseAddrPort("10.0.0.1:1") {
		t.Errorf("%v", list)
	}
}

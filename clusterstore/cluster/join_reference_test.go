package cluster

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"isthmus/clusterstore/decode"
	"isthmus/federation"
	"isthmus/internal/spec"
)

func drawSlice(t *rapid.T, name string) *discoveryv1.EndpointSlice {
	service := rapid.SampledFrom([]string{"", "a", "a", "a", "b", "gone"}).Draw(t, "service")
	port := rapid.SampledFrom([]string{
		"", "http=", "http=8080", "http=8081", "other=1,http=8080", "=25",
		"http=9/UDP", "http=9/SCTP,http=8080/TCP", "=9/UDP,=25/TCP",
	}).Draw(t, "ports")
	o := aSlice(name, service, port, rapid.SliceOfN(rapid.Custom(drawEndpoint), 0, 5).Draw(t, "endpoints")...)
	if rapid.IntRange(0, 9).Draw(t, "owner") == 0 {
		o.OwnerReferences = []metav1.OwnerReference{{Kind: "Service", Name: "b"}}
	}
	if rapid.IntRange(0, 9).Draw(t, "fqdn") == 0 {
		o.AddressType = discoveryv1.AddressTypeFQDN
	}
	return o
}

func drawEndpoint(t *rapid.T) string {
	text := fmt.Sprintf("10.0.0.%d", rapid.IntRange(1, 6).Draw(t, "ip"))
	for _, options := range [][]string{
		{"", "", " pod=p", " pod=q", " pod=r", " ew=p", " ew=v", " kind=Node"},
		{"", "", " zone=z1", " zone=z2"},
		{"", "", "", " hint=z1", " hint=z2+z1"},
		{"", "", "", " nodehint=n1", " nodehint=n2+n1"},
		{"", "", " host=h", " host=i"},
		{"", "", "", " unready", " unready", " ready"},
		{"", "", "", " terminating"},
		{"", " node=n1", " node=n2"},
	} {
		text += rapid.SampledFrom(options).Draw(t, "word")
	}
	return text
}

func drawPod(t *rapid.T, name string) *corev1.Pod {
	o := aPod(name)
	o.Spec.NodeName = rapid.SampledFrom([]string{"n1", "n2"}).Draw(t, "node")
	o.Status.Message = rapid.SampledFrom([]string{"x", "y"}).Draw(t, "noise")
	o.Spec.ServiceAccountName = rapid.SampledFrom([]string{"", "", "web"}).Draw(t, "account")
	if rapid.Bool().Draw(t, "meshed") {
		meshed(o)
		o.Labels[controlPlaneLabel] = rapid.SampledFrom([]string{"linkerd", "linkerd", "other"}).
			Draw(t, "control plane")
		if rapid.IntRange(0, 3).Draw(t, "silent") == 0 {
			o.Spec.Containers[1].Env = nil
		}
	}
	if hash := rapid.SampledFrom([]string{"", "", "abc"}).Draw(t, "hash"); hash != "" {
		podLabel(templateHashLabel, hash)(o)
	}
	if rapid.IntRange(0, 2).Draw(t, "annotated") == 0 {
		list := rapid.SampledFrom([]string{"", "8080", "80-81, 25", "81,none", "http"}).Draw(t, "opaque")
		podAnnotation(opaqueAnnotation, list)(o)
	}
	if owner := rapid.SampledFrom([]string{"", "r1", "r2"}).Draw(t, "owner"); owner != "" {
		ownedBy("ReplicaSet", owner)(o)
	}
	if app := drawApp(t); app != "" {
		podLabel("app", app)(o)
	}
	if rapid.Bool().Draw(t, "named") {
		o.Spec.Containers[0].Ports = []corev1.ContainerPort{{
			Name: "http", ContainerPort: 8080, HostPort: 81, Protocol: drawProtocol(t),
		}}
	}
	return o
}

func drawProtocol(t *rapid.T) corev1.Protocol {
	return rapid.SampledFrom([]corev1.Protocol{"", "TCP", "TCP", "UDP", "SCTP"}).Draw(t, "protocol")
}

func drawApp(t *rapid.T) string {
	return rapid.SampledFrom([]string{"", "x", "y"}).Draw(t, "app")
}

func drawServer(t *rapid.T, name string) *decode.Server {
	o := aServer(name, rapid.SampledFrom([]string{"8080", "80", "81", "http", "none"}).Draw(t, "port"), "")
	o.Namespace = rapid.SampledFrom([]string{"ns", "ns", "n", "other"}).Draw(t, "namespace")
	o.Spec.ProxyProtocol = rapid.SampledFrom([]string{"opaque", "opaque", "opaque", "HTTP/1"}).Draw(t, "protocol")
	if app := drawApp(t); app != "" {
		o.Spec.PodSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
	}
	switch rapid.IntRange(0, 11).Draw(t, "form") {
	case 0:
		o.Invalid = "spec: odd"
	case 1:
		o.Spec.PodSelector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Odd"}}
	case 2:
		o.Spec.PodSelector = nil
	case 3, 4, 5:
		forWorkloads(o)
	}
	return o
}

func drawWorkload(t *rapid.T, name string) *decode.ExternalWorkload {
	ports := rapid.SampledFrom([][]string{
		nil, {"http=8080"}, {"linkerd-proxy=1111", "http=81"},
		{"linkerd-proxy=1112/UDP", "http=80/UDP", "http=81/TCP"},
	}).Draw(t, "ports")
	o := aWorkload(name, ports...)
	if app := drawApp(t); app != "" {
		o.Labels = map[string]string{"app": app}
	}
	if rapid.Bool().Draw(t, "annotated") {
		o.Annotations = map[string]string{opaqueAnnotation: "http"}
	}
	if rapid.Bool().Draw(t, "owned") {
		o.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "r1"}} // which is not looked up
	}
	if rapid.IntRange(0, 5).Draw(t, "form") == 0 {
		o.Invalid = "spec: odd"
	}
	return o
}

func drawService(t *rapid.T, name string) *corev1.Service {
	ports := rapid.SampledFrom([][]string{
		nil, {"http=80"}, {"other=80", "http=81"}, {"=25"},
		{"other=80/UDP", "http=80/TCP"}, {"http=81/UDP"}, {"=25/SCTP"},
	}).Draw(t, "ports")
	o := aService(name, ports...)
	if rapid.IntRange(0, 5).Draw(t, "external") == 0 {
		o.Spec.Type = corev1.ServiceTypeExternalName
	}
	if rapid.IntRange(0, 3).Draw(t, "local") == 0 {
		local := corev1.ServiceInternalTrafficPolicyLocal
		o.Spec.InternalTrafficPolicy = &local
	}
	return o
}

func draw(t *rapid.T, resource string) (key string, o metav1.Object) {
	names := map[string][]string{
		"endpointslices":    {"s1", "s2", "s3"},
		"pods":              {"p", "q", "r"},
		"services":          {"a", "b"},
		"replicasets":       {"r1", "r2"},
		"servers":           {"s", "t"},
		"externalworkloads": {"p", "v"},
	}
	name := rapid.SampledFrom(names[resource]).Draw(t, "name")
	switch resource {
	case "endpointslices":
		o = drawSlice(t, name)
	case "pods":
		o = drawPod(t, name)
	case "services":
		o = drawService(t, name)
	case "replicasets":
		o = metadataOf("ReplicaSet", name, rapid.SampledFrom([]string{"", "Deployment"}).Draw(t, "owner"), "d-"+name)
	case "servers":
		s := drawServer(t, name)
		return s.Namespace + "/" + name, s
	case "externalworkloads":
		o = drawWorkload(t, name)
	}
	return "ns/" + name, o
}

// seen is a reader with its last result.
type seen struct {
	reader  federation.Reader
	service string
	port    uint16
	last    federation.Share
	parts   map[string]*federation.Slice // by key of the slice
}

// TestJoinReference applies random events in random order. It compares the results of long-lived
// readers with a join from scratch. It also checks that unchanged endpoints keep their pointers and
// that changes are reported.
//
// Behaviours: E-02, E-03, E-12, E-17, E-18, E-21.
func TestJoinReference(t *testing.T) { rapid.Check(t, compareJoins) }

// FuzzJoinReference is TestJoinReference with events chosen by the fuzzer.
func FuzzJoinReference(f *testing.F) { f.Fuzz(rapid.MakeFuzz(compareJoins)) }

func compareJoins(t *rapid.T) {
	cfg := testConfig()
	w := &world{Local: newOn(newFakeAPI(), cfg)}
	w.goLive()
	all := make(objects)
	var readers []*seen
	for _, service := range []string{"a", "b"} {
		for _, port := range []uint16{80, 81, 25} {
			readers = append(
				readers,
				&seen{
					reader:  w.Reader(federation.ServiceID{Namespace: "ns", Name: service}, port),
					service: service,
					port:    port,
				},
			)
		}
	}
	e := events{
		world: w,
		all:   all,
		draw:  draw,
		resources: []string{
			"endpointslices",
			"endpointslices",
			"pods",
			"pods",
			"services",
			"replicasets",
			"servers",
			"servers",
			"externalworkloads",
		},
	}
	e.run(t, func(t *rapid.T) {
		marked := w.marked()
		ns := all.namespace()
		for _, s := range readers {
			s.check(t, ns, slices.Contains(marked, s.service))
		}
		for _, r := range w.Health().Resources {
			if r.Resource != "endpointslices" && r.Objects != all.referenceCount(r.Resource) {
				t.Fatalf("%s: %d objects, want %d", r.Resource, r.Objects, all.referenceCount(r.Resource))
			}
		}
	})
	c := w.cache
	if n := c.size(); n != 0 {
		t.Fatalf(
			"still cached: %v %v %v %v %v %v",
			c.services.byID,
			c.slices.byKey,
			c.pods,
			c.owners.replicaSets,
			c.policies.byNamespace,
			c.unusable,
		)
	}
}

func (s *seen) check(t *rapid.T, ns *spec.Namespace, marked bool) {
	name := fmt.Sprintf("%s:%d", s.service, s.port)
	now := s.reader.Read()
	r := s.reader.(*reader)
	state := stateWords[ns.State(s.service)]
	if got := r.cache.services.stateOf(r.service); got != state || now.State != state {
		t.Fatalf("%s: state %v and %v, want %v", name, got, now.State, state)
	}
	present := state == federation.Present
	declared := present && ns.Declares(s.service, s.port)
	if r.cache.services.declares(r.service, r.port) != declared || now.Undeclared != (present && !declared) {
		t.Fatalf("%s: declared is %v, undeclared %v, want declared %v", name, !declared, now.Undeclared, declared)
	}
	if nodeLocal := present && ns.NodeLocal(s.service); now.NodeLocal != nodeLocal {
		t.Fatalf("%s: node-local is %v, want %v", name, now.NodeLocal, nodeLocal)
	}
	var got []string
	for _, l := range now.Slices {
		got = append(got, fmt.Sprintf("%+v", modelledSlice(l)))
	}
	var want []string
	for _, l := range ns.Backends(s.service, s.port) {
		want = append(want, fmt.Sprintf("%+v", l))
	}
	if !slices.Equal(got, want) {
		t.Fatalf("%s: the slices are\n%s\nwant\n%s", name, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	s.checkPointers(t, name)
	if !marked && !equalShares(s.last, now) {
		t.Fatalf("%s changed from %+v to %+v, and the change was not reported", name, s.last, now)
	}
	s.last = now
}

var stateWords = map[spec.ServiceState]federation.ServiceState{
	spec.Missing:      federation.Missing,
	spec.Present:      federation.Present,
	spec.ExternalName: federation.ExternalName,
}

// checkPointers checks that equal slices, and equal endpoints of a slice, keep their pointers.
func (s *seen) checkPointers(t *rapid.T, name string) {
	before := s.parts
	s.parts = make(map[string]*federation.Slice)
	for _, p := range s.reader.(*reader).parts {
		s.parts[p.key] = p.slice
		old := before[p.key]
		if old == nil || old == p.slice {
			continue
		}
		if equalSlices(old, p.slice) {
			t.Fatalf("%s: slice %s is equal, but has another pointer", name, p.key)
		}
		for _, lists := range [][2][]*federation.Endpoint{
			{p.slice.Endpoints, old.Endpoints},
			{p.slice.Unready, old.Unready},
		} {
			for _, e := range lists[0] {
				for _, o := range lists[1] {
					if o != e && o.Equal(e) {
						t.Fatalf("%s: %v of slice %s is equal, but has another pointer", name, e.Addr, p.key)
					}
				}
			}
		}
	}
}

func describeAll(l *federation.Slice) (list []string) {
	for _, e := range l.Endpoints {
		list = append(list, describe(e))
	}
	return append(list, describeUnready(l)...)
}

// describeUnready renders the addresses that are not ready.
func describeUnready(l *federation.Slice) (list []string) {
	for _, e := range l.Unready {
		kind := [...]string{federation.Address: "address", federation.Pod: "pod",
			federation.Workload: "workload"}[e.Kind]
		list = append(list, "unready "+kind+" "+describe(e))
	}
	return list
}

func equalSlices(a, b *federation.Slice) bool {
	return slices.EqualFunc(a.Endpoints, b.Endpoints, (*federation.Endpoint).Equal) &&
		slices.EqualFunc(a.Unready, b.Unready, (*federation.Endpoint).Equal)
}

func equalShares(a, b federation.Share) bool {
	return a.State == b.State && a.NodeLocal == b.NodeLocal && a.Undeclared == b.Undeclared &&
		slices.EqualFunc(a.Slices, b.Slices, equalSlices)
}

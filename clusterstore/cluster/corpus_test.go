package cluster

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"pgregory.net/rapid"

	"isthmus/clusterstore/decode"
	"isthmus/clusterstore/internal/clustertest"
)

// corpusSize is the number of objects of each kind.
const corpusSize = 400

// isKept has everything that is cached of an object.
type isKept struct {
	Namespace, Name, Version string
	Updated                  int64
	Value                    any
}

func newKept(o decode.Object, value any) isKept {
	k := isKept{
		Namespace: strings.Clone(o.GetNamespace()),
		Name:      strings.Clone(o.GetName()),
		Version:   strings.Clone(o.GetResourceVersion()),
		Value:     value,
	}
	for _, f := range o.GetManagedFields() {
		if f.Operation == metav1.ManagedFieldsOperationUpdate && f.Time != nil {
			k.Updated = max(k.Updated, f.Time.Unix())
		}
	}
	return k
}

// corpusKind is a kind whose objects are decoded both by client-go's types and by package decode.
type corpusKind struct {
	schema.GroupVersionKind
	used string
	make func(clustertest.Maker) []byte                            // returns an encoded object
	old  func(data []byte, change func(decode.Object)) isKept      // decodes an object with client-go
	all  func(t *testing.T, from decode.Sources) (listed []isKept) // decodes all objects with package decode
}

func newCorpusKind[T any, O interface {
	*T
	decode.Object
}](
	kind schema.GroupVersionKind, used string, spice func(clustertest.Maker, O),
	from func(decode.Sources) decode.Source[O], compact func(O) any,
) corpusKind {
	return corpusKind{GroupVersionKind: kind, used: used,
		make: func(m clustertest.Maker) []byte {
			o := O(new(T))
			m.Make(o)
			spice(m, o)
			var data []byte
			var err error
			if p, ok := any(o).(interface{ Marshal() ([]byte, error) }); ok {
				data, err = p.Marshal()
			} else {
				any(o).(schema.ObjectKind).SetGroupVersionKind(kind)
				data, err = json.Marshal(o)
			}
			if err != nil {
				panic(err)
			}
			return data
		},
		old: func(data []byte, change func(decode.Object)) isKept {
			o := O(new(T))
			var err error
			if p, ok := any(o).(interface{ Unmarshal([]byte) error }); ok {
				err = p.Unmarshal(data)
			} else {
				err = json.Unmarshal(data, o)
			}
			if err != nil {
				panic(err)
			}
			if change != nil {
				change(o)
			}
			return newKept(o, compact(o))
		},
		all: func(t *testing.T, s decode.Sources) (listed []isKept) {
			_, err := from(s).List(t.Context(), metav1.ListOptions{}, func(o O, refused *decode.Refused) error {
				if refused != nil {
					return refused.Err
				}
				listed = append(listed, newKept(o, compact(o)))
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			return listed
		},
	}
}

func corpusKinds(t *testing.T) []corpusKind {
	cfg := testConfig()
	cfg.Rules.LoopbackGateways = true
	cfg.local = localConfig()
	c := newOn(newFakeAPI(), cfg)
	partial := schema.GroupVersionKind{Group: "meta.k8s.io", Version: "v1", Kind: "PartialObjectMetadata"}
	return []corpusKind{
		newCorpusKind(
			corev1.SchemeGroupVersion.WithKind("Pod"),
			clustertest.UsedPod,
			spicePod,
			func(s decode.Sources) decode.Source[*corev1.Pod] { return s.Pods },
			func(o *corev1.Pod) any {
				p, _ := compactPod(c.Cluster, o)
				return p
			},
		),
		newCorpusKind(
			corev1.SchemeGroupVersion.WithKind("Service"),
			clustertest.UsedService,
			spiceService,
			func(s decode.Sources) decode.Source[*corev1.Service] { return s.Services },
			func(o *corev1.Service) any {
				s := compactService(o, c.cfg.Rules, true)
				s.exported = fieldsOfExports(o)
				s.selecting = encodeSelecting(o)
				s.leads = readGateway(o, c.cfg.Rules) // as for a linked cluster
				return s
			},
		),
		newCorpusKind(
			discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice"),
			clustertest.UsedSlice,
			spiceSlice,
			func(s decode.Sources) decode.Source[*discoveryv1.EndpointSlice] { return s.EndpointSlices },
			func(o *discoveryv1.EndpointSlice) any {
				d, ok := compactSlice(o, true, "")
				return []any{d, ok}
			},
		),
		newCorpusKind(
			corev1.SchemeGroupVersion.WithKind("Endpoints"),
			clustertest.UsedEndpoints,
			spiceEndpoints,
			func(s decode.Sources) decode.Source[*coreEndpoints] { return s.Endpoints },
			func(o *coreEndpoints) any {
				return compactEndpoints(o, true)
			},
		),
		newCorpusKind(
			partial,
			clustertest.UsedMeta,
			func(clustertest.Maker, *metav1.PartialObjectMetadata) {},
			func(s decode.Sources) decode.Source[*metav1.PartialObjectMetadata] { return s.NodeMetadata },
			func(o *metav1.PartialObjectMetadata) any {
				owner, _ := compactOwner(o)
				node, _ := compactLinkedNode(o)
				return []any{owner, node}
			},
		),
		newCorpusKind(
			corev1.SchemeGroupVersion.WithKind("Node"), clustertest.UsedNode, spiceNode,
			func(s decode.Sources) decode.Source[*corev1.Node] { return s.Nodes },
			func(o *corev1.Node) any {
				n, _ := compactLocalNode(o)
				ranges := fmt.Sprint(o.Spec.PodCIDRs, o.Spec.PodCIDR) // read by package facts
				return []any{n, ranges}
			},
		),
		newCorpusKind(
			decode.PolicyVersion.WithKind("Server"),
			"",
			func(clustertest.Maker, *decode.Server) {},
			func(s decode.Sources) decode.Source[*decode.Server] { return s.Servers },
			func(o *decode.Server) any {
				f, ok := compactServer(o)
				return []any{f, ok}
			},
		),
		newCorpusKind(
			decode.WorkloadVersion.WithKind("ExternalWorkload"),
			"",
			func(clustertest.Maker, *decode.ExternalWorkload) {},
			func(s decode.Sources) decode.Source[*decode.ExternalWorkload] { return s.Workloads },
			func(o *decode.ExternalWorkload) any {
				p, _ := compactWorkload(c.Cluster, o)
				return p
			},
		),
		newCorpusKind(
			decode.ProfileVersion.WithKind("ServiceProfile"),
			"",
			func(clustertest.Maker, *decode.ServiceProfile) {},
			func(s decode.Sources) decode.Source[*decode.ServiceProfile] { return s.Profiles },
			func(o *decode.ServiceProfile) any {
				return translateProfile(o)
			},
		),
	}
}

// fieldsOfExports replaces ExportHooks.Service. It returns the fields that exports depend on.
func fieldsOfExports(o *corev1.Service) any {
	o = o.DeepCopy()
	maps.DeleteFunc(o.Annotations, func(key, _ string) bool {
		return !strings.Contains(key, "linkerd.io/") && !strings.Contains(key, "isthmus.io/")
	})
	var owner []string
	if len(o.OwnerReferences) > 0 {
		first := o.OwnerReferences[0]
		owner = []string{first.Kind, first.Name, string(first.UID)}
	}
	spec := corev1.ServiceSpec{
		Type:                  o.Spec.Type,
		ClusterIP:             o.Spec.ClusterIP,
		ClusterIPs:            o.Spec.ClusterIPs,
		IPFamilies:            o.Spec.IPFamilies,
		IPFamilyPolicy:        o.Spec.IPFamilyPolicy,
		SessionAffinity:       o.Spec.SessionAffinity,
		InternalTrafficPolicy: o.Spec.InternalTrafficPolicy,
		TrafficDistribution:   o.Spec.TrafficDistribution,
	}
	for _, p := range o.Spec.Ports {
		spec.Ports = append(spec.Ports, corev1.ServicePort{
			Name: p.Name, Protocol: p.Protocol, AppProtocol: p.AppProtocol, Port: p.Port, TargetPort: p.TargetPort,
		})
	}
	if c := o.Spec.SessionAffinityConfig; c != nil && c.ClientIP != nil {
		timeout := corev1.ClientIPConfig{TimeoutSeconds: c.ClientIP.TimeoutSeconds}
		spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &timeout}
	}
	text, err := json.Marshal(
		[]any{o.UID, o.DeletionTimestamp != nil, fmt.Sprint(o.Labels, o.Annotations), owner, spec},
	)
	if err != nil {
		panic(err)
	}
	return string(text) // a copy, because the decoder reuses the memory of the object
}

// spiceNode adds repeated addresses of both families to Nodes.
func spiceNode(m clustertest.Maker, o *corev1.Node) {
	for i := range o.Status.Addresses {
		o.Status.Addresses[i].Address = []string{"10.0.0.1", "::ffff:10.0.0.1", "fd00::1", "n1.example.com"}[m.IntN(4)]
	}
}

// spicePod makes some Pods meshed.
func spicePod(m clustertest.Maker, o *corev1.Pod) {
	if m.IntN(2) == 0 {
		return
	}
	o.Labels = map[string]string{controlPlaneLabel: "linkerd", "app": "web"}
	o.Annotations = map[string]string{opaqueAnnotation: "25,http", skipAnnotation: "4222"}
	o.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "web-1", UID: "x"}}
	proxy := corev1.Container{
		Name: proxyContainer,
		Ports: []corev1.ContainerPort{
			{Name: "http", ContainerPort: int32(m.IntN(1000)), HostPort: int32(m.IntN(100)), Protocol: "TCP"},
		},
	}
	proxy.Ports = append(proxy.Ports,
		corev1.ContainerPort{Name: "dns", ContainerPort: 53, HostPort: 53, Protocol: "UDP"})
	for _, name := range []string{inboundListenEnv, "OTHER", adminListenEnv, controlListenEnv} {
		proxy.Env = append(proxy.Env, corev1.EnvVar{Name: name, Value: fmt.Sprint("0.0.0.0:", 4000+m.IntN(1000))})
	}
	if m.IntN(2) == 0 {
		o.Spec.Containers = append(o.Spec.Containers, proxy)
	} else {
		o.Spec.InitContainers = append(o.Spec.InitContainers, proxy)
	}
}

// spiceService makes some Services gateways.
func spiceService(m clustertest.Maker, o *corev1.Service) {
	if m.IntN(2) == 0 {
		return
	}
	o.Name, o.Namespace = "gateway", "linkerd-multicluster"
	o.Annotations = map[string]string{
		gatewayAnnotation:  "true",
		identityAnnotation: "gateway.id",
		pathAnnotation:     "/ready",
		periodAnnotation:   "3",
		opaqueAnnotation:   "probe",
	}
	o.Labels = map[string]string{"isthmus.io/x": "y", "other": "z"}
	o.Spec.Ports = []corev1.ServicePort{
		{Name: gatewayPort, Port: 4142, Protocol: "UDP"},
		{Name: gatewayPort, Port: 4143, NodePort: 30143, Protocol: "TCP"},
		{Name: probePort, Port: 4191, NodePort: 30191},
	}
}

func spiceSlice(m clustertest.Maker, o *discoveryv1.EndpointSlice) {
	if m.IntN(2) == 0 {
		o.AddressType = "IPv4"
		o.Labels = map[string]string{discoveryv1.LabelServiceName: "web", mirrorClusterLabel: "east"}
		o.Annotations = map[string]string{gatewayIdentityAnnotation: "id", remoteNameAnnotation: "name"}
	}
	o.Ports = append(o.Ports,
		discoveryv1.EndpointPort{Name: new("dns"), Port: new(int32(53)), Protocol: new(corev1.ProtocolUDP)})
	for i := range 4 {
		o.Endpoints = append(o.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{
				fmt.Sprint("10.0.1.", m.IntN(256)),
			}, TargetRef: &corev1.ObjectReference{Kind: "Pod", Name: fmt.Sprint("web-", i)},
			Conditions: discoveryv1.EndpointConditions{
				Ready: new(i%2 == 0),
			}, NodeName: new("n1"), Hostname: new(fmt.Sprint("web-", i)), Zone: new("z1"),
			Hints: &discoveryv1.EndpointHints{
				ForZones: []discoveryv1.ForZone{{Name: "z1"}, {Name: "z2"}},
				ForNodes: []discoveryv1.ForNode{{Name: "n1"}},
			},
		})
	}
	o.OwnerReferences = append([]metav1.OwnerReference{{Kind: "Service", Name: "web"}}, o.OwnerReferences...)
}

func spiceEndpoints(m clustertest.Maker, o *coreEndpoints) {
	address := corev1.EndpointAddress{
		IP:        fmt.Sprint("10.0.1.", m.IntN(256)),
		NodeName:  new("n1"),
		TargetRef: &corev1.ObjectReference{Kind: "Pod", Name: "web-1"},
	}
	o.Subsets = append(o.Subsets, coreEndpointSubset{
		Addresses:         []corev1.EndpointAddress{address},
		NotReadyAddresses: []corev1.EndpointAddress{address},
		Ports: []corev1.EndpointPort{
			{Name: "dns", Port: 53, Protocol: "UDP"},
			{Name: "dns", Port: 54, Protocol: "TCP"},
		},
	})
}

// sameAnswer is an API server that has the same response for every request.
type sameAnswer struct {
	contentType string
	body        []byte
}

func (a sameAnswer) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: http.StatusOK,
		Header:     http.Header{"Content-Type": {a.contentType}},
		Body:       io.NopCloser(bytes.NewReader(a.body)),
	}, nil
}

func (k corpusKind) sources(t *testing.T, objects [][]byte) decode.Sources {
	t.Helper()
	answer := sameAnswer{contentType: runtime.ContentTypeJSON}
	version, kind := k.ToAPIVersionAndKind()
	if strings.Contains(k.Group, "linkerd.io") {
		answer.body = fmt.Appendf(
			nil,
			`{"apiVersion":%q,"kind":"%sList","items":[%s]}`,
			version,
			kind,
			bytes.Join(objects, []byte(",")),
		)
	} else {
		answer.contentType = runtime.ContentTypeProtobuf
		var list []byte
		for _, o := range objects {
			list = protowire.AppendBytes(protowire.AppendTag(list, 2, protowire.BytesType), o)
		}
		meta := runtime.TypeMeta{APIVersion: version, Kind: kind + "List"}
		data, err := (&runtime.Unknown{TypeMeta: meta, Raw: list}).Marshal()
		if err != nil {
			t.Fatal(err)
		}
		answer.body = append([]byte("k8s\x00"), data...)
	}
	return decode.NewSources(&http.Client{Transport: answer}, &url.URL{Scheme: "https", Host: "east"})
}

// TestKeptAsClientGo checks that the cache is the same as if client-go had decoded the objects
// entirely. The cache stays the same after the decoder has reused its memory.
func TestKeptAsClientGo(t *testing.T) {
	for _, k := range corpusKinds(t) {
		rapid.Check(t, func(rt *rapid.T) {
			m := clustertest.Maker{Rand: rand.New(rand.NewPCG(1, rapid.Uint64().Draw(rt, "seed")))}
			var objects [][]byte
			for range 3 {
				objects = append(objects, k.make(m))
			}
			k.compare(t, objects)
		})
	}
}

// compare compares the cached parts of encoded objects.
func (k corpusKind) compare(t *testing.T, objects [][]byte) {
	t.Helper()
	got := k.all(t, k.sources(t, objects))
	if len(got) != len(objects) {
		t.Fatalf("%s: %d objects", k.Kind, len(got))
	}
	for i, o := range objects {
		if want := k.old(o, nil); !reflect.DeepEqual(got[i], want) {
			t.Fatalf("%s: got\n%+v\nwant\n%+v", k.Kind, got[i], want)
		}
	}
}

// TestUsedFields checks that the cache depends on each decoded field.
func TestUsedFields(t *testing.T) {
	needed := make(map[string]bool)
	for _, k := range corpusKinds(t) {
		m := clustertest.Maker{Rand: rand.New(rand.NewPCG(2, 2))}
		for range corpusSize {
			data := k.make(m)
			want := k.old(data, nil)
			for _, path := range strings.Fields(k.used) {
				name := path // all kinds share one table for metadata
				if !strings.HasPrefix(path, "ObjectMeta.") {
					name = k.Kind + "." + path
				}
				needed[name] = needed[name] ||
					!reflect.DeepEqual(
						want,
						k.old(data, func(o decode.Object) { clustertest.Zero(reflect.ValueOf(o), path) }),
					)
			}
		}
	}
	needed["ObjectMeta.CreationTimestamp"] = true // by link Secrets
	for path, is := range needed {
		if !is {
			t.Errorf("%s is decoded but not used", path)
		}
	}
}

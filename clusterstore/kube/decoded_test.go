package kube

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	serializerjson "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/utils/ptr"

	"isthmus/clusterstore/budget"
)

// FuzzInterpret: the kind of an answer is what client-go's decoder takes it for, or else
// that does not decode it.
func FuzzInterpret(f *testing.F) {
	for _, seed := range []string{
		`{"kind":"PodList","apiVersion":"v1"}`, `{"KIND":"a","k\u0069nd":"b","items":[{"kind":"c"}],"apiVersion":"x/v1"}`,
		"{\"\u212aind\":\"\\\"\"}", `{"kind":null}`, `{"kind":"a","kind":null}`, `{"kind" : {"kind":"a"}}`, `[]`, `null`, `{"kind":"a"`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		want, err := serializerjson.DefaultMetaFactory.Interpret(data)
		if err != nil || !utf8.Valid(data) { // no kind has what is not valid
			return
		}
		if got := interpretJSON(data); got != *want {
			t.Fatalf("%q is of kind %+v, not %+v", data, *want, got)
		}
	})
}

// FuzzMeasureAnswer: nothing that a server sends makes it fail otherwise than by an error.
func FuzzMeasureAnswer(f *testing.F) {
	f.Add([]byte(`{"kind":"PodList","apiVersion":"v1","items":[{}]}`))
	f.Add([]byte(`{"type":"ADDED","object":{"kind":"Pod","apiVersion":"v1"}}`))
	f.Add([]byte("k8s\x00\n\r\n\x02v1\x12\aPodList\x12\x04\x12\x00\x12\x00"))
	f.Add([]byte(`{"kind":"Table","apiVersion":"meta.k8s.io/v1","rows":[{"cells":[[],[]]}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		data = append(data, make([]byte, measuredFrom)...)
		_, _ = measureAnswer(data, "x")
		_, _ = measureAnswer(data[:len(data)-measuredFrom], "x")
		_, _ = measureEvent(data, false, "x")
		_, _ = measureEvent(data, true, "x")
	})
}

// legit are objects as large as API servers take them.
func legit(t testing.TB) map[string]apiruntime.Object {
	quantities := corev1.ResourceList{"cpu": resource.MustParse("100m"), "memory": resource.MustParse("1Gi"), "x": resource.MustParse("1e12")}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Labels: map[string]string{}}, Spec: corev1.PodSpec{Containers: []corev1.Container{{
		Name: "c", Resources: corev1.ResourceRequirements{Limits: quantities},
	}}}}
	for i := range 40_000 {
		pod.Labels[fmt.Sprint("l", i)] = "v"
	}
	crowd := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}}
	for i := range 15_000 {
		crowd.Spec.Containers = append(crowd.Spec.Containers, corev1.Container{Name: fmt.Sprint("c", i), Image: "i",
			TerminationMessagePath: "/dev/termination-log", TerminationMessagePolicy: "File", ImagePullPolicy: "Always"})
	}
	slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Name: "s"}, AddressType: "IPv4"}
	for i := range 1000 {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
			Addresses:  []string{fmt.Sprintf("10.0.%d.%d", i/250, i%250)},
			Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true), Serving: ptr.To(true), Terminating: ptr.To(false)},
			NodeName:   ptr.To("node-17"), Zone: ptr.To("europe-west1-b"),
			TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: "shop", Name: "web-5d4f8c7b9-abcde", UID: types.UID(strings.Repeat("u", 36))},
		})
	}
	for i := range 100 {
		slice.Ports = append(slice.Ports, discoveryv1.EndpointPort{Name: ptr.To(fmt.Sprint("p", i)), Port: ptr.To(int32(i)), Protocol: ptr.To(corev1.ProtocolTCP)})
	}
	//lint:ignore SA1019 it is read with --enable-endpoint-slices=false
	endpoints := &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Name: "e"}}
	//lint:ignore SA1019 a part of it
	endpoints.Subsets = []corev1.EndpointSubset{{}}
	for i := range 90_000 {
		endpoints.Subsets[0].Addresses = append(endpoints.Subsets[0].Addresses, corev1.EndpointAddress{IP: fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255)})
	}
	for o, kind := range map[apiruntime.Object]string{pod: "Pod", crowd: "Pod", slice: "EndpointSlice", endpoints: "Endpoints"} {
		version := "v1"
		if kind == "EndpointSlice" {
			version = "discovery.k8s.io/v1"
		}
		o.GetObjectKind().SetGroupVersionKind(schema.FromAPIVersionAndKind(version, kind))
	}
	return map[string]apiruntime.Object{"labels": pod, "containers": crowd, "slice": slice, "endpoints": endpoints}
}

// TestLegitObjects: the largest objects of API servers are not refused, in either encoding,
// alone or in an event.
func TestLegitObjects(t *testing.T) {
	for name, o := range legit(t) {
		text, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		binary, err := o.(interface{ Marshal() ([]byte, error) }).Marshal()
		if err != nil {
			t.Fatal(err)
		}
		version, kind := o.GetObjectKind().GroupVersionKind().ToAPIVersionAndKind()
		for encoding, data := range map[string][]byte{"JSON": text, "protobuf": wrapped(kind, version, binary)} {
			size, err := measureAnswer(data, name)
			t.Logf("%s in %s: %d kB, measured %d kB", name, encoding, len(data)>>10, size>>10)
			if err != nil {
				t.Errorf("%s in %s: %v", name, encoding, err)
			}
			event := metav1.WatchEvent{Type: "ADDED", Object: apiruntime.RawExtension{Raw: data}}
			if encoding == "JSON" {
				data, err = json.Marshal(event)
			} else {
				data, err = event.Marshal()
			}
			if err != nil {
				t.Fatal(err)
			}
			if inEvent, err := measureEvent(data, encoding == "protobuf", name); err != nil || inEvent != size {
				t.Errorf("%s in an event of %s: %d, %v", name, encoding, inEvent, err)
			}
		}
	}
}

// TestLargeObject: an object of a list may be as large as an event.
func TestLargeObject(t *testing.T) {
	for _, large := range []bool{false, true} {
		n := maxEvent - 100
		if large {
			n = maxEvent
		}
		name := strings.Repeat("x", n)
		pods := corev1.PodList{Items: []corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: name}}}}
		raw, err := pods.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		for encoding, data := range map[string][]byte{
			"protobuf": wrapped("PodList", "v1", raw),
			"JSON":     []byte(`{"kind":"PodList","apiVersion":"v1","items":[{},{"metadata":{"name":"` + name + `"}}]}`),
		} {
			if _, err := measureAnswer(data, "x"); errors.Is(err, budget.ErrOver) != large {
				t.Errorf("%s: an object of %d bytes: %v", encoding, n, err)
			}
		}
	}
}

// TestQuantities: one whose digits would take hours to compute is refused before it is parsed.
func TestQuantities(t *testing.T) {
	for text, refused := range map[string]bool{
		"1e-1000000000": true, "1E-10000": true, strings.Repeat("1", 1000): true,
		"100m": false, "1e12": false, "12345678": false, "-0.5Gi": false,
	} {
		pod := fmt.Sprintf(`{"kind":"Pod","apiVersion":"v1","metadata":{"name":"%s"},"spec":{"overhead":{"cpu":%q}}}`,
			strings.Repeat("x", measuredFrom), text)
		if _, err := measureAnswer([]byte(pod), "x"); (err != nil) != refused {
			t.Errorf("%s: %v", text, err)
		}
		// in protobuf: spec 2, overhead 32, its value 2, the text 1
		raw := protowire.AppendBytes(nil, []byte(text))
		for _, number := range []protowire.Number{1, 2, 32, 2} {
			if number != 1 {
				raw = protowire.AppendBytes(nil, raw)
			}
			raw = append(protowire.AppendTag(nil, number, protowire.BytesType), raw...)
		}
		raw = append(raw, protowire.AppendBytes(protowire.AppendTag(nil, 99, protowire.BytesType), make([]byte, measuredFrom))...)
		if _, err := measureAnswer(wrapped("Pod", "v1", raw), "x"); (err != nil) != refused {
			t.Errorf("%s in protobuf: %v", text, err)
		}
	}
}

// TestOtherEncodings: what client-go would decode and nobody asked for is refused, and so is
// a list without kind, which would be decoded as what was requested.
func TestOtherEncodings(t *testing.T) {
	for contentType, want := range map[string]string{"application/yaml": "yaml", "application/cbor": "cbor", "application/json": "no kind"} {
		client := hostileClient(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", contentType)
			fmt.Fprintf(w, `{"items":[%s{}]}`, strings.Repeat("{},", measuredFrom))
		}), true)
		if _, err := client.Pods("").List(t.Context(), metav1.ListOptions{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("a list of type %s: %v", contentType, err)
		}
	}
}

// BenchmarkMeasure is what measuring a page of Pods or slices adds to decoding it.
func BenchmarkMeasure(b *testing.B) {
	slice := legit(b)["slice"].(*discoveryv1.EndpointSlice)
	list := &discoveryv1.EndpointSliceList{TypeMeta: metav1.TypeMeta{Kind: "EndpointSliceList", APIVersion: "discovery.k8s.io/v1"}}
	for range 20 {
		list.Items = append(list.Items, *slice)
	}
	text, _ := json.Marshal(list)
	binary, _ := list.Marshal()
	for name, data := range map[string][]byte{"JSON": text, "protobuf": wrapped("EndpointSliceList", "discovery.k8s.io/v1", binary)} {
		b.Run(name+"/measure", func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				_, _ = measureAnswer(data, "x")
			}
		})
		b.Run(name+"/decode", func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				if name == "JSON" {
					_ = utiljson.Unmarshal(text, &discoveryv1.EndpointSliceList{})
				} else {
					_ = fromProtobuf(binary, &discoveryv1.EndpointSliceList{})
				}
			}
		})
	}
}

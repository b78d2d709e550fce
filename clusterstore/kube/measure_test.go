package kube

import (
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"isthmus/clusterstore/crd"
)

// decodable are types that answers are decoded to.
var decodable = []func() any{
	func() any { return &corev1.PodList{} }, func() any { return &discoveryv1.EndpointSliceList{} },
	func() any { return &corev1.EndpointsList{} }, func() any { return &corev1.ServiceList{} },
	func() any { return &corev1.NodeList{} }, func() any { return &corev1.SecretList{} },
	func() any { return &metav1.PartialObjectMetadataList{} }, func() any { return &corev1.Pod{} },
	func() any { return &crd.ServerList{} }, func() any { return &crd.ExternalWorkloadList{} }, func() any { return &crd.ServiceProfileList{} },
}

// live returns what a decoded value refers to, in bytes.
func live(v reflect.Value) (size int64) {
	switch v.Kind() {
	case reflect.String:
		return int64(v.Len())
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() || v.Type() == reflect.TypeFor[*time.Location]() {
			return 0
		}
		return int64(v.Elem().Type().Size()) + live(v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			size += live(v.Field(i))
		}
	case reflect.Slice:
		size = int64(v.Cap()) * int64(v.Type().Elem().Size())
		for i := range v.Len() {
			size += live(v.Index(i))
		}
	case reflect.Map:
		for i := v.MapRange(); i.Next(); {
			size += 2*int64(v.Type().Key().Size()+v.Type().Elem().Size()) + live(i.Key()) + live(i.Value())
		}
	}
	return size
}

// check decodes data and compares what the result takes with what was measured.
func check(t *testing.T, into any, data []byte, walk walkFunc, decode func([]byte, any) error) {
	t.Helper()
	of := reflect.TypeOf(into).Elem()
	m := measure{items: itemsOf(of)}
	walk(&m, of, data)
	if m.quantity != "" {
		return // is not decoded: that may take long
	}
	err := decode(data, into)
	// Numbers and times that are copied to be read are in no object: slack is for those of few bytes.
	if got := live(reflect.ValueOf(into).Elem()); got > m.size+int64(len(data)) {
		t.Fatalf("%q as %v takes %d bytes, and %d are measured (%v)", data, of, got, m.size, err)
	}
}

func fromProtobuf(data []byte, into any) error {
	m, ok := into.(interface{ Unmarshal([]byte) error })
	if !ok {
		return nil
	}
	return m.Unmarshal(data)
}

// FuzzMeasureJSON: an object never takes more than was measured, whatever it is decoded to.
func FuzzMeasureJSON(f *testing.F) {
	for _, seed := range []string{
		`{"items":[{},{},null,1,"x",[],{"spec":{"containers":[{},{}]}}]}`, `{"it\u0065ms":[{},{}]}`, "{\"iteM\u017f\":[{}]}",
		`{"items":[{"metadata":{"labels":{"a":"b","":""},"managedFields":[{"fieldsV1":{"f:a":{}}}]}}]}`, `{"items":[`, `{"items":[{"a":"\\\"]"},{}]}`,
		`{"items":[{"endpoints":[{"addresses":["",""],"targetRef":{},"deprecatedTopology":{"a":""}}]}]}`,
		`{"items":[{"status":{"capacity":{"a":"1e9","":1},"images":[{"names":["",""]}]}}]}`,
		`{"spec":{"volumes":[{"rbd":{}},{"name":"a","csi":{"volumeAttributes":{"":""}}}]}}`,
		`{"items":[{"spec":{"dstOverrides":[{},{}],"routes":[{"condition":{"all":[{},{"not":{"any":[{}]}}]}}]}}]}`,
		`{"items":[{"spec":{"podSelector":{"matchExpressions":[{},{}]}}}]}`,
		`{"subsets":[{"addresses":[{},{}],"ports":[{}]}],"items":[{"subsets":[{"addresses":[{},{}],"ports":[{}]}]}]}`,
		`{"items":[{"data":{"":"","a":"YWFh"}}]}`,
		`{"items"["metadata":{"labels":{"a":"b"}i`, `[:]`, `{"items":[:`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, of := range decodable {
			check(t, of(), data, measureJSON, utiljson.Unmarshal)
		}
	})
}

// FuzzMeasureProtobuf is FuzzMeasureJSON for protobuf.
func FuzzMeasureProtobuf(f *testing.F) {
	add := func(number protowire.Number, value ...byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), value)
	}
	empty := add(2)
	f.Add([]byte("\x12\x00\x12\x00\x12\x00"))
	f.Add(add(2, add(2, append(empty, empty...)...)...))
	f.Add([]byte("\x92\x80\x80\x80\x80\x80\x80\x80\x80\x7e\x00\x12\x00")) // a number that does not fit into 64 bits
	f.Add([]byte("\x92\x80\x80\x80\x80\x01\x00\x92\x80\x80\x80\x80\x01\x00"))
	f.Add([]byte("\x0b\x08\x01\x0c\x12\x00\x12\x02\x12\x00"))
	for _, of := range decodable {
		if o, ok := of().(interface{ Marshal() ([]byte, error) }); ok {
			text := strings.ReplaceAll(`{"items":[X,X]}`, "X", `{"metadata":{"labels":{"a":"b"},"ownerReferences":[{}]},"spec":{"containers":[{"resources":{"limits":{"cpu":"1"}}}],"ports":[{}]},`+
				`"endpoints":[{"addresses":["a"],"conditions":{"ready":true},"targetRef":{}}],"subsets":[{"addresses":[{}]}],"data":{"a":"YQ=="}}`)
			if err := utiljson.Unmarshal([]byte(text), o); err != nil {
				f.Fatal(err)
			}
			data, err := o.Marshal()
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, of := range decodable {
			check(t, of(), data, measureProtobuf, fromProtobuf)
		}
	})
}

// wrapped is an object of v1 in protobuf, as API servers send it.
func wrapped(kind, version string, raw []byte) []byte {
	text, _ := (&apiruntime.Unknown{TypeMeta: apiruntime.TypeMeta{APIVersion: version, Kind: kind}, Raw: raw}).Marshal()
	return append([]byte("k8s\x00"), text...)
}

// crowded are answers and events of many elements that are almost empty.
func crowded(n int) map[string][]byte {
	list := func(item string) []byte {
		return []byte(`{"kind":"PodList","apiVersion":"v1","items":[` + strings.Repeat(item+",", n) + item + `]}`)
	}
	return map[string][]byte{
		"Pods":              list("{}"),
		"null":              list("null"),
		"numbers":           list("1"),
		"Pods in protobuf":  wrapped("PodList", "v1", []byte(strings.Repeat("\x12\x00", n))),
		"escaped":           []byte(`{"kind":"PodList","apiVersion":"v1","it\u0065ms":[` + strings.Repeat("{},", n) + `{}]}`),
		"other kinds":       []byte(`{"kind":"PodTemplateList","apiVersion":"v1","items":[` + strings.Repeat("{},", n) + `{}]}`),
		"containers":        []byte(`{"kind":"Pod","apiVersion":"v1","spec":{"containers":[` + strings.Repeat("{},", n) + `{}]}}`),
		"binary containers": wrapped("Pod", "v1", protowire.AppendBytes([]byte{0x12}, []byte(strings.Repeat("\x12\x00", n)))),
	}
}

// TestMeasureHeap: what is measured is what decoding takes of the heap, and not far more.
func TestMeasureHeap(t *testing.T) {
	for name, data := range crowded(20_000) {
		kind, raw, walk := interpret(data)
		size, _ := measureKind(kind, raw, walk, name)
		o, err := schemes[0].New(kind)
		if err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		if walkIsJSON := raw[0] == '{'; walkIsJSON {
			err = utiljson.Unmarshal(raw, o)
		} else {
			err = fromProtobuf(raw, o)
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		took := int64(after.HeapAlloc) - int64(before.HeapAlloc)
		t.Logf("%s: %d kB take %d kB, measured %d kB (%v)", name, len(data)>>10, took>>10, size>>10, err)
		if took > size || size > 4*took {
			t.Errorf("%s: %d bytes take %d, and %d are measured", name, len(data), took, size)
		}
		runtime.KeepAlive(o)
	}
}

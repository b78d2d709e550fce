package decode

import (
	"encoding/json"
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"
	"pgregory.net/rapid"

	"isthmus/clusterstore/crd"
	"isthmus/clusterstore/decode/corpus"
)

const usedCustom = "ObjectMeta.Name ObjectMeta.Namespace ObjectMeta.ResourceVersion ObjectMeta.Labels ObjectMeta.Annotations " +
	"ObjectMeta.OwnerReferences.Kind ObjectMeta.OwnerReferences.Name ObjectMeta.ManagedFields Spec Status Invalid"

// heldCustom are the kinds in JSON, held against package crd's own way to decode them.
var heldCustom = []func(t testing.TB, data []byte) (ours, theirs error){
	compareCustom[crd.Server](textSource("").Servers), compareCustom[crd.ExternalWorkload](textSource("").Workloads), compareCustom[crd.ServiceProfile](textSource("").Profiles),
}

func compareCustom[T any, O interface {
	*T
	Object
	json.Unmarshaler
}](from Source[O]) func(t testing.TB, data []byte) (ours, theirs error) {
	return func(t testing.TB, data []byte) (ours, theirs error) {
		var got, want T
		if theirs = O(&want).UnmarshalJSON(data); theirs == nil {
			prune(O(&want), usedCustom)
		}
		ours = from.(*custom[T, O]).decode(data, &got, false)
		if ours == nil && theirs == nil && !equality.Semantic.DeepEqual(got, want) {
			t.Errorf("%s: got\n%+v\nwant\n%+v", data, got, want)
		}
		return ours, theirs
	}
}

// TestCustom: of every object in JSON is decoded what client-go would, of what is used.
func TestCustom(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := newMaker(rapid.Uint64().Draw(rt, "seed"), 3)
		i := m.IntN(len(heldCustom))
		data := customObject(m, rt, i)
		if ours, theirs := heldCustom[i](t, data); ours != nil || theirs != nil {
			rt.Fatalf("%s: ours: %v, client-go's: %v", data, ours, theirs)
		}
	})
	for _, data := range []string{
		`{}`, `{"metadata":null,"spec":null,"status":null}`, `{"spec":1,"status":[]}`, `{"metadata":{"labels":{"\u0061":"\n\u00e9"}},"spec":{"port":"http"}}`,
		` { "metadata" : { "name" : "a" , "labels" : { } , "managedFields" : [ ] } , "spec" : { "meshTLS" : { "identity" : "x" } } } `,
	} {
		for _, compare := range heldCustom {
			if ours, theirs := compare(t, []byte(data)); ours != nil || theirs != nil {
				t.Errorf("%s: ours: %v, client-go's: %v", data, ours, theirs)
			}
		}
	}
}

// customObject is an object in JSON.
func customObject(m corpus.Maker, t interface{ Fatal(...any) }, kind int) []byte {
	o := []Object{&crd.Server{}, &crd.ExternalWorkload{}, &crd.ServiceProfile{}}[kind]
	m.Make(o)
	data, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// FuzzCustom: of a garbled object that client-go can decode the same is decoded, or it is refused.
func FuzzCustom(f *testing.F) {
	for i := range heldCustom {
		for seed := range uint64(4) {
			f.Add(uint8(i), customObject(newMaker(seed, 4), f, i))
		}
	}
	f.Fuzz(func(t *testing.T, kind uint8, data []byte) {
		if len(data) > 0 {
			heldCustom[int(kind)%len(heldCustom)](t, data)
		}
	})
}

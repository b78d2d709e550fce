package decode

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"isthmus/clusterstore/internal/clustertest"
)

// message has the methods of client-go's types that the tests need.
type message interface {
	Object
	Marshal() ([]byte, error)
	Unmarshal([]byte) error
}

// held is a kind whose table is compared with client-go's own decoding.
type held struct {
	name   string
	used   string
	empty  func() message
	decode func(data []byte, each func(Object) error) error
}

func hold[T any, O interface {
	*T
	message
}](k *kind[T], used string) held {
	return held{k.Kind, used, func() message { return O(new(T)) }, func(data []byte, each func(Object) error) error {
		return k.use(func(d *decoder[T]) error {
			if err := d.decode(data); err != nil {
				return err
			}
			return each(O(&d.object))
		})
	}}
}

var heldKinds = []held{
	hold[corev1.Pod](pods, clustertest.UsedPod), hold[corev1.Service](services, clustertest.UsedService),
	hold[discoveryv1.EndpointSlice](endpointSlices, clustertest.UsedSlice),
	hold[coreEndpoints](endpoints, clustertest.UsedEndpoints), hold[corev1.Secret](secrets, clustertest.UsedSecret),
	hold[corev1.Node](nodes, clustertest.UsedNode), hold[metav1.PartialObjectMetadata](partials, clustertest.UsedMeta),
}

// compare decodes data with the table and with client-go, and returns both errors.
func (h held) compare(t testing.TB, data []byte) (ours, theirs error) {
	want := h.empty()
	if theirs = want.Unmarshal(bytes.Clone(data)); theirs == nil {
		prune(want, h.used)
	}
	ours = h.decode(data, func(got Object) error {
		if theirs == nil && !equality.Semantic.DeepEqual(got, Object(want)) {
			t.Errorf("%s: got\n%+v\nwant\n%+v", h.name, got, want)
		}
		return nil
	})
	return ours, theirs
}

// TestTables checks that tables decode each object like client-go, but only its used fields.
func TestTables(t *testing.T) {
	for _, h := range heldKinds {
		t.Run(h.name, func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				m := newMaker(rapid.Uint64().Draw(rt, "seed"), 1)
				o := h.empty()
				m.Make(o)
				data, err := o.Marshal()
				if err != nil {
					rt.Fatal(err)
				}
				if ours, theirs := h.compare(t, data); ours != nil || theirs != nil {
					rt.Fatalf("ours: %v, client-go's: %v", ours, theirs)
				}
			})
		})
	}
}

// TestTablesDecodeUsed checks that the random objects of the tests set every used field.
func TestTablesDecodeUsed(t *testing.T) {
	for _, h := range heldKinds {
		seen := make(map[string]bool)
		for seed := range uint64(300) {
			o := h.empty()
			newMaker(seed, 2).Make(o)
			prune(o, h.used)
			for _, path := range strings.Fields(h.used) {
				seen[path] = seen[path] || clustertest.IsSet(reflect.ValueOf(o), path)
			}
		}
		for path, ok := range seen {
			if !ok {
				t.Errorf("%s: no object sets %s, so the tests do not compare that field", h.name, path)
			}
		}
	}
}

// FuzzTables checks garbled input that client-go can decode. A table must decode it to the same
// object or refuse it.
func FuzzTables(f *testing.F) {
	for i, h := range heldKinds {
		for seed := range uint64(5) {
			o := h.empty()
			newMaker(seed, uint64(i)).Make(o)
			data, err := o.Marshal()
			if err != nil {
				f.Fatal(err)
			}
			f.Add(uint8(i), data)
			for at := range 20 {
				garbled := bytes.Clone(data[:len(data)-at%2*len(data)/3])
				garbled[len(garbled)*at/20] ^= byte(1 + at)
				f.Add(uint8(i), garbled)
			}
		}
	}
	f.Fuzz(func(t *testing.T, kind uint8, data []byte) {
		h := heldKinds[int(kind)%len(heldKinds)]
		h.compare(t, data)
		readNames(data, h.empty())
	})
}

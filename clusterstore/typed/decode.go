package typed

import (
	"bytes"
	"reflect"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// sizedLists is client-go's serializer, but a list in protobuf gets room for all its objects
// at once. Where it grows with them, as generated code lets it, a page of Pods leaves more
// garbage than it takes itself.
type sizedLists struct{ runtime.NegotiatedSerializer }

func (s sizedLists) DecoderToVersion(d runtime.Decoder, v runtime.GroupVersioner) runtime.Decoder {
	return sizedDecoder{s.NegotiatedSerializer.DecoderToVersion(d, v)}
}

// sizedDecoder decodes lists in protobuf, if they are of the kind that was asked for. All else is for next.
type sizedDecoder struct{ next runtime.Decoder }

// message is what types have that can be in protobuf.
type message interface {
	Reset()
	Unmarshal([]byte) error
}

// protobufPrefix begins every answer in protobuf, and no JSON.
var protobufPrefix = []byte("k8s\x00")

func (d sizedDecoder) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	list, ok := into.(message)
	items := itemsOf(into)
	body, isProtobuf := bytes.CutPrefix(data, protobufPrefix)
	if !ok || !isProtobuf || items.Kind() != reflect.Slice {
		return d.next.Decode(data, defaults, into)
	}
	e := envelopes.Get().(*runtime.Unknown)
	defer reuse(e)
	err, kind := e.Unmarshal(body), e.GroupVersionKind()
	if err != nil || !isOf(into, kind) {
		return d.next.Decode(data, defaults, into)
	}
	list.Reset()
	if n := countItems(e.Raw); n > 0 {
		items.Set(reflect.MakeSlice(items.Type(), 0, n))
	}
	if err := list.Unmarshal(e.Raw); err != nil {
		return nil, &kind, err
	}
	return into, &kind, nil
}

// itemsOf returns the field with the objects of a list; the zero value: it is no list.
func itemsOf(o runtime.Object) (items reflect.Value) {
	v := reflect.ValueOf(o)
	if v.Kind() != reflect.Pointer || v.Elem().Kind() != reflect.Struct {
		return items
	}
	return v.Elem().FieldByName("Items")
}

func isOf(o runtime.Object, kind schema.GroupVersionKind) bool {
	kinds, _, err := Scheme.ObjectKinds(o)
	return err == nil && kinds[0] == kind
}

// countItems returns how many objects an encoded list has. They are field 2 of the lists of all kinds.
func countItems(list []byte) (n int) {
	for {
		number, kind, size := protowire.ConsumeField(list)
		if size <= 0 {
			return n // the end, or no protobuf
		}
		if number == 2 {
			if kind != protowire.BytesType {
				return n // Unmarshal refuses it, and nobody has measured it
			}
			n++
		}
		list = list[size:]
	}
}

// envelopes hold the bytes of lists while these are decoded, which copies what it takes of them.
var envelopes = sync.Pool{New: func() any { return new(runtime.Unknown) }}

// maxEnvelope is how many bytes an envelope may hold that is used again: pages of ordinary
// objects have less.
const maxEnvelope = 2 << 20

func reuse(e *runtime.Unknown) {
	if cap(e.Raw) <= maxEnvelope {
		*e = runtime.Unknown{Raw: e.Raw[:0]}
		envelopes.Put(e)
	}
}

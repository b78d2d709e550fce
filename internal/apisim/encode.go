package apisim

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
)

const (
	jsonType     = "application/json"
	protobufType = "application/vnd.kubernetes.protobuf"
)

// marshaler is what client-go's types can do.
type marshaler interface{ Marshal() ([]byte, error) }

// encode sets the object's encoding to what from holds, as the version that it is of. Nearly everybody asks for protobuf, so
// that JSON of what has that is made when it is asked for.
func (o *object) encode(k kind, from runtime.Object) error {
	from = from.DeepCopyObject()
	m, err := meta.Accessor(from)
	if err != nil {
		return err
	}
	from.GetObjectKind().SetGroupVersionKind(k.GroupVersionKind)
	m.SetResourceVersion(strconv.FormatUint(o.version, 10))
	m.SetUID(o.uid)
	m.SetCreationTimestamp(o.created)
	if secret, ok := from.(*corev1.Secret); ok {
		o.secretType = string(secret.Type)
	}
	if typed, ok := from.(marshaler); ok {
		o.protobuf, err = typed.Marshal()
		return err
	}
	o.json, err = json.Marshal(from)
	return err
}

// decode returns what has been encoded.
func (o *object) decode(k kind) (runtime.Object, error) {
	if o.protobuf == nil {
		u := &unstructured.Unstructured{}
		return u, json.Unmarshal(o.json, &u.Object)
	}
	typed, err := scheme.Scheme.New(k.GroupVersionKind)
	if err != nil {
		return nil, err
	}
	return typed, typed.(interface{ Unmarshal([]byte) error }).Unmarshal(o.protobuf)
}

// text returns the object's JSON.
func (o *object) text(k kind) ([]byte, error) {
	if o.protobuf == nil {
		return o.json, nil
	}
	whole, err := o.decode(k)
	if err != nil {
		return nil, err
	}
	whole.GetObjectKind().SetGroupVersionKind(k.GroupVersionKind)
	return json.Marshal(whole)
}

// contentType returns that of the answer.
func (r *request) contentType() string {
	switch {
	case !r.protobuf:
		return jsonType
	case r.options.Watch:
		return protobufType + ";stream=watch"
	default:
		return protobufType
	}
}

// typeMeta returns the kind of what the request asks for: of objects, or with the suffix List of the whole.
func (r *request) typeMeta(suffix string) metav1.TypeMeta {
	if r.metadata {
		return metav1.TypeMeta{Kind: "PartialObjectMetadata" + suffix, APIVersion: "meta.k8s.io/v1"}
	}
	return metav1.TypeMeta{Kind: r.Kind + suffix, APIVersion: r.GroupVersion().String()}
}

// writeList writes a list of n objects. In protobuf all must be as large as the first one, or there is no telling how large
// the list is before it is made.
func (r *request) writeList(w io.Writer, head metav1.ListMeta, n int, object func(i int) ([]byte, error)) error {
	begin, before, end := "", "", "]}"
	of := r.typeMeta("List")
	if r.protobuf {
		text, err := head.Marshal()
		if err != nil {
			return err
		}
		one, err := object(0)
		if err != nil {
			return err
		}
		before = string(protowire.AppendVarint(protowire.AppendTag(nil, 2, protowire.BytesType), uint64(len(one))))
		begin, err = r.beginList(text, n*(len(before)+len(one)))
		if end = ""; err != nil {
			return err
		}
	} else {
		text, err := json.Marshal(head)
		if err != nil {
			return err
		}
		begin = fmt.Sprintf(`{"kind":%q,"apiVersion":%q,"metadata":%s,"items":[`, of.Kind, of.APIVersion, text)
	}
	_, err := io.WriteString(w, begin)
	for i := range n {
		var text []byte
		if err == nil {
			text, err = object(i)
		}
		if err == nil {
			_, err = io.WriteString(w, before)
		}
		if err == nil {
			_, err = w.Write(text)
		}
		if !r.protobuf {
			before = ","
		}
	}
	if err == nil {
		_, err = io.WriteString(w, end)
	}
	return err
}

// beginList returns what is before the objects of a list, which have so many bytes. A list is encoded as that of every kind is:
// field 1 is its metadata, field 2 are the objects.
func (r *request) beginList(head []byte, objects int) (string, error) {
	of := r.typeMeta("List")
	list := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), head)
	typed, err := (&runtime.TypeMeta{APIVersion: of.APIVersion, Kind: of.Kind}).Marshal()
	if err != nil {
		return "", err
	}
	begin := protowire.AppendBytes(protowire.AppendTag(bytes.Clone(protobufPrefix), 1, protowire.BytesType), typed)
	begin = protowire.AppendVarint(protowire.AppendTag(begin, 2, protowire.BytesType), uint64(len(list)+objects))
	return string(append(begin, list...)), nil
}

func (r *request) encodeList(head metav1.ListMeta, objects []*object) ([]byte, error) {
	var list []byte
	if !r.protobuf {
		var text bytes.Buffer
		err := r.writeList(&text, head, len(objects), func(i int) ([]byte, error) { return r.text(objects[i]) })
		return text.Bytes(), err
	}
	for _, o := range objects {
		list = protowire.AppendBytes(protowire.AppendTag(list, 2, protowire.BytesType), r.raw(o))
	}
	text, err := head.Marshal()
	if err != nil {
		return nil, err
	}
	begin, err := r.beginList(text, len(list))
	return append([]byte(begin), list...), err
}

// raw returns the object in protobuf, or its metadata, which is field 1 of all kinds.
func (r *request) raw(o *object) []byte {
	if !r.metadata {
		return o.protobuf
	}
	for rest := o.protobuf; len(rest) > 0; {
		number, _, n := protowire.ConsumeField(rest)
		if n < 0 {
			return nil
		}
		if number == 1 {
			return rest[:n]
		}
		rest = rest[n:]
	}
	return nil
}

var protobufPrefix = []byte("k8s\x00")

// wrap adds to an encoded object of what kind it is, as Kubernetes does with all but the objects of lists.
func wrap(of metav1.TypeMeta, raw []byte) ([]byte, error) {
	text, err := (&runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: of.APIVersion, Kind: of.Kind}, Raw: raw}).Marshal()
	return append(bytes.Clone(protobufPrefix), text...), err
}

// text returns the object's JSON, or that of its metadata, as it was asked for.
func (r *request) text(o *object) ([]byte, error) {
	text, err := o.text(r.kind)
	if !r.metadata || err != nil {
		return text, err
	}
	var partial metav1.PartialObjectMetadata
	if err := json.Unmarshal(text, &partial); err != nil {
		return nil, fmt.Errorf("%s %s: %w", r.Kind, o.key(), err)
	}
	partial.TypeMeta = r.typeMeta("")
	return json.Marshal(&partial)
}

// event returns what a watch sends about an object.
func (r *request) event(e event) ([]byte, error) {
	if r.protobuf {
		return r.encodeEvent(e.kind, r.raw(e.object))
	}
	text, err := r.text(e.object)
	if err != nil {
		return nil, err
	}
	return r.encodeEvent(e.kind, text)
}

// encodeEvent is event for an object that is encoded.
func (r *request) encodeEvent(kind watch.EventType, object []byte) ([]byte, error) {
	if r.protobuf {
		return frame(kind, r.typeMeta(""), object)
	}
	return line(kind, object), nil
}

// extra returns what a watch sends besides: a bookmark or why it ends.
func (r *request) extra(kind watch.EventType, of metav1.TypeMeta, o marshaler) ([]byte, error) {
	if r.protobuf {
		raw, err := o.Marshal()
		if err != nil {
			return nil, err
		}
		return frame(kind, of, raw)
	}
	text, err := json.Marshal(o)
	return line(kind, text), err
}

// frame returns an event as watches send it to whom they answer in protobuf.
func frame(kind watch.EventType, of metav1.TypeMeta, raw []byte) ([]byte, error) {
	object, err := wrap(of, raw)
	if err != nil {
		return nil, err
	}
	text, err := (&metav1.WatchEvent{Type: string(kind), Object: runtime.RawExtension{Raw: object}}).Marshal()
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...), err
}

// line returns an event as watches send it to whom they answer in JSON.
func line(kind watch.EventType, object []byte) []byte {
	return fmt.Appendf(nil, "{\"type\":%q,\"object\":%s}\n", kind, object)
}

package apisim

import (
	"bufio"
	"bytes"
	"context"
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

type marshaler interface{ Marshal() ([]byte, error) }

// encode encodes a runtime.Object with the receiver's version, UID and creation time, and stores
// the result in the receiver. Most clients request protobuf, so typed objects are converted to JSON
// only when a client requests JSON.
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

// typeMeta returns the kind of the requested objects, or the kind of their list if the suffix is
// "List".
func (r *request) typeMeta(suffix string) metav1.TypeMeta {
	if r.metadata {
		return metav1.TypeMeta{Kind: "PartialObjectMetadata" + suffix, APIVersion: "meta.k8s.io/v1"}
	}
	return metav1.TypeMeta{Kind: r.Kind + suffix, APIVersion: r.GroupVersion().String()}
}

type objectFunc func(i int) ([]byte, error)

func (f objectFunc) until(ctx context.Context) objectFunc {
	return func(i int) ([]byte, error) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		return f(i)
	}
}

// writeList writes a list of n objects. A protobuf list begins with its length, so each object is
// encoded twice.
func (r *request) writeList(ctx context.Context, w io.Writer, head metav1.ListMeta, n int, object objectFunc) error {
	object = object.until(ctx)
	out := bufio.NewWriter(w)
	begin, err := r.beginList(head, n, object)
	if err != nil {
		return err
	}
	_, _ = out.Write(begin) // the next write returns the same error
	for i := range n {
		text, err := object(i)
		if err != nil {
			return err
		}
		switch {
		case r.protobuf:
			text = appendField(nil, 2, text)
		case i > 0:
			_ = out.WriteByte(',')
		}
		if _, err := out.Write(text); err != nil {
			return err
		}
	}
	if !r.protobuf {
		_, _ = out.WriteString("]}")
	}
	return out.Flush()
}

// beginList returns the encoded beginning of a list, up to its objects. In protobuf lists of all
// kinds, field 1 contains the metadata, and each occurrence of field 2 contains an object.
func (r *request) beginList(head metav1.ListMeta, n int, object objectFunc) ([]byte, error) {
	of := r.typeMeta("List")
	text, err := r.marshal(&head)
	if err != nil {
		return nil, err
	}
	if !r.protobuf {
		return fmt.Appendf(nil, `{"kind":%q,"apiVersion":%q,"metadata":%s,"items":[`, of.Kind, of.APIVersion, text), nil
	}
	list := appendField(nil, 1, text)
	size := 0
	for i := range n {
		one, err := object(i)
		if err != nil {
			return nil, err
		}
		size += protowire.SizeTag(2) + protowire.SizeBytes(len(one))
	}
	typed, err := (&runtime.TypeMeta{APIVersion: of.APIVersion, Kind: of.Kind}).Marshal()
	begin := appendField(bytes.Clone(protobufPrefix), 1, typed)
	begin = protowire.AppendVarint(protowire.AppendTag(begin, 2, protowire.BytesType), uint64(len(list)+size))
	return append(begin, list...), err
}

func appendField(to []byte, number protowire.Number, field []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(to, number, protowire.BytesType), field)
}

func (r *request) marshal(o marshaler) ([]byte, error) {
	if r.protobuf {
		return o.Marshal()
	}
	return json.Marshal(o)
}

func (r *request) encode(o *object) ([]byte, error) {
	if r.protobuf && r.metadata {
		return metadata(o.protobuf), nil
	}
	if r.protobuf {
		return o.protobuf, nil
	}
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

// In the protobuf encoding of all kinds, field 1 contains the metadata.
func metadata(object []byte) []byte {
	for rest := object; len(rest) > 0; {
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

// wrap adds the kind of an object to its encoded form. Kubernetes adds the kind to all protobuf
// objects, except for those in lists.
func wrap(of metav1.TypeMeta, raw []byte) ([]byte, error) {
	text, err := (&runtime.Unknown{
		TypeMeta: runtime.TypeMeta{APIVersion: of.APIVersion, Kind: of.Kind},
		Raw:      raw,
	}).Marshal()
	return append(bytes.Clone(protobufPrefix), text...), err
}

func (r *request) writeEvent(w io.Writer, kind watch.EventType, of metav1.TypeMeta, object []byte) error {
	if !r.protobuf {
		_, err := fmt.Fprintf(w, "{\"type\":%q,\"object\":%s}\n", kind, object)
		return err
	}
	object, err := wrap(of, object)
	if err != nil {
		return err
	}
	text, err := (&metav1.WatchEvent{Type: string(kind), Object: runtime.RawExtension{Raw: object}}).Marshal()
	if err != nil {
		return err
	}
	_, err = w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...))
	return err
}

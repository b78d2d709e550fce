package apisim

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
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

func (r *request) encodeList(head metav1.ListMeta, objects []*object) ([]byte, error) {
	if r.protobuf {
		return encodeProtobufList(r.typeMeta("List"), head, objects)
	}
	list := struct {
		metav1.TypeMeta `json:",inline"`
		metav1.ListMeta `json:"metadata"`
		Items           []json.RawMessage `json:"items"`
	}{r.typeMeta("List"), head, make([]json.RawMessage, 0, len(objects))}
	for _, o := range objects {
		text, err := r.text(o)
		if err != nil {
			return nil, err
		}
		list.Items = append(list.Items, text)
	}
	return json.Marshal(list)
}

// encodeProtobufList encodes a list as that of every kind is: field 1 is its metadata, field 2 are the objects.
func encodeProtobufList(of metav1.TypeMeta, head metav1.ListMeta, objects []*object) ([]byte, error) {
	text, err := head.Marshal()
	if err != nil {
		return nil, err
	}
	list := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), text)
	for _, o := range objects {
		list = protowire.AppendBytes(protowire.AppendTag(list, 2, protowire.BytesType), o.protobuf)
	}
	return wrap(of, list)
}

// wrap adds to an encoded object of what kind it is, as Kubernetes does with all but the objects of lists.
func wrap(of metav1.TypeMeta, raw []byte) ([]byte, error) {
	text, err := (&runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: of.APIVersion, Kind: of.Kind}, Raw: raw}).Marshal()
	return append([]byte("k8s\x00"), text...), err
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
		return frame(e.kind, r.typeMeta(""), e.protobuf)
	}
	text, err := r.text(e.object)
	return line(e.kind, text), err
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

package apisim

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

type request struct {
	target
	method   string
	options  metav1.ListOptions
	metadata bool // only the metadata is requested
	protobuf bool // otherwise JSON
	keep     func(*object) bool
}

const (
	jsonType     = "application/json"
	protobufType = "application/vnd.kubernetes.protobuf"
)

type marshaler interface{ Marshal() ([]byte, error) }

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
// encoded twice: once to compute the length, and once to send the object.
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

// beginList returns the part of an encoded list that precedes its objects. In protobuf lists of all
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

// The wrap function adds the kind of an object to its encoded form. Kubernetes adds the kind to all
// protobuf objects, except for those in lists.
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

func (r *request) endlessList(head metav1.ListMeta, n int, object objectFunc) endlessAnswer {
	return func(ctx context.Context, w http.ResponseWriter) error { return r.writeList(ctx, w, head, n, object) }
}

func (r *request) manyElements() []byte {
	if !r.protobuf {
		return fmt.Appendf(nil, `{"kind":%q,"apiVersion":%q,"metadata":{"name":"x","managedFields":[%s{}]}}`,
			r.typeMeta("").Kind, r.typeMeta("").APIVersion, strings.Repeat("{},", endlessEmpty))
	}
	name := appendField(nil, 1, []byte("x"))
	element := appendField(nil, 17, nil)
	return appendField(nil, 1, append(name, bytes.Repeat(element, endlessEmpty)...))
}

func (r *request) endlessEvent(_ context.Context, w http.ResponseWriter) error {
	begin := `{"type":"ADDED","object":{"metadata":{"name":"`
	if r.protobuf {
		begin = "\x7f\xff\xff\xff" // the length of the event
	}
	return repeat(w, begin, filler)
}

func (r *request) endlessBlanks(_ context.Context, w http.ResponseWriter) error {
	begin := ""
	if of := r.typeMeta("List"); !r.options.Watch {
		begin = fmt.Sprintf(`{"kind":%q,"apiVersion":%q,"metadata":{},"items":[`, of.Kind, of.APIVersion)
	}
	return repeat(w, begin, strings.Repeat("\n", len(filler)))
}

func (r *request) endlessObjects(names string) objectFunc {
	return func(i int) ([]byte, error) {
		o := &metav1.PartialObjectMetadata{TypeMeta: r.typeMeta(""), ObjectMeta: metav1.ObjectMeta{
			Namespace: "endless", Name: fmt.Sprintf("%sn%09d", names, i), ResourceVersion: "1",
			Labels: map[string]string{"kubernetes.io/service-name": "web", "x": filler},
		}}
		if r.resource == "endpointslices" { // clients do not cache an EndpointSlice without addresses
			return r.marshal(&discoveryv1.EndpointSlice{
				TypeMeta: o.TypeMeta, ObjectMeta: o.ObjectMeta, AddressType: discoveryv1.AddressTypeIPv4,
				Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.99.0.1"}}},
				Ports:     []discoveryv1.EndpointPort{{Port: new(int32(80))}},
			})
		}
		return r.marshal(o)
	}
}

func (r *request) answer(w http.ResponseWriter, code int, o *object, err error) {
	var body []byte
	if err == nil {
		body, err = r.encode(o)
	}
	if err == nil && r.protobuf {
		body, err = wrap(r.typeMeta(""), body)
	}
	if err != nil {
		refuse(w, err)
		return
	}
	w.Header().Set("Content-Type", r.contentType())
	w.WriteHeader(code)
	_, _ = w.Write(body) // fails if the client has disconnected
}

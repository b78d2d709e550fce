package apisim

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// Endless is a way to answer without end. An answer ends after 512 MiB, so that a client that reads everything comes to
// an end too.
type Endless string

// Answers without end.
const (
	// EndlessEvent: every watch is sent one event that does not end.
	EndlessEvent Endless = "event"
	// EndlessPages: after every page of a list there is one more, of new objects.
	EndlessPages Endless = "pages"
	// EndlessRepeats: after every page of a list there is one more, of the same objects.
	EndlessRepeats Endless = "repeats"
	// EndlessBlanks: every watch and every list in JSON begins, and then has line breaks only. What is asked for in
	// protobuf is answered as ever.
	EndlessBlanks Endless = "blanks"
	// EndlessLists: every list is one page of 48 MiB, compressed.
	EndlessLists Endless = "lists"
	// EndlessElements: every list is one page of 700,000 empty objects, and every watch is sent one event of an
	// object with as many empty elements: two MiB, which become more than a hundred times as much.
	EndlessElements Endless = "elements"
	// EndlessObject: every watch is sent such an event.
	EndlessObject Endless = "object"
)

const (
	endlessBytes = 512 << 20
	endlessPage  = 1000 // objects of a page
	endlessList  = 48 << 20
	endlessEmpty = 700_000
)

// filler is what makes an object large.
var filler = strings.Repeat("x", 256)

// endlessAnswer writes an answer without end until ctx ends, or until the answer can't be written.
type endlessAnswer func(ctx context.Context, w http.ResponseWriter) error

// answer returns the answer without end to a request. If the result is nil, the request is answered as usual.
func (e Endless) answer(r *request) endlessAnswer {
	head := metav1.ListMeta{ResourceVersion: "1"}
	switch watches := r.options.Watch; {
	case e == EndlessEvent && watches:
		return r.endlessEvent
	case (e == EndlessObject || e == EndlessElements) && watches:
		return func(_ context.Context, w http.ResponseWriter) error {
			return r.writeEvent(w, watch.Added, r.typeMeta(""), r.manyElements())
		}
	case e == EndlessBlanks && !r.protobuf:
		return r.endlessBlanks
	case watches:
		return nil
	case e == EndlessPages:
		// Objects that no page has had, and a token for the next one.
		head.Continue = fmt.Sprint(time.Now().UnixNano())
		return r.endlessList(head, endlessPage, r.endlessObjects(head.Continue))
	case e == EndlessRepeats:
		head.Continue = "again"
		return r.endlessList(head, endlessPage, r.endlessObjects(""))
	case e == EndlessElements:
		return r.endlessList(head, endlessEmpty, func(int) ([]byte, error) { return r.marshal(empty{}) })
	case e == EndlessLists:
		return func(ctx context.Context, w http.ResponseWriter) error {
			w.Header().Set("Content-Encoding", "gzip")
			z, err := gzip.NewWriterLevel(w, gzip.BestSpeed)
			if err != nil {
				return err
			}
			defer z.Close()
			return r.writeList(ctx, z, head, endlessList/len(filler), r.endlessObjects(""))
		}
	}
	return nil
}

// empty is an object without anything.
type empty struct{}

func (empty) Marshal() ([]byte, error) { return nil, nil }

func (r *request) endlessList(head metav1.ListMeta, n int, object objectFunc) endlessAnswer {
	return func(ctx context.Context, w http.ResponseWriter) error { return r.writeList(ctx, w, head, n, object) }
}

// manyElements returns an object with many empty elements.
func (r *request) manyElements() []byte {
	if !r.protobuf {
		return fmt.Appendf(nil, `{"kind":%q,"apiVersion":%q,"metadata":{"name":"x","managedFields":[%s{}]}}`,
			r.typeMeta("").Kind, r.typeMeta("").APIVersion, strings.Repeat("{},", endlessEmpty))
	}
	name, element := appendField(nil, 1, []byte("x")), appendField(nil, 17, nil)
	return appendField(nil, 1, append(name, bytes.Repeat(element, endlessEmpty)...))
}

func (r *request) endlessEvent(_ context.Context, w http.ResponseWriter) error {
	begin := `{"type":"ADDED","object":{"metadata":{"name":"`
	if r.protobuf {
		begin = "\x7f\xff\xff\xff" // the length of what comes
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

// repeat writes one text, and another one again and again.
func repeat(w io.Writer, begin, text string) error {
	_, err := io.WriteString(w, begin)
	for sent := 0; err == nil && sent < endlessBytes; sent += len(text) {
		_, err = io.WriteString(w, text)
	}
	return err
}

// endlessObjects makes objects of the kind that is asked for. Their names begin with the text.
func (r *request) endlessObjects(names string) objectFunc {
	return func(i int) ([]byte, error) {
		o := &metav1.PartialObjectMetadata{TypeMeta: r.typeMeta(""), ObjectMeta: metav1.ObjectMeta{
			Namespace: "endless", Name: fmt.Sprintf("%sn%09d", names, i), ResourceVersion: "1",
			Labels: map[string]string{"kubernetes.io/service-name": "web", "x": filler},
		}}
		if r.resource == "endpointslices" { // one without an address is not kept
			return r.marshal(&discoveryv1.EndpointSlice{
				TypeMeta: o.TypeMeta, ObjectMeta: o.ObjectMeta, AddressType: discoveryv1.AddressTypeIPv4,
				Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.99.0.1"}}},
				Ports:     []discoveryv1.EndpointPort{{Port: new(int32(80))}},
			})
		}
		return r.marshal(o)
	}
}

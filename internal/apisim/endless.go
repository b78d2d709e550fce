package apisim

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
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
	// EndlessInitialEvents: every streamed list is of objects without number.
	EndlessInitialEvents Endless = "initial events"
	// EndlessPages: after every page of a list there is one more, of new objects. Lists are not streamed.
	EndlessPages Endless = "pages"
	// EndlessRepeats: after every page of a list there is one more, of the same objects; and streamed lists are of the same
	// objects again and again.
	EndlessRepeats Endless = "repeats"
	// EndlessBlanks: every watch and every list in JSON begins, and then has line breaks only. What is asked for in protobuf
	// is answered as ever.
	EndlessBlanks Endless = "blanks"
	// EndlessLists: every list is one page of 48 MiB, compressed. Lists are not streamed.
	EndlessLists Endless = "lists"
	// EndlessElements: every list is one page of 700,000 empty objects, and every watch is sent one event of an object with as
	// many empty elements: two MiB, which become more than a hundred times as much. Lists are not streamed.
	EndlessElements Endless = "elements"
	// EndlessObject: every watch is sent such an event, streamed lists included.
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

var blanks = strings.Repeat("\n", len(filler))

// answers reports whether a request is answered without end.
func (e Endless) answers(r *request) bool {
	switch streams := r.options.Watch && r.initialEvents(); e {
	case EndlessEvent, EndlessObject, EndlessElements:
		return r.options.Watch || e == EndlessElements
	case EndlessInitialEvents:
		return streams
	case EndlessPages, EndlessLists, EndlessRepeats:
		return streams || !r.options.Watch
	case EndlessBlanks:
		return !r.protobuf
	}
	return false
}

// answer answers such a request. It fails only if the client has gone.
func (e Endless) answer(w http.ResponseWriter, r *request) error {
	w.Header().Set("Content-Type", r.contentType())
	switch {
	case e == EndlessEvent:
		return r.endlessEvent(w)
	case e == EndlessObject, e == EndlessElements && r.options.Watch && !r.initialEvents():
		text, err := r.encodeEvent(watch.Added, r.manyElements())
		if err == nil {
			_, err = w.Write(text)
		}
		return err
	case e == EndlessBlanks:
		return r.endlessBlanks(w)
	case e == EndlessInitialEvents:
		return r.endlessEvents(w, r.endlessObjects(""))
	case e == EndlessRepeats && r.options.Watch:
		one := r.endlessObjects("")
		return r.endlessEvents(w, func(i int) ([]byte, error) { return one(i % endlessPage) })
	case r.options.Watch: // lists are not streamed
		refuse(w, failure(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled"))
		return nil
	case e == EndlessPages:
		// Objects that no page has had, and a token for the next one.
		token := fmt.Sprint(time.Now().UnixNano())
		return r.writeList(w, metav1.ListMeta{ResourceVersion: "1", Continue: token}, endlessPage, r.endlessObjects(token))
	case e == EndlessRepeats:
		return r.writeList(w, metav1.ListMeta{ResourceVersion: "1", Continue: "again"}, endlessPage, r.endlessObjects(""))
	case e == EndlessElements:
		return r.writeList(w, metav1.ListMeta{ResourceVersion: "1"}, endlessEmpty, func(int) ([]byte, error) {
			if r.protobuf {
				return nil, nil
			}
			return []byte("{}"), nil
		})
	}
	w.Header().Set("Content-Encoding", "gzip")
	z, err := gzip.NewWriterLevel(w, gzip.BestSpeed)
	if err != nil {
		return err
	}
	defer z.Close()
	return r.writeList(z, metav1.ListMeta{ResourceVersion: "1"}, endlessList/len(filler), r.endlessObjects(""))
}

// manyElements returns an object with many empty elements.
func (r *request) manyElements() []byte {
	if !r.protobuf {
		return fmt.Appendf(nil, `{"kind":%q,"apiVersion":%q,"metadata":{"name":"x","managedFields":[%s{}]}}`,
			r.typeMeta("").Kind, r.typeMeta("").APIVersion, strings.Repeat("{},", endlessEmpty))
	}
	name, element := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), "x"), protowire.AppendBytes(protowire.AppendTag(nil, 17, protowire.BytesType), nil)
	return protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), append(name, bytes.Repeat(element, endlessEmpty)...))
}

func (r *request) endlessEvent(w io.Writer) error {
	begin := `{"type":"ADDED","object":{"metadata":{"name":"`
	if r.protobuf {
		begin = "\x7f\xff\xff\xff" // the length of what comes
	}
	_, err := io.WriteString(w, begin)
	for sent := 0; err == nil && sent < endlessBytes; sent += len(filler) {
		_, err = io.WriteString(w, filler)
	}
	return err
}

func (r *request) endlessBlanks(w io.Writer) error {
	text := ""
	if !r.options.Watch {
		of := r.typeMeta("List")
		text = fmt.Sprintf(`{"kind":%q,"apiVersion":%q,"metadata":{},"items":[`, of.Kind, of.APIVersion)
	}
	_, err := io.WriteString(w, text)
	for sent := 0; err == nil && sent < endlessBytes; sent += len(filler) {
		_, err = io.WriteString(w, blanks)
	}
	return err
}

func (r *request) endlessEvents(w io.Writer, object func(i int) ([]byte, error)) error {
	for i, sent := 0, 0; sent < endlessBytes; i++ {
		raw, err := object(i)
		if err != nil {
			return err
		}
		text, err := r.encodeEvent(watch.Added, raw)
		if err != nil {
			return err
		}
		n, err := w.Write(text)
		if sent += n; err != nil {
			return err
		}
	}
	return nil
}

// endlessObjects makes objects of the kind that is asked for, as large as one another. Their names begin with the text.
func (r *request) endlessObjects(names string) func(i int) ([]byte, error) {
	return func(i int) ([]byte, error) {
		o := &metav1.PartialObjectMetadata{TypeMeta: r.typeMeta(""), ObjectMeta: metav1.ObjectMeta{
			Namespace: "endless", Name: fmt.Sprintf("%sn%09d", names, i), ResourceVersion: "1",
			Labels: map[string]string{"kubernetes.io/service-name": "web", "x": filler},
		}}
		switch {
		case r.protobuf && r.resource == "endpointslices": // one without an address is not kept
			return (&discoveryv1.EndpointSlice{
				ObjectMeta: o.ObjectMeta, AddressType: discoveryv1.AddressTypeIPv4,
				Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.99.0.1"}}}, Ports: []discoveryv1.EndpointPort{{Port: new(int32(80))}},
			}).Marshal()
		case r.protobuf:
			return o.Marshal()
		}
		return json.Marshal(o)
	}
}

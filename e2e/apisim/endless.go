package apisim

import (
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Endless is a way to answer without end: in JSON, whatever the client prefers. An answer gives up after 512 MiB, so that a
// client that reads everything does not read for ever.
type Endless string

// Answers without end.
const (
	// EndlessEvent: every watch is sent one event that does not end.
	EndlessEvent Endless = "event"
	// EndlessInitialEvents: every streamed list is of objects without number.
	EndlessInitialEvents Endless = "initial events"
	// EndlessPages: after every page of a list there is one more, of new objects. Lists are not streamed.
	EndlessPages Endless = "pages"
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

// answers reports whether a request is answered without end.
func (e Endless) answers(r *request) bool {
	switch streams := r.options.Watch && r.initialEvents(); e {
	case EndlessEvent, EndlessObject, EndlessElements:
		return r.options.Watch || e == EndlessElements
	case EndlessInitialEvents:
		return streams
	case EndlessPages, EndlessLists:
		return streams || !r.options.Watch
	}
	return false
}

// answer answers such a request. It fails only if the client has gone.
func (e Endless) answer(w http.ResponseWriter, r *request) error {
	r.protobuf = false
	w.Header().Set("Content-Type", r.contentType())
	switch {
	case e == EndlessEvent:
		return r.endlessEvent(w)
	case e == EndlessObject, e == EndlessElements && r.options.Watch && !r.initialEvents():
		_, err := fmt.Fprintf(w, `{"type":"ADDED","object":{"kind":%q,"apiVersion":%q,"metadata":{"name":"x","managedFields":[%s{}]}}}`,
			r.typeMeta("").Kind, r.typeMeta("").APIVersion, empty())
		return err
	case e == EndlessInitialEvents:
		return r.endlessObjects(w, endlessBytes, `{"type":"ADDED","object":%s}`+"\n", "")
	case r.options.Watch:
		refuse(w, failure(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled"))
		return nil
	case e == EndlessPages:
		return r.endlessPage(w)
	case e == EndlessElements:
		of := r.typeMeta("List")
		_, err := fmt.Fprintf(w, `{"kind":%q,"apiVersion":%q,"metadata":{"resourceVersion":"1"},"items":[%s{}]}`, of.Kind, of.APIVersion, empty())
		return err
	}
	w.Header().Set("Content-Encoding", "gzip")
	z, err := gzip.NewWriterLevel(w, gzip.BestSpeed)
	if err != nil {
		return err
	}
	defer z.Close()
	return r.endlessItems(z, "", endlessList)
}

// empty returns empty objects of JSON, each with a comma.
func empty() string { return strings.Repeat("{},", endlessEmpty) }

func (r *request) endlessEvent(w io.Writer) error {
	_, err := io.WriteString(w, `{"type":"ADDED","object":{"metadata":{"name":"`)
	for sent := 0; err == nil && sent < endlessBytes; sent += len(filler) {
		_, err = io.WriteString(w, filler)
	}
	return err
}

// endlessPage answers by objects that no page has had, and a token for the next one.
func (r *request) endlessPage(w io.Writer) error {
	return r.endlessItems(w, fmt.Sprint(time.Now().UnixNano()), endlessPage*len(filler))
}

// endlessItems writes a list of so many bytes and, with a token, that there is one more page.
func (r *request) endlessItems(w io.Writer, token string, size int) error {
	of := r.typeMeta("List")
	if _, err := fmt.Fprintf(w, `{"kind":%q,"apiVersion":%q,"metadata":{"resourceVersion":"1","continue":%q},"items":[`, of.Kind, of.APIVersion, token); err != nil {
		return err
	}
	if err := r.endlessObjects(w, size, "%s,", token); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "%s]}", r.endlessObject("last"+token))
	return err
}

// endlessObjects writes objects of so many bytes, each in that format. Their names begin with the text.
func (r *request) endlessObjects(w io.Writer, size int, format, names string) error {
	for i, sent := 0, 0; sent < size; i++ {
		n, err := fmt.Fprintf(w, format, r.endlessObject(fmt.Sprint(names, "n", i)))
		if sent += n; err != nil {
			return err
		}
	}
	return nil
}

// endlessObject returns an object of the kind that is asked for.
func (r *request) endlessObject(name string) string {
	of := r.typeMeta("")
	return fmt.Sprintf(`{"kind":%q,"apiVersion":%q,"metadata":{"namespace":"endless","name":%q,"resourceVersion":"1","labels":{"kubernetes.io/service-name":"web","x":%q}}}`,
		of.Kind, of.APIVersion, name, filler)
}

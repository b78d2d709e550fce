package apisim

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// Endless specifies which responses of a server contain far more data than clients expect. A single
// response is limited to about 512 MiB, but a client can request any number of pages of a list.
type Endless string

const (
	// EndlessEvent makes every watch receive one endless event.
	EndlessEvent Endless = "event"
	// EndlessPages makes every page of a list announce another page with new objects.
	EndlessPages Endless = "pages"
	// EndlessRepeats makes every page of a list announce another page with the same objects.
	EndlessRepeats Endless = "repeats"
	// EndlessBlanks makes the server send 512 MiB of line breaks in every JSON response to a watch
	// or list. Requests for protobuf are handled normally.
	EndlessBlanks Endless = "blanks"
	// EndlessLists makes the server respond to every list request with one compressed page, which
	// is larger than 48 MiB when decompressed.
	EndlessLists Endless = "lists"
	// EndlessElements makes the server respond to every list request with one page of 700,000 empty
	// objects. Every watch receives an event with an object that contains 700,000 empty elements.
	// The page and the event are each at most about 2 MiB in size, but use far more memory after
	// they have been decoded.
	EndlessElements Endless = "elements"
	// EndlessObject has the same effect on watches as EndlessElements, but does not affect lists.
	EndlessObject Endless = "object"
)

const (
	endlessBytes = 512 << 20
	endlessPage  = 1000 // objects per page
	endlessList  = 48 << 20
	endlessEmpty = 700_000
)

var filler = strings.Repeat("x", 256)

type endlessAnswer func(ctx context.Context, w http.ResponseWriter) error

// A nil result means that the server must handle the request normally.
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
		// Each page contains new objects, and a continue token for the next page.
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

type empty struct{}

func (empty) Marshal() ([]byte, error) { return nil, nil }

func repeat(w io.Writer, begin, text string) error {
	_, err := io.WriteString(w, begin)
	for sent := 0; err == nil && sent < endlessBytes; sent += len(text) {
		_, err = io.WriteString(w, text)
	}
	return err
}

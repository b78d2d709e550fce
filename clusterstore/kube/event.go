package kube

import (
	"context"
	"encoding/binary"
	"io"

	"k8s.io/apimachinery/pkg/runtime"

	"isthmus/clusterstore/budget"
)

const (
	// maxEvent is for one event of a watch, in bytes, as it comes. etcd takes requests
	// of 1.5 MiB, unless it is told otherwise; in JSON an object can be somewhat
	// larger than it is stored. client-go reads an event of JSON as a whole, however
	// large it is.
	maxEvent = 4 << 20
	// largeEvent is the size from which an event counts for the cluster's budget, in
	// bytes, until the watch ends: client-go keeps its buffers. Most events have a few
	// kilobytes.
	largeEvent = 64 << 10
)

// eventBody is the body of a watch. It fails in an event that is too large, or beyond the
// budget of its cluster, and ends its request when it is closed.
type eventBody struct {
	io.ReadCloser
	cancel  context.CancelCauseFunc
	request *budget.Request // may be nil
	frame   frame           // of the content type
	event   int64           // bytes of the present event so far
	largest int64           // that has been charged: client-go keeps buffers of that size
	err     error
}

// newEventBody returns the body of a watch of that content type: JSON, unless it is that
// of protobuf.
func newEventBody(ctx context.Context, cancel context.CancelCauseFunc, body io.ReadCloser, mediaType string) *eventBody {
	b := &eventBody{ReadCloser: body, cancel: cancel, request: budget.From(ctx), frame: &jsonFrame{}}
	if mediaType == runtime.ContentTypeProtobuf {
		b.frame = &protobufFrame{}
	}
	return b
}

func (b *eventBody) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	n, err := b.ReadCloser.Read(p)
	if b.err = b.count(p[:n]); b.err != nil {
		b.request.Fail(b.err)
		return 0, b.err
	}
	return n, err
}

// count counts what has come, event by event.
func (b *eventBody) count(data []byte) error {
	for len(data) > 0 {
		n, size, ended := b.frame.next(data)
		b.event += int64(n)
		if max(b.event, size) > maxEvent {
			what := b.request.What()
			if what == "" {
				what = "a watch"
			}
			return budget.Errorf("an event of %s is larger than %d MiB", what, maxEvent>>20)
		}
		if more := b.event - b.largest; more > 0 && b.event > largeEvent {
			if err := b.request.Took(more); err != nil {
				return err
			}
			b.largest = b.event
		}
		if ended {
			b.event = 0
		}
		data = data[n:]
	}
	return nil
}

func (b *eventBody) Close() error {
	defer b.cancel(nil)
	defer b.request.End()
	return b.ReadCloser.Close()
}

// frame finds where the events of a watch end.
type frame interface {
	// next returns how many of these bytes belong to the present event, at least one;
	// the size that the event will have, if that is known, or 0; and whether they end it.
	next(data []byte) (n int, size int64, ended bool)
}

// jsonFrame is for events that are objects of JSON, one after the other. What is no JSON
// does not matter: it ends the watch.
type jsonFrame struct {
	depth           int // of objects and lists
	quoted, escaped bool
}

func (f *jsonFrame) next(data []byte) (n int, size int64, ended bool) {
	for i, c := range data {
		switch {
		case f.escaped:
			f.escaped = false
		case f.quoted:
			f.escaped = c == '\\'
			f.quoted = c != '"'
		case c == '"':
			f.quoted = true
		case c == '{' || c == '[':
			f.depth++
		case c == '}' || c == ']':
			if f.depth--; f.depth <= 0 {
				f.depth = 0
				return i + 1, 0, true
			}
		}
	}
	return len(data), 0, false
}

// protobufFrame is for events that have their length before them, in four bytes.
type protobufFrame struct {
	header [4]byte
	have   int   // bytes of the header
	left   int64 // of the event after it
}

func (f *protobufFrame) next(data []byte) (n int, size int64, ended bool) {
	if f.have < len(f.header) {
		n = copy(f.header[f.have:], data)
		if f.have += n; f.have < len(f.header) {
			return n, 0, false
		}
		f.left = int64(binary.BigEndian.Uint32(f.header[:]))
	}
	size = f.left
	now := min(f.left, int64(len(data)-n))
	if f.left -= now; f.left == 0 {
		f.have = 0
		return n + int(now), size, true
	}
	return n + int(now), size, false
}

package kube

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"io"

	"k8s.io/apimachinery/pkg/runtime"

	"isthmus/clusterstore/budget"
)

const (
	// maxEvent is for one event of a watch, in bytes, as it comes. etcd takes requests
	// of 1.5 MiB by default; in JSON an object can be somewhat larger than it is stored.
	// client-go reads an event of JSON as a whole, however
	// large it is.
	maxEvent = 4 << 20
	// largeEvent is the size from which an event counts for the cluster's budget, in
	// bytes, until the watch ends: client-go keeps its buffers. Most events have a few
	// kilobytes. One that is smaller and becomes as large counts too.
	largeEvent = 64 << 10
)

// eventBody is the body of a watch. It fails in an event that is too large, or beyond the
// budget of its cluster, before client-go has all of the event and decodes it. It ends its
// request when it is closed.
type eventBody struct {
	io.ReadCloser
	cancel   context.CancelCauseFunc
	request  *budget.Request // may be nil
	frame    frame           // of the content type
	protobuf bool
	what     string // an event, in errors
	event    int64  // bytes of the present event so far
	begun    []byte // those of earlier reads, in a buffer for all events
	charged  int64  // for the dearest event: client-go keeps buffers of that size
	err      error
}

// newEventBody returns the body of a watch of that content type: JSON, unless it is that
// of protobuf.
func newEventBody(ctx context.Context, cancel context.CancelCauseFunc, body io.ReadCloser, mediaType string) *eventBody {
	b := &eventBody{ReadCloser: body, cancel: cancel, request: budget.From(ctx), frame: &jsonFrame{}}
	b.what = "an event of " + cmp.Or(b.request.What(), "a watch")
	if b.protobuf = mediaType == runtime.ContentTypeProtobuf; b.protobuf {
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
		if errors.Is(b.err, budget.ErrOver) {
			b.request.Fail(b.err)
		}
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
			return budget.Errorf("%s is larger than %d MiB", b.what, maxEvent>>20)
		}
		if err := b.charge(budget.Factor * b.event); err != nil {
			return err
		}
		if err := b.part(data[:n], ended); err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}

// part adds to the present event, whose last part it may be.
func (b *eventBody) part(data []byte, last bool) error {
	if last && len(b.begun) == 0 {
		return b.end(data)
	}
	b.begun = append(b.begun, data...)
	if !last {
		return nil
	}
	err := b.end(b.begun)
	if b.begun = b.begun[:0]; cap(b.begun) > largeEvent {
		b.begun = nil
	}
	return err
}

// end charges what a whole event takes once it is decoded.
func (b *eventBody) end(event []byte) error {
	size := b.event
	b.event = 0
	if b.protobuf {
		event = event[min(len(event), frameHeader):]
	}
	objects, err := measureEvent(event, b.protobuf, b.what)
	if err != nil {
		return err
	}
	return b.charge(budget.Factor*size + budget.Beyond(size, objects))
}

// charge charges what the present event takes, if that is much and more than others took.
func (b *eventBody) charge(size int64) error {
	if size <= budget.Factor*largeEvent || size <= b.charged {
		return nil
	}
	if err := b.request.Charge(size - b.charged); err != nil {
		return err
	}
	b.charged = size
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

// frameHeader is the length of an event, in bytes.
const frameHeader = 4

// protobufFrame is for events that have their length before them, in four bytes.
type protobufFrame struct {
	header [frameHeader]byte
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

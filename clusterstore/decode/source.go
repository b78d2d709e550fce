package decode

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
)

// format is the encoding of a kind: protobuf or JSON.
type format[O Object] interface {
	// accept returns the content type to request for an object. With the suffix List, it returns
	// the content type for a list.
	accept(suffix string) string
	// list reads a list, and calls each with the bytes of each object, as [input.part] does.
	list(in *input, each func(data []byte, whole error) error) (metav1.ListMeta, error)
	// next reads an event, and calls f once with the bytes of its object. If there is none, next
	// returns io.EOF.
	next(in *input, f func(as watch.EventType, of schema.GroupVersionKind, data []byte, whole error) error) error
	// decode decodes an object, and calls f with it. If whole is not nil, or the object can't be
	// decoded, f gets the error. The object then only has the names and the version that could be
	// read.
	decode(data []byte, whole error, f func(O, error) error) error
	// status returns an encoded Status as an error, or nil if data is not the Status of a failure.
	status(data []byte) error
}

// source is the Source of a kind.
type source[O Object] struct {
	endpoint
	format[O]
	kind schema.GroupVersionKind
}

// readers has buffered readers for lists.
var readers = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, 32<<10) }}

func (s *source[O]) List(
	ctx context.Context, o metav1.ListOptions, each func(O, *Refused) error,
) (all metav1.ListMeta, err error) {
	ctx, stop := context.WithTimeout(ctx, listTimeout)
	defer stop()
	body, err := s.get(ctx, o, s.accept("List"))
	if err != nil {
		return all, err
	}
	defer body.Close()
	from := readers.Get().(*bufio.Reader)
	defer readers.Put(from)
	from.Reset(limited(body, maxList))
	defer from.Reset(nil)
	all, err = s.list(&input{Reader: from, api: s.api, ctx: ctx}, func(data []byte, whole error) error {
		return s.object(data, whole, each)
	})
	return all, cutOff(err)
}

// object decodes an object and calls each.
func (s *source[O]) object(data []byte, whole error, each func(O, *Refused) error) error {
	return s.decode(data, whole, func(o O, err error) error {
		version := o.GetResourceVersion()
		if len(version) > maxName {
			err = fmt.Errorf("its resourceVersion is longer than %d bytes", maxName)
			version = ""
		}
		switch {
		case !isKey(o):
			return errNoKey
		case err != nil:
			var none O
			return each(none, &Refused{o.GetNamespace(), o.GetName(), version, err})
		}
		return each(o, nil)
	})
}

func (s *source[O]) Watch(ctx context.Context, o metav1.ListOptions) (Events[O], error) {
	o.Watch = true
	body, err := s.get(ctx, o, s.accept(""))
	if err != nil {
		return nil, err
	}
	return &events[O]{s, body, input{Reader: bufio.NewReaderSize(body, 1<<10), api: s.api, ctx: ctx}}, nil
}

// events are the events of one watch.
type events[O Object] struct {
	source *source[O]
	body   io.Closer
	in     input
}

func (e *events[O]) Close() error { return e.body.Close() }

func (e *events[O]) Next(each func(Event[O]) error) error {
	return e.source.next(&e.in, func(as watch.EventType, of schema.GroupVersionKind, data []byte, whole error) error {
		return e.source.event(as, of, data, whole, each)
	})
}

func (s *source[O]) event(
	as watch.EventType, of schema.GroupVersionKind, data []byte, whole error, each func(Event[O]) error,
) error {
	switch as {
	case watch.Error:
		if whole == nil && len(data) <= maxStatus && of.Kind == statusKind {
			if err := s.status(data); err != nil {
				return err
			}
		}
		return errEvent
	case watch.Added, watch.Modified, watch.Deleted, watch.Bookmark:
	default:
		return errType
	}
	if of != s.kind {
		return errKind("an event", s.kind.Kind)
	}
	if as == watch.Added || as == watch.Modified {
		return s.object(data, whole, func(o O, refused *Refused) error { return each(Event[O]{as, o, refused}) })
	}
	return s.decode(data, whole, func(o O, _ error) error {
		if as == watch.Deleted && !isKey(o) { // bookmarks have no name
			return errNoKey
		}
		return each(Event[O]{Type: as, Object: o})
	})
}

// newest is a kind with several versions. newest uses the first version that the API server has.
type newest[O Object] struct {
	versions []schema.GroupVersion
	of       []Source[O]
	// used is the version of the last successful list or watch. used is nil before the first one.
	used atomic.Pointer[schema.GroupVersion]
}

func newNewest[O Object](versions []schema.GroupVersion, of func(schema.GroupVersion) Source[O]) *newest[O] {
	n := &newest[O]{versions: versions}
	for _, v := range versions {
		n.of = append(n.of, of(v))
	}
	return n
}

func (n *newest[O]) List(
	ctx context.Context, o metav1.ListOptions, each func(O, *Refused) error,
) (all metav1.ListMeta, err error) {
	n.try(func(s Source[O]) error { all, err = s.List(ctx, o, each); return err })
	return all, err
}

func (n *newest[O]) Watch(ctx context.Context, o metav1.ListOptions) (all Events[O], err error) {
	n.try(func(s Source[O]) error { all, err = s.Watch(ctx, o); return err })
	return all, err
}

func (n *newest[O]) try(ask func(Source[O]) error) {
	for i, s := range n.of {
		err := ask(s)
		if err == nil {
			n.used.Store(&n.versions[i])
		}
		if !apierrors.IsNotFound(err) {
			return
		}
	}
}

// version returns the version that was last used, or "" if none was.
func (n *newest[O]) version() string {
	if v := n.used.Load(); v != nil {
		return v.Version
	}
	return ""
}

// eventType returns the type of an event, or "" if there is no such type.
func eventType(name []byte) watch.EventType {
	for _, t := range []watch.EventType{watch.Added, watch.Modified, watch.Deleted, watch.Bookmark, watch.Error} {
		if string(name) == string(t) {
			return t
		}
	}
	return ""
}

// isKey reports whether an object's name and namespace are valid. With a slash in one of them, the
// key could be that of another object.
func isKey(o metav1.Object) bool {
	namespace := o.GetNamespace()
	name := o.GetName()
	return name != "" && max(len(namespace), len(name)) <= maxName && !strings.Contains(namespace, "/") &&
		!strings.Contains(name, "/")
}

// input is a response as it arrives.
type input struct {
	*bufio.Reader
	api *api
	ctx context.Context
}

// buffers has buffers for small objects.
var buffers = sync.Pool{New: func() any { return new([maxSmall]byte) }}

// part reads an object of the given size, and calls f with its bytes, which are valid until f
// returns. If the object is too large, f gets its beginning and an error.
func (in *input) part(size uint64, f func(data []byte, whole error) error) error {
	if size > maxFrame {
		return errFrame(size)
	}
	buffer := buffers.Get().(*[maxSmall]byte)
	defer buffers.Put(buffer)
	data := buffer[:min(size, maxSmall)]
	if size > maxSmall && size <= maxObject {
		release, err := in.hold()
		if err != nil {
			return err
		}
		defer release()
		data = make([]byte, size)
	}
	if _, err := io.ReadFull(in, data); err != nil {
		return unexpected(err)
	}
	if size <= maxObject {
		return f(data, nil)
	}
	if _, err := in.Discard(int(size) - len(data)); err != nil {
		return unexpected(err)
	}
	return f(data, tooLarge(size))
}

// hold waits until another large object of the API server may be read.
func (in *input) hold() (release func(), err error) {
	select {
	case in.api.large <- struct{}{}:
		return func() { <-in.api.large }, nil
	case <-in.ctx.Done():
		return nil, in.ctx.Err()
	}
}

// unexpected replaces io.EOF with io.ErrUnexpectedEOF.
func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// cutOff adds to an error that the response is truncated, if that is the reason.
func cutOff(err error) error {
	if err = unexpected(err); errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("the answer is cut off: %w", err)
	}
	return err
}

// errNoKey ends the response, because a refused object without a name could not be reported.
var errNoKey = errors.New(
	"the API server sent an object without a name, or with one that no object can have: check that the server is " +
		"an API server",
)

// tooLarge returns the error for an object that is refused because of its size.
func tooLarge(size uint64) error {
	return fmt.Errorf("it is larger than %d MiB (%d bytes)", maxObject>>20, size)
}

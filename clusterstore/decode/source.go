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

// A format implements one encoding of API responses, either protobuf or JSON.
type format[O Object] interface {
	// accept returns the content type to request. For a list, suffix is "List"; for an object,
	// suffix is "".
	accept(suffix string) string
	// Like [input.part], list calls a function with the bytes of each object.
	list(in *input, each func(data []byte, partial error) error) (metav1.ListMeta, error)
	// next reads an event and calls f with its object. When the watch has ended, next returns
	// io.EOF.
	next(in *input, f func(as watch.EventType, of schema.GroupVersionKind, data []byte, partial error) error) error
	// decode decodes an object and calls f with the result. If partial is not nil, the data is
	// incomplete. If the object is incomplete or cannot be decoded, f receives an error and an
	// object with only a name, a namespace and a version.
	decode(data []byte, partial error, f func(O, error) error) error
	// status converts an encoded Status to an error, or returns nil if the Status does not describe
	// a failure.
	status(data []byte) error
}

// source is the Source for a kind with a single version.
type source[O Object] struct {
	endpoint
	format[O]
	kind schema.GroupVersionKind
}

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
	all, err = s.list(&input{Reader: from, api: s.api, ctx: ctx}, func(data []byte, partial error) error {
		return s.object(data, partial, each)
	})
	return all, cutOff(err)
}

// The object method decodes an object and calls a function, either with the object or with the
// reason why the object is refused.
func (s *source[O]) object(data []byte, partial error, each func(O, *Refused) error) error {
	return s.decode(data, partial, func(o O, err error) error {
		version := o.GetResourceVersion()
		if len(version) > maxName {
			err = fmt.Errorf("the resourceVersion is longer than %d bytes", maxName)
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

type events[O Object] struct {
	source *source[O]
	body   io.Closer
	in     input
}

func (e *events[O]) Close() error { return e.body.Close() }

func (e *events[O]) Next(each func(Event[O]) error) error {
	return e.source.next(&e.in, func(as watch.EventType, of schema.GroupVersionKind, data []byte, partial error) error {
		return e.source.event(as, of, data, partial, each)
	})
}

func (s *source[O]) event(
	as watch.EventType, of schema.GroupVersionKind, data []byte, partial error, each func(Event[O]) error,
) error {
	switch as {
	case watch.Error:
		if partial == nil && len(data) <= maxStatus && of.Kind == statusKind {
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
		return s.object(data, partial, func(o O, refused *Refused) error { return each(Event[O]{as, o, refused}) })
	}
	return s.decode(data, partial, func(o O, _ error) error {
		if as == watch.Deleted && !isKey(o) { // bookmarks have no name
			return errNoKey
		}
		return each(Event[O]{Type: as, Object: o})
	})
}

// newest implements Source for a kind with several versions. A list or watch tries the versions in
// order, and stops at the first version that the API server serves.
type newest[O Object] struct {
	versions []schema.GroupVersion
	of       []Source[O]
	// used is the version of the last successful list or watch, or nil before the first one.
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

func (n *newest[O]) version() string {
	if v := n.used.Load(); v != nil {
		return v.Version
	}
	return ""
}

// eventType returns the event type with the given name, or "" if the type does not exist.
func eventType(name []byte) watch.EventType {
	for _, t := range []watch.EventType{watch.Added, watch.Modified, watch.Deleted, watch.Bookmark, watch.Error} {
		if string(name) == string(t) {
			return t
		}
	}
	return ""
}

// isKey reports whether an object's name and namespace are valid. A slash in a name is invalid,
// because it could give two objects the same key.
func isKey(o metav1.Object) bool {
	namespace := o.GetNamespace()
	name := o.GetName()
	return name != "" && max(len(namespace), len(name)) <= maxName && !strings.Contains(namespace, "/") &&
		!strings.Contains(name, "/")
}

func cutOff(err error) error {
	if err = unexpected(err); errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("the response is truncated: %w", err)
	}
	return err
}

// If the name of an object in a response is empty or invalid, the whole response is rejected with
// errNoKey. An object without a valid name cannot be refused individually, because refused objects
// are reported by name.
var errNoKey = errors.New(
	"the API server sent an object whose name is empty or invalid: check that the URL points to an API server",
)

func tooLarge(size uint64) error {
	return fmt.Errorf("it is larger than %d MiB (%d bytes)", maxObject>>20, size)
}

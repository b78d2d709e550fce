package follow

import (
	"context"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"isthmus/clusterstore/decode"
)

// compacted is an object on its way from an answer of the API into the Store.
type compacted[T any] struct {
	key     string
	version string
	value   T
	ok      bool   // it is to be kept
	refused string // why it could not be decoded; empty: it could
	updated int64  // as lag.updated returns it
	size    int64  // what the memory cap counts, without shared values. Without a cap, it is zero.
}

// named returns an object of which only its name and version are known.
func named[T any](namespace, name, version string) *compacted[T] {
	return &compacted[T]{key: JoinKey(namespace, name), version: strings.Clone(version)}
}

// compact returns what is kept of an object, or that it is refused.
func (f *feed[O, T]) compact(o O, refused *decode.Refused) *compacted[T] {
	if refused != nil {
		c := named[T](refused.Namespace, refused.Name, refused.ResourceVersion)
		c.refused = f.resource.refusedText(refused.Err)
		c.size = refusedSize(c.key, c.refused)
		return c
	}
	c := named[T](o.GetNamespace(), o.GetName(), o.GetResourceVersion())
	c.value, c.ok = f.kind.Compact(o)
	c.updated = f.resource.lag.updated(o)
	if c.ok && f.kept != nil {
		c.size = objectSize + int64(len(c.key)) + f.kind.Size(c.value, c.key)
	}
	return c
}

// open requests a watch.
func (f *feed[O, T]) open(ctx context.Context, opts metav1.ListOptions) (events, error) {
	from, err := f.kind.Source.Watch(ctx, opts)
	if err != nil {
		return nil, err
	}
	return compactedEvents[O, T]{f, from}, nil
}

// compactedEvents are those of a watch.
type compactedEvents[O decode.Object, T any] struct {
	feed *feed[O, T]
	decode.Events[O]
}

func (e compactedEvents[O, T]) next() (out event, err error) {
	err = e.Next(func(in decode.Event[O]) error {
		var c *compacted[T]
		switch {
		case in.Refused == nil && (in.Type == watch.Deleted || in.Type == watch.Bookmark):
			c = named[T](in.Object.GetNamespace(), in.Object.GetName(), in.Object.GetResourceVersion())
		default:
			c = e.feed.compact(in.Object, in.Refused)
		}
		out.kind, out.object, out.version = in.Type, c, c.version
		return nil
	})
	return out, err
}

package decode

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"google.golang.org/protobuf/encoding/protowire"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
)

const protobufType = "application/vnd.kubernetes.protobuf"

var protobufPrefix = []byte("k8s\x00")

var errNoList = errors.New(
	"the API server's response is not a protobuf list: check that the URL points to an API server",
)

// protobuf is the format of Kubernetes' built-in kinds.
type protobuf[T any, O interface {
	*T
	Object
}] struct{ *kind[T] }

const metadataNumber = 1 // number of the metadata field in all kinds

func newProtobuf[T any, O interface {
	*T
	Object
}](a *api, v schema.GroupVersion, name, namespace string, k *kind[T]) Source[O] {
	return &source[O]{newEndpoint(a, v, name, namespace), protobuf[T, O]{k}, k.GroupVersionKind}
}

func (p protobuf[T, O]) accept(suffix string) string {
	if p.Group != metav1.GroupName {
		return protobufType
	}
	return fmt.Sprintf("%s;as=%s%s;g=%s;v=%s", protobufType, p.Kind, suffix, p.Group, p.Version)
}

// A protobuf list is encoded as a prefix and a runtime.Unknown. In the raw bytes of the
// runtime.Unknown, field 1 is the metadata of the list, and each occurrence of field 2 is an
// object.
func (p protobuf[T, O]) list(in *input, each func(data []byte, partial error) error) (all metav1.ListMeta, err error) {
	prefix, err := in.Peek(len(protobufPrefix))
	switch {
	case err != nil:
		return all, err
	case !bytes.Equal(prefix, protobufPrefix):
		return all, errNoList
	}
	_, _ = in.Discard(len(prefix))
	wanted := p.GroupVersionKind
	wanted.Kind += "List"
	known, done := false, false
	err = in.fields(maxList, func(number protowire.Number, size uint64) error {
		switch {
		case number == 1:
			return in.part(size, func(data []byte, _ error) error {
				if known = typeOf(data) == wanted; !known {
					return errKind("a list", wanted.Kind)
				}
				return nil
			})
		case number == 2 && !known:
			return errKind("a list", wanted.Kind)
		case number == 2:
			done = true
			return unexpected(in.fields(size, func(number protowire.Number, size uint64) error {
				switch number {
				case 1:
					return in.part(size, func(data []byte, _ error) error {
						if len(data) > maxStatus || all.Unmarshal(data) != nil {
							return errNoList
						}
						return nil
					})
				case 2:
					return in.part(size, each)
				}
				return in.skip(size)
			}))
		}
		return in.skip(size)
	})
	if err == io.EOF && done {
		err = nil
	}
	return all, err
}

// Each event of a watch arrives in a frame, which consists of a length and a metav1.WatchEvent.
func (p protobuf[T, O]) next(
	in *input, f func(as watch.EventType, of schema.GroupVersionKind, data []byte, partial error) error,
) error {
	head, err := in.Peek(4)
	if err != nil {
		if len(head) > 0 {
			err = unexpected(err)
		}
		return err
	}
	size := binary.BigEndian.Uint32(head)
	_, _ = in.Discard(len(head))
	return in.part(uint64(size), func(data []byte, partial error) error {
		var as watch.EventType
		var of schema.GroupVersionKind
		var object []byte
		eachPart(data, func(number protowire.Number, data []byte) {
			switch number {
			case 1:
				as = eventType(data)
			case 2:
				eachPart(data, func(number protowire.Number, data []byte) {
					if number == 1 {
						of, object = unwrap(data)
					}
				})
			}
		})
		return f(as, of, object, partial)
	})
}

func (p protobuf[T, O]) decode(data []byte, partial error, f func(O, error) error) error {
	if p.copies {
		data = bytes.Clone(data)
	}
	return p.use(func(d *decoder[T]) error {
		o := O(&d.object)
		err := partial
		if err == nil {
			err = d.decode(data)
		}
		if err != nil {
			var zero T
			d.object = zero
			readNames(data, o)
		}
		return f(o, err)
	})
}

// readNames sets the name, namespace and version of an object whose encoding may be truncated or
// malformed.
func readNames(data []byte, o metav1.Object) {
	eachPart(data, func(number protowire.Number, data []byte) {
		if number != metadataNumber {
			return
		}
		eachPart(data, func(number protowire.Number, data []byte) {
			set := map[protowire.Number]func(string){1: o.SetName, 3: o.SetNamespace, 6: o.SetResourceVersion}[number]
			if set != nil {
				set(string(data[:min(len(data), maxName+1)]))
			}
		})
	})
}

func (p protobuf[T, O]) status(data []byte) error { return protobufStatus(data) }

func protobufStatus(data []byte) error {
	var status metav1.Status
	if status.Unmarshal(data) != nil {
		return nil
	}
	return statusError(&status)
}

func typeOf(data []byte) schema.GroupVersionKind {
	var version, kind string
	eachPart(data, func(number protowire.Number, data []byte) {
		switch number {
		case 1:
			version = string(data)
		case 2:
			kind = string(data)
		}
	})
	return schema.FromAPIVersionAndKind(version, kind)
}

// unwrap returns the kind and the raw bytes of an encoded object. The encoding may be truncated.
func unwrap(data []byte) (of schema.GroupVersionKind, raw []byte) {
	body, ok := bytes.CutPrefix(data, protobufPrefix)
	if !ok {
		return of, nil
	}
	eachPart(body, func(number protowire.Number, data []byte) {
		switch number {
		case 1:
			of = typeOf(data)
		case 2:
			raw = data
		}
	})
	return of, raw
}

// eachPart calls f for each string or message in an encoded message. If the message is truncated,
// the last call receives a truncated part.
func eachPart(data []byte, f func(number protowire.Number, data []byte)) {
	for len(data) > 0 {
		number, wire, n := protowire.ConsumeTag(data)
		if n < 0 {
			return
		}
		data = data[n:]
		if wire != protowire.BytesType {
			if n = protowire.ConsumeFieldValue(number, wire, data); n < 0 {
				return
			}
			data = data[n:]
			continue
		}
		size, n := protowire.ConsumeVarint(data)
		if n < 0 {
			return
		}
		data = data[n:]
		part := data[:min(size, uint64(len(data)))]
		f(number, part)
		data = data[len(part):]
	}
}

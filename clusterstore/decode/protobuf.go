package decode

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"google.golang.org/protobuf/encoding/protowire"
)

// kind is one of Kubernetes' own kinds.
type kind[T any] struct {
	schema.GroupVersionKind
	copies   bool // texts are not lent, since many are kept
	decoders sync.Pool
}

// decoder decodes objects, one after the other, into the same one.
type decoder[T any] struct {
	object T
	table  table[T]
	room   room
}

const protobufType = "application/vnd.kubernetes.protobuf"

// The kinds. All clusters share their decoders.
var (
	pods           = newKind(corev1.SchemeGroupVersion.WithKind("Pod"), podTable)
	services       = newKind(corev1.SchemeGroupVersion.WithKind("Service"), serviceTable)
	endpointSlices = newKind(discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice"), sliceTable)
	endpoints      = newKind(corev1.SchemeGroupVersion.WithKind("Endpoints"), endpointsTable)
	secrets        = newKind(corev1.SchemeGroupVersion.WithKind("Secret"), secretTable)
	nodes          = newKind(corev1.SchemeGroupVersion.WithKind("Node"), nodeTable)
	partials       = newKind(partialVersion.WithKind("PartialObjectMetadata"), partialTable)
)

func init() { secrets.copies = true }

// partialVersion has the group that [metav1.SchemeGroupVersion] lacks.
var partialVersion = schema.GroupVersion{Group: metav1.GroupName, Version: "v1"}

// accept is the content type in which to ask for the kind, or its list.
func (k *kind[T]) accept(suffix string) string {
	if k.Group != metav1.GroupName {
		return protobufType
	}
	return fmt.Sprintf("%s;as=%s%s;g=%s;v=%s", protobufType, k.Kind, suffix, k.Group, k.Version)
}

func newKind[T any](of schema.GroupVersionKind, table func(*room) table[T]) *kind[T] {
	k := &kind[T]{GroupVersionKind: of}
	k.decoders.New = func() any {
		d := &decoder[T]{}
		d.table = table(&d.room)
		return d
	}
	return k
}

// use lends a decoder for one object.
func (k *kind[T]) use(f func(*decoder[T]) error) error {
	d := k.decoders.Get().(*decoder[T])
	err := f(d)
	var zero T
	d.object = zero
	d.room.clear()
	k.decoders.Put(d)
	return err
}

// protobuf is the Source of a kind.
type protobuf[T any, O interface {
	*T
	Object
}] struct {
	endpoint
	*kind[T]
}

func newProtobuf[T any, O interface {
	*T
	Object
}](a *api, v schema.GroupVersion, name, namespace string, k *kind[T]) *protobuf[T, O] {
	return &protobuf[T, O]{newEndpoint(a, v, name, namespace), k}
}

// object decodes one object and calls each. What is not whole is refused for err.
func (s *protobuf[T, O]) object(data []byte, whole error, each func(O, *Refused) error) error {
	if s.copies {
		data = bytes.Clone(data)
	}
	return s.use(func(d *decoder[T]) error {
		err := whole
		if err == nil {
			err = d.table.decode(&d.object, data)
		}
		if err != nil {
			refused, err := refuse(data, err)
			if err != nil {
				return err
			}
			return each(nil, refused)
		}
		if err := checkKey(O(&d.object)); err != nil {
			return err
		}
		return each(O(&d.object), nil)
	})
}

// key decodes the metadata of an object that is deleted or a bookmark, or what can be read of it.
func (s *protobuf[T, O]) key(data []byte, each func(O) error) error {
	return s.use(func(d *decoder[T]) error {
		o := O(&d.object)
		if err := d.table[:metadataNumber+1].decode(&d.object, data); err != nil {
			refused, _ := refuse(data, err) // a bookmark has no name
			o.SetNamespace(refused.Namespace)
			o.SetName(refused.Name)
			o.SetResourceVersion(refused.ResourceVersion)
		}
		return each(o)
	})
}

func (s *protobuf[T, O]) List(ctx context.Context, o metav1.ListOptions, each func(O, *Refused) error) (all metav1.ListMeta, err error) {
	ctx, stop := context.WithTimeout(ctx, listTimeout)
	defer stop()
	body, err := s.get(ctx, o, s.accept("List"))
	if err != nil {
		return all, err
	}
	defer body.Close()
	from := readers.Get().(*bufio.Reader)
	defer readers.Put(from)
	from.Reset(&bounded{body, maxList, maxList})
	l := wireList{from: from, api: s.api, ctx: ctx, kind: s.GroupVersionKind}
	l.kind.Kind += "List"
	err = l.read(func(data []byte, whole error) error { return s.object(data, whole, each) })
	from.Reset(nil)
	return l.meta, err
}

func (s *protobuf[T, O]) Watch(ctx context.Context, o metav1.ListOptions) (Events[O], error) {
	w, err := s.begin(ctx, o, s.accept(""))
	if err != nil {
		return nil, err
	}
	return &wireEvents[T, O]{w, s}, nil
}

// readers are for lists.
var readers = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, maxSmall) }}

// wireList reads a list in protobuf as it comes: after a prefix a runtime.Unknown, in whose raw bytes
// field 1 is the list's metadata and field 2 are its objects.
type wireList struct {
	from *bufio.Reader
	api  *api
	ctx  context.Context
	kind schema.GroupVersionKind
	meta metav1.ListMeta
	at   int64 // bytes that have been read
}

var protobufPrefix = []byte("k8s\x00")

var errNoList = errors.New("the API server's answer is no list in protobuf: check that the server is an API server")

// ReadByte is for varints.
func (l *wireList) ReadByte() (byte, error) {
	b, err := l.from.ReadByte()
	if err == nil {
		l.at++
	}
	return b, err
}

// tag reads the number of a field and the size of its bytes. io.EOF: there is none.
func (l *wireList) tag() (number protowire.Number, size uint64, err error) {
	tag, err := binary.ReadUvarint(l)
	if err != nil {
		return 0, 0, err
	}
	number, wire := protowire.DecodeTag(tag)
	if number < protowire.MinValidNumber || wire != protowire.BytesType {
		return 0, 0, errNoList
	}
	size, err = binary.ReadUvarint(l)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return number, size, err
}

// take returns the next bytes, which stay until skip.
func (l *wireList) take(size uint64) ([]byte, error) {
	if size > maxSmall {
		return nil, errFrame(size)
	}
	return l.from.Peek(int(size))
}

func (l *wireList) skip(size uint64) error {
	if size > maxList {
		return errFrame(size)
	}
	n, err := l.from.Discard(int(size))
	l.at += int64(n)
	return err
}

func (l *wireList) read(each func(data []byte, whole error) error) error {
	prefix, err := l.take(uint64(len(protobufPrefix)))
	switch {
	case err != nil:
		return errCut(err)
	case !bytes.Equal(prefix, protobufPrefix):
		return errNoList
	}
	if err := l.skip(uint64(len(protobufPrefix))); err != nil {
		return errCut(err)
	}
	known, done := false, false
	for {
		number, size, err := l.tag()
		switch {
		case err == io.EOF && done:
			return nil
		case err == errNoList:
			return err
		case err != nil:
			return errCut(err)
		case number == 2 && !known:
			return errKind("a list", l.kind.Kind)
		case number == 2:
			if err := l.items(size, each); err != nil {
				return err
			}
			done = true
			continue
		case number == 1:
			data, err := l.take(size)
			if err != nil {
				return errCut(err)
			}
			if known = typeOf(data) == l.kind; !known {
				return errKind("a list", l.kind.Kind)
			}
		}
		if err := l.skip(size); err != nil {
			return errCut(err)
		}
	}
}

// items reads the list itself.
func (l *wireList) items(size uint64, each func(data []byte, whole error) error) error {
	if size > maxList {
		return errFrame(size)
	}
	for end := l.at + int64(size); l.at != end; {
		number, size, err := l.tag()
		switch {
		case err == errNoList || err == nil && int64(size) > end-l.at:
			return errNoList
		case err != nil:
			return errCut(err)
		case number == 2:
			if err := l.item(size, each); err != nil {
				return err
			}
			continue
		case number == 1:
			data, err := l.take(size)
			if err != nil {
				return errCut(err)
			}
			if err := l.meta.Unmarshal(data); err != nil {
				return errNoList
			}
		}
		if err := l.skip(size); err != nil {
			return errCut(err)
		}
	}
	return nil
}

// item reads an object. A small one stays where it is.
func (l *wireList) item(size uint64, each func(data []byte, whole error) error) error {
	switch {
	case size > maxFrame:
		return errFrame(size)
	case size > maxObject:
		data, err := l.take(maxSmall)
		if err != nil {
			return errCut(err)
		}
		if err := each(data, tooLarge(size)); err != nil {
			return err
		}
	case size > maxSmall:
		return l.large(size, each)
	default:
		data, err := l.take(size)
		if err != nil {
			return errCut(err)
		}
		if err := each(data, nil); err != nil {
			return err
		}
	}
	if err := l.skip(size); err != nil {
		return errCut(err)
	}
	return nil
}

func (l *wireList) large(size uint64, each func(data []byte, whole error) error) error {
	release, err := l.api.hold(l.ctx)
	if err != nil {
		return err
	}
	defer release()
	data := make([]byte, size)
	n, err := io.ReadFull(l.from, data)
	l.at += int64(n)
	if err != nil {
		return errCut(err)
	}
	return each(data, nil)
}

// typeOf reads an encoded runtime.TypeMeta.
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

// unwrap returns what an answer or event holds, which may be cut off.
func unwrap(data []byte) (kind schema.GroupVersionKind, raw []byte) {
	body, ok := bytes.CutPrefix(data, protobufPrefix)
	if !ok {
		return kind, nil
	}
	eachPart(body, func(number protowire.Number, data []byte) {
		switch number {
		case 1:
			kind = typeOf(data)
		case 2:
			raw = data
		}
	})
	return kind, raw
}

// wireEvents are those of a watch in protobuf: frames of a metav1.WatchEvent, each after its length.
type wireEvents[T any, O interface {
	*T
	Object
}] struct {
	*stream
	source *protobuf[T, O]
}

// maxEnvelope is what an event has around its object at most.
const maxEnvelope = 1 << 10

func (e *wireEvents[T, O]) Next(each func(Event[O]) error) error {
	var head [4]byte
	if _, err := io.ReadFull(e.body, head[:]); err != nil {
		return err
	}
	buffer := buffers.Get().(*[maxSmall]byte)
	defer buffers.Put(buffer)
	size := binary.BigEndian.Uint32(head[:])
	if size > maxFrame {
		return errFrame(uint64(size))
	}
	data := buffer[:min(size, maxSmall)]
	if _, err := io.ReadFull(e.body, data); err != nil {
		return unexpected(err)
	}
	var whole error
	if size > maxObject+maxEnvelope {
		if _, err := io.CopyN(io.Discard, e.body, int64(size)-int64(len(data))); err != nil {
			return unexpected(err)
		}
		whole = tooLarge(uint64(size))
	} else if size > maxSmall {
		release, err := e.source.hold(e.ctx)
		if err != nil {
			return err
		}
		defer release()
		data = append(make([]byte, 0, size), data...)[:size]
		if _, err := io.ReadFull(e.body, data[maxSmall:]); err != nil {
			return unexpected(err)
		}
	}
	return e.source.event(data, whole, each)
}

func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// event decodes an encoded metav1.WatchEvent. What is not whole is refused for that error.
func (s *protobuf[T, O]) event(data []byte, whole error, each func(Event[O]) error) error {
	var kind schema.GroupVersionKind
	var name, object []byte
	eachPart(data, func(number protowire.Number, data []byte) {
		switch number {
		case 1:
			name = data
		case 2:
			eachPart(data, func(number protowire.Number, data []byte) {
				if number == 1 {
					kind, object = unwrap(data)
				}
			})
		}
	})
	as, err := eventType(name)
	switch {
	case err != nil:
		return err
	case as == watch.Error:
		if err := protobufStatus(kind, object); err != nil && whole == nil {
			return err
		}
		return errEvent
	case kind != s.GroupVersionKind:
		return errKind("an event", s.Kind)
	case as == watch.Deleted || as == watch.Bookmark:
		return s.key(object, func(o O) error {
			if as == watch.Deleted && !isKey(o.GetNamespace(), o.GetName()) {
				return errNoKey
			}
			return each(Event[O]{Type: as, Object: o})
		})
	}
	return s.object(object, whole, func(o O, refused *Refused) error { return each(Event[O]{as, o, refused}) })
}

func eventType(name []byte) (watch.EventType, error) {
	switch t := watch.EventType(name); t {
	case watch.Added, watch.Modified, watch.Deleted, watch.Bookmark, watch.Error:
		return t, nil
	}
	return "", errType
}

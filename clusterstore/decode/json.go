package decode

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/watch"
)

// maxValues is how many values the spec and status of an object in JSON may have: 3 bytes can stand
// for a struct of a hundred.
const maxValues = 50_000

// custom is the Source of a kind of Linkerd's, which API servers send in JSON.
type custom[T any, O interface {
	*T
	Object
}] struct {
	endpoint
	schema.GroupVersionKind
	read func(o *T, spec, status []byte) // decodes these parts of the object
}

func newJSON[T any, O interface {
	*T
	Object
}](a *api, v schema.GroupVersion, name, kind string, read func(o *T, spec, status []byte)) *custom[T, O] {
	return &custom[T, O]{newEndpoint(a, v, name, ""), v.WithKind(kind), read}
}

// object decodes one object and calls each. What is not whole is refused for err.
func (s *custom[T, O]) object(data []byte, whole error, each func(O, *Refused) error) error {
	var o T
	err := whole
	if err == nil {
		err = s.decode(data, &o, false)
	}
	if err != nil {
		refused := &Refused{Err: err}
		var m metav1.ObjectMeta
		readKey(data, &m)
		refused.Namespace, refused.Name, refused.ResourceVersion = m.Namespace, m.Name, m.ResourceVersion
		if err := refused.check(); err != nil {
			return err
		}
		return each(nil, refused)
	}
	if err := checkKey(O(&o)); err != nil {
		return err
	}
	return each(O(&o), nil)
}

// decode decodes an object, or only its metadata.
func (s *custom[T, O]) decode(data []byte, o *T, bare bool) error {
	var spec, status []byte
	m := metaOf(O(o))
	err := eachMember(data, func(key string, value []byte) (err error) {
		switch key {
		case "metadata":
			*m = metav1.ObjectMeta{}
			err = readMetadata(value, m)
		case "spec":
			spec = value
		case "status":
			status = value
		}
		return err
	})
	if err != nil || bare {
		return err
	}
	if count(spec)+count(status) > maxValues {
		return fmt.Errorf("its spec and status have more than %d values", maxValues)
	}
	s.read(o, spec, status)
	return nil
}

func metaOf(o Object) *metav1.ObjectMeta {
	return o.(metav1.ObjectMetaAccessor).GetObjectMeta().(*metav1.ObjectMeta)
}

// readMetadata reads what is used of metadata.
func readMetadata(data []byte, m *metav1.ObjectMeta) error {
	return eachMember(data, func(key string, value []byte) (err error) {
		switch key {
		case "name":
			m.Name, err = unquote(value)
		case "namespace":
			m.Namespace, err = unquote(value)
		case "resourceVersion":
			m.ResourceVersion, err = unquote(value)
		case "labels":
			m.Labels, err = readTexts(value, "labels", maxText, nil)
		case "annotations":
			m.Annotations, err = readTexts(value, "annotations", maxAnnotation, usedAnnotation)
		case "ownerReferences":
			m.OwnerReferences, err = readOwners(value)
		case "managedFields":
			err = readUpdates(value, m)
		}
		if err == nil && max(len(m.Name), len(m.Namespace), len(m.ResourceVersion)) > maxName {
			err = fmt.Errorf("its %s is longer than %d bytes", key, maxName)
		}
		return err
	})
}

func readTexts(data []byte, name string, longest int, keep func(string) bool) (texts map[string]string, err error) {
	err = eachMember(data, func(key string, value []byte) error {
		if keep != nil && !keep(key) {
			return nil
		}
		text, err := unquote(value)
		switch {
		case err != nil:
			return err
		case len(key) > maxText || len(text) > longest:
			return fmt.Errorf("one of its %s is longer than %d bytes", name, longest)
		case len(texts) == maxLabels:
			return fmt.Errorf("it has more than %d %s", maxLabels, name)
		case texts == nil:
			texts = make(map[string]string)
		}
		texts[key] = text
		return nil
	})
	return texts, err
}

func readOwners(data []byte) (owners []metav1.OwnerReference, err error) {
	err = eachElement(data, func(value []byte) error {
		if len(owners) == maxOwners {
			return fmt.Errorf("it has more than %d ownerReferences", maxOwners)
		}
		var o metav1.OwnerReference
		err := eachMember(value, func(key string, value []byte) (err error) {
			switch key {
			case "kind":
				o.Kind, err = unquote(value)
			case "name":
				o.Name, err = unquote(value)
			}
			if max(len(o.Kind), len(o.Name)) > maxText {
				err = fmt.Errorf("one of its ownerReferences is longer than %d bytes", maxText)
			}
			return err
		})
		owners = append(owners, o)
		return err
	})
	return owners, err
}

// readUpdates notes the newest update, as updates does.
func readUpdates(data []byte, m *metav1.ObjectMeta) error {
	return eachElement(data, func(value []byte) error {
		var operation, when string
		err := eachMember(value, func(key string, value []byte) (err error) {
			switch key {
			case "operation":
				operation, err = unquote(value)
			case "time":
				when, err = unquote(value)
			}
			return err
		})
		if err != nil || operation != string(metav1.ManagedFieldsOperationUpdate) || when == "" {
			return err
		}
		at, err := time.Parse(time.RFC3339, when)
		if err != nil {
			return errors.New("a time in its managedFields can't be read")
		}
		if len(m.ManagedFields) == 0 {
			m.ManagedFields = []metav1.ManagedFieldsEntry{{Operation: metav1.ManagedFieldsOperationUpdate, Time: &metav1.Time{}}}
		}
		if newest := m.ManagedFields[0].Time; at.After(newest.Time) {
			newest.Time = at.Local()
		}
		return nil
	})
}

// readKey reads the names and the version of an object that may be cut off, as far as it can.
func readKey(data []byte, m *metav1.ObjectMeta) {
	_ = eachMember(data, func(key string, value []byte) error {
		if key != "metadata" {
			return nil
		}
		_ = eachMember(value, func(key string, value []byte) error {
			into := map[string]*string{"name": &m.Name, "namespace": &m.Namespace, "resourceVersion": &m.ResourceVersion}[key]
			if into != nil {
				if *into, _ = unquote(value); len(*into) > maxName {
					*into = ""
				}
			}
			return nil
		})
		return nil
	})
}

func (s *custom[T, O]) List(ctx context.Context, o metav1.ListOptions, each func(O, *Refused) error) (all metav1.ListMeta, err error) {
	ctx, stop := context.WithTimeout(ctx, listTimeout)
	defer stop()
	body, err := s.get(ctx, o, runtime.ContentTypeJSON)
	if err != nil {
		return all, err
	}
	defer body.Close()
	from := readers.Get().(*bufio.Reader)
	defer readers.Put(from)
	from.Reset(&bounded{body, maxList, maxList})
	defer from.Reset(nil)
	l := textList{values: values{from: from, api: s.api, ctx: ctx}}
	if err := l.read(func(data []byte, whole error) error { return s.object(data, whole, each) }); err != nil {
		return l.meta, err
	}
	if l.version != s.GroupVersion().String() || l.kind != s.Kind+"List" {
		return l.meta, errKind("a list", s.Kind+"List")
	}
	return l.meta, nil
}

func (s *custom[T, O]) Watch(ctx context.Context, o metav1.ListOptions) (Events[O], error) {
	w, err := s.begin(ctx, o, runtime.ContentTypeJSON)
	if err != nil {
		return nil, err
	}
	return &textEvents[T, O]{w, s, bufio.NewReaderSize(w.body, 4<<10)}, nil
}

// textList is a list in JSON that is read as it comes.
type textList struct {
	values
	meta          metav1.ListMeta
	version, kind string
}

var errNoTextList = errors.New("the API server's answer is no list in JSON: check that the server is an API server")

func (l *textList) read(each func(data []byte, whole error) error) error {
	return errCutText(l.object(func(key string) (err error) {
		switch key {
		case "items":
			return l.all('[', ']', func() error { return l.value(each) })
		case "metadata":
			return l.value(func(data []byte, whole error) error {
				if whole != nil || len(data) > maxStatus || utiljson.Unmarshal(data, &l.meta) != nil {
					return errNoTextList
				}
				return nil
			})
		case "kind":
			l.kind, err = l.text()
		case "apiVersion":
			l.version, err = l.text()
		default:
			err = l.skip()
		}
		return err
	}))
}

// errCutText makes the end of what is read the error that it is.
func errCutText(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errCut(io.EOF)
	}
	return err
}

// values are values of JSON as they come.
type values struct {
	from *bufio.Reader
	api  *api
	ctx  context.Context
}

// first returns the next byte that is no blank, and leaves it there.
func (v *values) first() (byte, error) {
	for {
		c, err := v.from.ReadByte()
		if err != nil || !isBlank(c) {
			if err == nil {
				err = v.from.UnreadByte()
			}
			return c, err
		}
	}
}

// expect reads a byte that must be next.
func (v *values) expect(wanted byte) error {
	c, err := v.first()
	if err == nil && c != wanted {
		err = errNoTextList
	}
	if err == nil {
		_, err = v.from.Discard(1)
	}
	return err
}

// all calls next for each element of an object or list, of which it reads all around them. null has none.
func (v *values) all(open, end byte, next func() error) error {
	if c, err := v.first(); err == nil && c == 'n' {
		return v.skip()
	}
	if err := v.expect(open); err != nil {
		return err
	}
	for first := true; ; first = false {
		c, err := v.first()
		if err != nil {
			return err
		}
		if c == end {
			return v.expect(end)
		}
		if !first {
			if err := v.expect(','); err != nil {
				return err
			}
			if _, err := v.first(); err != nil {
				return err
			}
		}
		if err := next(); err != nil {
			return err
		}
	}
}

// object calls member before the value of each member of an object, which it reads.
func (v *values) object(member func(key string) error) error {
	return v.all('{', '}', func() error {
		key, err := v.text()
		if err == nil {
			err = v.expect(':')
		}
		if err != nil {
			return err
		}
		return member(key)
	})
}

func (v *values) skip() error { return v.value(func([]byte, error) error { return nil }) }

// text reads a short text.
func (v *values) text() (text string, err error) {
	err = v.value(func(data []byte, whole error) (err error) {
		if whole != nil || len(data) > maxText {
			return errNoTextList
		}
		text, err = unquote(data)
		return err
	})
	return text, err
}

// value reads the next value. f gets it until it returns; if it is too large, f gets the beginning and an error.
func (v *values) value(f func(data []byte, whole error) error) error {
	if _, err := v.first(); err != nil {
		return err
	}
	buffer := buffers.Get().(*[maxSmall]byte)
	defer buffers.Put(buffer)
	data, size := buffer[:0], 0
	var s scanner
	for ended := false; !ended; {
		if _, err := v.from.Peek(1); err != nil {
			if err == io.EOF && s.scalar {
				break
			}
			return unexpected(err)
		}
		chunk, _ := v.from.Peek(v.from.Buffered())
		var n int
		n, ended = s.scan(chunk)
		before := size
		if size += n; size > maxFrame {
			return errFrame(uint64(size))
		}
		if size > maxSmall && before <= maxSmall {
			release, err := v.api.hold(v.ctx)
			if err != nil {
				return err
			}
			defer release()
		}
		if len(data) < maxObject {
			data = append(data, chunk[:min(n, maxObject-len(data))]...)
		}
		if _, err := v.from.Discard(n); err != nil {
			return err
		}
	}
	if len(data) == 0 {
		return errJSON
	}
	var whole error
	if size > len(data) {
		whole = tooLarge(uint64(size))
	}
	return f(data, whole)
}

// textEvents are those of a watch in JSON: an object for each, with its type and an object.
type textEvents[T any, O interface {
	*T
	Object
}] struct {
	*stream
	source *custom[T, O]
	from   *bufio.Reader
}

func (e *textEvents[T, O]) Next(each func(Event[O]) error) error {
	v := values{e.from, e.source.api, e.ctx}
	return v.value(func(data []byte, whole error) error { return e.source.event(data, whole, each) })
}

func (s *custom[T, O]) event(data []byte, whole error, each func(Event[O]) error) error {
	var name string
	var object []byte
	err := eachMember(data, func(key string, value []byte) (err error) {
		switch key {
		case "type":
			name, err = unquote(value)
		case "object":
			object = value
		}
		return err
	})
	if err != nil && whole == nil {
		return errors.New("the API server sent an event that is no JSON: check that the server is an API server")
	}
	as, err := eventType([]byte(name))
	switch {
	case err != nil:
		return err
	case as == watch.Error:
		if err := jsonStatus(object); err != nil {
			return err
		}
		return errEvent
	}
	if err := s.checkKind(object); err != nil {
		return err
	}
	if as != watch.Deleted && as != watch.Bookmark {
		return s.object(object, whole, func(o O, refused *Refused) error { return each(Event[O]{as, o, refused}) })
	}
	var o T
	m := metaOf(O(&o))
	if err := s.decode(object, &o, true); err != nil {
		*m = metav1.ObjectMeta{}
		readKey(object, m)
	}
	if as == watch.Deleted && !isKey(m.Namespace, m.Name) {
		return errNoKey
	}
	return each(Event[O]{Type: as, Object: O(&o)})
}

// checkKind reports an object of another kind.
func (s *custom[T, O]) checkKind(object []byte) error {
	var version, kind string
	_ = eachMember(object, func(key string, value []byte) error {
		switch key {
		case "apiVersion":
			version, _ = unquote(value)
		case "kind":
			kind, _ = unquote(value)
		}
		return nil
	})
	if version != s.GroupVersion().String() || kind != s.Kind {
		return errKind("an event", s.Kind)
	}
	return nil
}

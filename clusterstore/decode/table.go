package decode

import (
	"errors"
	"fmt"
	"time"
	"unsafe"

	"google.golang.org/protobuf/encoding/protowire"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// table decodes a message of protobuf into a struct T of Kubernetes: the fields that it lists,
// by their numbers. It skips all others.
type table[T any] []field[T]

// field is how one field is decoded: set gets its number, or the bytes of a text or message.
type field[T any] struct {
	wire protowire.Type
	set  func(into *T, number uint64, data []byte) error
}

var errMalformed = errors.New("it is not valid protobuf")

// decode adds to into what data has, as the types' own Unmarshal does.
func (t table[T]) decode(into *T, data []byte) error {
	for len(data) > 0 {
		number, wire, n := protowire.ConsumeTag(data)
		if n < 0 {
			return errMalformed
		}
		data = data[n:]
		if int(number) >= len(t) || t[number].set == nil {
			if n = protowire.ConsumeFieldValue(number, wire, data); n < 0 {
				return errMalformed
			}
			data = data[n:]
			continue
		}
		f := &t[number]
		if wire != f.wire {
			return errMalformed
		}
		var value uint64
		var part []byte
		if wire == protowire.VarintType {
			value, n = protowire.ConsumeVarint(data)
		} else {
			part, n = protowire.ConsumeBytes(data)
		}
		if n < 0 {
			return errMalformed
		}
		if err := f.set(into, value, part); err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}

// Bounds of texts, in bytes. They are for what is kept of them: decoding lends them.
const (
	maxName       = 253       // of an object, as API servers have it
	maxText       = 16 << 10  // more than any field that is used may have
	maxAnnotation = 256 << 10 // as much as all those of an object may have
	unbounded     = maxObject // what is looked at and never kept
)

// lend returns a text that has the memory of data.
func lend[S ~string](data []byte) S { return S(unsafe.String(unsafe.SliceData(data), len(data))) }

// text is a field that is a text of a number of bytes at most.
func text[T any, S ~string](name string, limit int, at func(*T) *S) field[T] {
	return field[T]{protowire.BytesType, func(into *T, _ uint64, data []byte) error {
		if len(data) > limit {
			return fmt.Errorf("its %s is longer than %d bytes", name, limit)
		}
		*at(into) = lend[S](data)
		return nil
	}}
}

func boolean[T any](at func(*T) *bool) field[T] {
	return field[T]{protowire.VarintType, func(into *T, value uint64, _ []byte) error {
		*at(into) = value != 0
		return nil
	}}
}

func number[T any](at func(*T) *int32) field[T] {
	return field[T]{protowire.VarintType, func(into *T, value uint64, _ []byte) error {
		*at(into) = int32(value)
		return nil
	}}
}

// sub is a message within the struct.
func sub[T, E any](t table[E], at func(*T) *E) field[T] {
	return field[T]{protowire.BytesType, func(into *T, _ uint64, data []byte) error { return t.decode(at(into), data) }}
}

// optional is a field that the struct refers to.
func optional[T, E any](r *room, f field[E], at func(*T) **E) field[T] {
	all := newShelf[E](r)
	return field[T]{f.wire, func(into *T, number uint64, data []byte) error {
		p := at(into)
		if *p == nil {
			*p = all.one()
		}
		return f.set(*p, number, data)
	}}
}

// self is where a field is that is all of what a struct refers to.
func self[E any](e *E) *E { return e }

// bound is how many elements a list may have, and all lists of the field in one object.
type bound struct{ each, all int }

func (b bound) check(name string, list, all int) error {
	if list > b.each || all > b.all {
		return fmt.Errorf("it has more than %d %s", min(b.each, b.all), name)
	}
	return nil
}

// list is a list of messages.
func list[T, E any](r *room, name string, b bound, t table[E], at func(*T) *[]E) field[T] {
	all := newShelf[E](r)
	return field[T]{protowire.BytesType, func(into *T, _ uint64, data []byte) error {
		l := at(into)
		*l = all.grow(*l)
		if err := b.check(name, len(*l), all.used()); err != nil {
			return err
		}
		return t.decode(&(*l)[len(*l)-1], data)
	}}
}

// filtered is a field of which only those elements are decoded that keep wants.
func filtered[T, E any](t table[E], keep func(*E) bool, f field[T]) field[T] {
	one := new(E)
	return field[T]{f.wire, func(into *T, number uint64, data []byte) error {
		var zero E
		*one = zero
		if err := t.decode(one, data); err != nil || !keep(one) {
			return err
		}
		return f.set(into, number, data)
	}}
}

// texts is a list of texts.
func texts[T any, S ~string](r *room, name string, b bound, at func(*T) *[]S) field[T] {
	all := newShelf[S](r)
	return field[T]{protowire.BytesType, func(into *T, _ uint64, data []byte) error {
		l := at(into)
		*l = all.grow(*l)
		if len(data) > maxText {
			return fmt.Errorf("one of its %s is longer than %d bytes", name, maxText)
		}
		(*l)[len(*l)-1] = lend[S](data)
		return b.check(name, len(*l), all.used())
	}}
}

// mapping is a map with texts as keys, of which those are kept that keep wants, if it is set.
func mapping[T, V any](r *room, name string, limit, longest int, keep func(string) bool, value func([]byte) V, at func(*T) *map[string]V) field[T] {
	var kept map[string]V
	r.clears = append(r.clears, func() {
		if len(kept) > maxMap {
			kept = nil
		}
		clear(kept)
	})
	var key, text []byte
	entry := table[struct{}]{
		1: {protowire.BytesType, func(_ *struct{}, _ uint64, data []byte) error { key = data; return nil }},
		2: {protowire.BytesType, func(_ *struct{}, _ uint64, data []byte) error { text = data; return nil }},
	}
	return field[T]{protowire.BytesType, func(into *T, _ uint64, data []byte) error {
		key, text = nil, nil
		err := entry.decode(nil, data)
		k, v := lend[string](key), text
		key, text = nil, nil
		switch {
		case err != nil || keep != nil && !keep(k):
			return err
		case len(k) > maxText || len(v) > longest:
			return fmt.Errorf("one of its %s is longer than %d bytes", name, longest)
		}
		m := at(into)
		if *m == nil {
			if kept == nil {
				kept = make(map[string]V)
			}
			*m = kept
		}
		(*m)[k] = value(v)
		if len(*m) > limit {
			return fmt.Errorf("it has more than %d %s", limit, name)
		}
		return nil
	}}
}

// moment is a time, of which Kubernetes reads whole seconds.
func moment[T any](at func(*T) *metav1.Time) field[T] {
	return field[T]{protowire.BytesType, func(into *T, _ uint64, data []byte) error {
		if len(data) == 0 {
			*at(into) = metav1.Time{}
			return nil
		}
		var seconds int64
		if err := timestamp.decode(&seconds, data); err != nil {
			return err
		}
		*at(into) = metav1.Time{Time: time.Unix(seconds, 0).Local()}
		return nil
	}}
}

var timestamp = table[int64]{1: {protowire.VarintType, func(into *int64, value uint64, _ []byte) error {
	*into = int64(value)
	return nil
}}}

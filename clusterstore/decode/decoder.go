package decode

import (
	"reflect"
	"sync"
	"unsafe"

	"k8s.io/apimachinery/pkg/runtime/schema"
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
	table  table
	room   room
}

// newKind returns a kind of which those fields are decoded that the text has: see kinds.go.
func newKind[T any](of schema.GroupVersionKind, text string) *kind[T] {
	k, fields := &kind[T]{GroupVersionKind: of}, usedFields(text)
	k.decoders.New = func() any {
		d := &decoder[T]{}
		d.table = tableOf(&d.room, reflect.TypeFor[T](), fields)
		return d
	}
	return k
}

// decode sets the object.
func (d *decoder[T]) decode(data []byte) error {
	return d.table.decode(reflect.ValueOf(&d.object).Elem(), data)
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

// room is the memory of one decoder that is used again for each object, so that decoding
// leaves no garbage. What it keeps is bounded: an object that needs more gets memory of its
// own.
type room struct {
	clears []func()
}

// clear forgets the last object. Nothing may refer to it after that, nor to the bytes that it came in.
func (r *room) clear() {
	for _, c := range r.clears {
		c()
	}
}

const (
	keptShelf = 32 << 10 // bytes of a shelf
	maxMap    = 64       // entries of a map
)

// shelf has the values of one field, all of one object. A list is in one piece: it is complete
// before the next one begins.
type shelf struct {
	all  reflect.Value // a slice of zero values
	used int           // how many of them have been taken
	more int           // those that had no place there
}

func newShelf(r *room, of reflect.Type) *shelf {
	s := &shelf{all: reflect.MakeSlice(reflect.SliceOf(of), 0, 0)}
	r.clears = append(r.clears, s.clear)
	return s
}

func (s *shelf) clear() {
	for i := range s.used {
		s.all.Index(i).SetZero()
	}
	if s.more > 0 { // the next object may be as large
		of := s.all.Type()
		if wanted := min(s.count(), keptShelf/int(of.Elem().Size())); wanted > s.all.Len() {
			s.all = reflect.MakeSlice(of, wanted, wanted)
		}
	}
	s.used, s.more = 0, 0
}

// count is how many values there are.
func (s *shelf) count() int { return s.used + s.more }

// grow adds a zero value to a list, and returns that.
func (s *shelf) grow(list reflect.Value) reflect.Value {
	n := list.Len()
	if n == 0 && s.used < s.all.Len() {
		list.Set(s.all.Slice(s.used, s.all.Len()))
		list.SetLen(0)
	}
	if s.holds(list, n) {
		s.used++
	} else {
		s.more++
		list.Grow(1)
	}
	list.SetLen(n + 1)
	return list.Index(n)
}

// holds reports whether the place n of a list is the next one of the shelf.
func (s *shelf) holds(list reflect.Value, n int) bool {
	if s.used == s.all.Len() || n == list.Cap() {
		return false
	}
	return unsafe.Add(
		list.UnsafePointer(), n*int(s.all.Type().Elem().Size()),
	) == s.all.Index(s.used).Addr().UnsafePointer()
}

// one returns a pointer to a zero value.
func (s *shelf) one() reflect.Value {
	if s.used == s.all.Len() {
		s.more++
		return reflect.New(s.all.Type().Elem())
	}
	s.used++
	return s.all.Index(s.used - 1).Addr()
}

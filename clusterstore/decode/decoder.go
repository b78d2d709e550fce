package decode

import (
	"reflect"
	"sync"
	"unsafe"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

type kind[T any] struct {
	schema.GroupVersionKind
	copies   bool // the bytes are copied first, because most strings are cached
	decoders sync.Pool
}

// decoder decodes one object after another into the same struct.
type decoder[T any] struct {
	object T
	table  table
	room   room
}

// newKind returns a kind whose decoders decode the listed fields. The list has the format that
// kinds.go describes.
func newKind[T any](of schema.GroupVersionKind, text string) *kind[T] {
	k := &kind[T]{GroupVersionKind: of}
	fields := usedFields(text)
	k.decoders.New = func() any {
		d := &decoder[T]{}
		d.table = tableOf(&d.room, reflect.TypeFor[T](), fields)
		return d
	}
	return k
}

func (d *decoder[T]) decode(data []byte) error {
	return d.table.decode(reflect.ValueOf(&d.object).Elem(), data)
}

// The use method calls f with a decoder, which f may use for one object.
func (k *kind[T]) use(f func(*decoder[T]) error) error {
	d := k.decoders.Get().(*decoder[T])
	err := f(d)
	var zero T
	d.object = zero
	d.room.clear()
	k.decoders.Put(d)
	return err
}

// room is the memory that a decoder reuses from one object to the next. Decoding an object creates
// garbage only if the object needs more memory than the decoder can reuse.
type room struct {
	clears []func()
}

// The clear method makes the memory of the last object available for the next object. After a call
// to clear, the last object and its bytes must not be used.
func (r *room) clear() {
	for _, c := range r.clears {
		c()
	}
}

const (
	keptShelf = 32 << 10 // bytes of a shelf
	maxMap    = 64       // entries of a map
)

// shelf holds the values of one field of an object. The elements of each list are contiguous,
// because each list is completed before the next one begins.
type shelf struct {
	all  reflect.Value // a slice of zero values
	used int           // number of values in use
	more int           // number of values that did not fit
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
	if s.more > 0 { // the next object may need as many
		of := s.all.Type()
		if wanted := min(s.count(), keptShelf/int(of.Elem().Size())); wanted > s.all.Len() {
			s.all = reflect.MakeSlice(of, wanted, wanted)
		}
	}
	s.used = 0
	s.more = 0
}

func (s *shelf) count() int { return s.used + s.more }

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

// The holds method reports whether element n of the list occupies the same memory as the next
// unused value in s.all.
func (s *shelf) holds(list reflect.Value, n int) bool {
	if s.used == s.all.Len() || n == list.Cap() {
		return false
	}
	return unsafe.Add(
		list.UnsafePointer(), n*int(s.all.Type().Elem().Size()),
	) == s.all.Index(s.used).Addr().UnsafePointer()
}

func (s *shelf) one() reflect.Value {
	if s.used == s.all.Len() {
		s.more++
		return reflect.New(s.all.Type().Elem())
	}
	s.used++
	return s.all.Index(s.used - 1).Addr()
}

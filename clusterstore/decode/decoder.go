package decode

import (
	"reflect"
	"sync"

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

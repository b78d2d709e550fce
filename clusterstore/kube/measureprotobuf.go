package kube

import (
	"reflect"
	"sync"
)

// measureProtobuf is the walkFunc of protobuf. Like Kubernetes' decoders, which tolerate
// more than others, it ends where the message is not valid.
func measureProtobuf(m *measure, t reflect.Type, data []byte) { m.message(shapeOf(t), data) }

// shape is what is to be known of a type, looked up once: a list has a hundred fields for
// each of its Pods.
type shape struct {
	of      reflect.Type
	pointed int64        // what of is, if it is a pointer, takes besides what it leads to
	kind    reflect.Kind // of what it leads to, as are all of these
	parsed  bool         // a quantity
	number  bool         // a list of numbers
	element int64        // what an element of a list takes
	table   int64        // what a map takes without its entries
	entry   int64        // what an entry of a map takes
	many    int64        // what an element takes of a list that is the value of a map; 0: it is no list
	elem    *shape       // of a list or a map
	fields  []*shape     // of a struct, by number; nil: there is none
}

var (
	shapesMu sync.Mutex
	shapes   = make(map[reflect.Type]*shape)
)

func shapeOf(t reflect.Type) *shape {
	shapesMu.Lock()
	defer shapesMu.Unlock()
	return newShape(t)
}

// newShape is called with shapesMu, so that nobody sees a shape without its parts.
func newShape(of reflect.Type) *shape {
	if s := shapes[of]; s != nil {
		return s
	}
	s := &shape{of: of}
	shapes[of] = s // before its parts: one may be of the same type
	var pointers, table, entry measure
	t := pointers.object(of)
	s.pointed, s.kind, s.parsed = pointers.size, t.Kind(), t == quantityType
	switch s.kind {
	case reflect.Slice:
		elem := t.Elem()
		s.elem, s.element, s.number = newShape(elem), 2*int64(elem.Size()), flat(elem)
	case reflect.Map:
		table.table(t)
		entry.entry(t)
		s.elem, s.table, s.entry = newShape(t.Elem()), table.size, entry.size
		if value := t.Elem(); value.Kind() == reflect.Slice {
			s.many = int64(value.Elem().Size())
		}
	case reflect.Struct:
		for number, t := range fieldsOf(t).protobuf {
			s.fields = append(s.fields, make([]*shape, max(0, int(number)+1-len(s.fields)))...)
			s.fields[number] = newShape(t)
		}
	}
	return s
}

// flat reports whether values of a type are numbers.
func flat(t reflect.Type) bool { return t.Kind() >= reflect.Bool && t.Kind() <= reflect.Complex128 }

// message counts the fields of a struct.
func (m *measure) message(s *shape, data []byte) {
	if s.parsed {
		eachField(data, func(_ int32, value []byte) { m.text(len(value)); m.parse(string(value)) })
		return
	}
	last := int32(0)
	eachField(data, func(number int32, value []byte) {
		if number >= 0 && int(number) < len(s.fields) && s.fields[number] != nil {
			m.field(s.fields[number], value, last != number)
		}
		last = number
	})
}

// field counts the value of a field; nil: a number. first: it is not known to have a map.
func (m *measure) field(s *shape, value []byte, first bool) {
	m.size += s.pointed
	switch {
	case s.kind == reflect.String, s.kind == reflect.Slice && s.elem.kind == reflect.Uint8:
		m.text(len(value))
	case s.number: // one, or many that are packed
		m.size += s.element * int64(max(1, len(value)))
	case s.kind == reflect.Slice:
		m.size += s.element
		m.own(s.elem.of, func() int { m.field(s.elem, value, true); return len(value) })
	case s.kind == reflect.Map:
		if first {
			m.size += s.table
		}
		m.size += s.entry
		eachField(value, func(number int32, part []byte) {
			switch number {
			case 1:
				m.text(len(part))
			case 2:
				m.size += int64(len(part)) * s.many // a message of its own, with an element in each two bytes at most
				m.field(s.elem, part, true)
			}
		})
	case s.kind == reflect.Struct:
		m.message(s, value)
	}
}

// eachField calls f with the fields of a message up to its end, or up to where it is not
// valid. The value of a number is nil.
func eachField(data []byte, f func(number int32, value []byte)) {
	for groups := 0; len(data) > 0; {
		tag, n := varint(data)
		if n == 0 {
			return
		}
		data = data[n:]
		number, size, value := int32(tag>>3), uint64(0), []byte(nil)
		switch tag & 7 {
		case 0:
			_, n := varint(data)
			size = uint64(n)
			if n == 0 {
				return
			}
		case 1:
			size = 8
		case 5:
			size = 4
		case 2:
			size, n = varint(data)
			if n == 0 || size > uint64(len(data)-n) {
				return
			}
			data = data[n:]
			value = data[:size]
		case 3:
			groups++
			continue
		case 4:
			groups--
			continue
		default:
			return
		}
		if size > uint64(len(data)) || groups < 0 {
			return
		}
		if data = data[size:]; groups == 0 {
			f(number, value)
		}
	}
}

// varint returns a number and how many bytes it has; 0: it has no end. As in Kubernetes'
// decoders, what does not fit into 64 bits is lost.
func varint(data []byte) (value uint64, n int) {
	for i, b := range data[:min(len(data), 10)] {
		value |= uint64(b&0x7f) << (7 * i)
		if b < 0x80 {
			return value, i + 1
		}
	}
	return 0, 0
}

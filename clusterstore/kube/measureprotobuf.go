package kube

import "reflect"

// measureProtobuf is the walkFunc of protobuf. Like Kubernetes' decoders, which tolerate
// more than others, it ends where the message is not valid.
func measureProtobuf(m *measure, t reflect.Type, data []byte) {
	if t == quantityType {
		eachField(data, func(_ int32, value []byte) { m.text(len(value)); m.parse(string(value)) })
		return
	}
	if t.Kind() != reflect.Struct {
		return
	}
	fields, last := fieldsOf(t).protobuf, int32(0)
	eachField(data, func(number int32, value []byte) {
		if t := fields[number]; t != nil {
			m.field(t, value, last != number)
		}
		last = number
	})
}

// field counts the value of a field; nil: a number. first: it is not known to have a map.
func (m *measure) field(t reflect.Type, value []byte, first bool) {
	t = m.object(t)
	switch t.Kind() {
	case reflect.String:
		m.text(len(value))
	case reflect.Slice:
		elem := t.Elem()
		switch kind := elem.Kind(); {
		case kind == reflect.Uint8:
			m.text(len(value))
		case kind >= reflect.Bool && kind <= reflect.Complex128: // one, or many that are packed
			m.size += 2 * int64(elem.Size()) * int64(max(1, len(value)))
		default:
			m.element(elem)
			m.own(elem, func() int { m.field(elem, value, true); return len(value) })
		}
	case reflect.Map:
		if first {
			m.table(t)
		}
		m.entry(t)
		eachField(value, func(number int32, part []byte) {
			switch number {
			case 1:
				m.text(len(part))
			case 2:
				if t.Elem().Kind() == reflect.Slice { // a message of its own, with an element in each two bytes at most
					m.size += int64(len(part)) * int64(t.Elem().Elem().Size())
				}
				m.field(t.Elem(), part, true)
			}
		})
	case reflect.Struct:
		measureProtobuf(m, t, value)
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

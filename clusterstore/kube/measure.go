package kube

import (
	"encoding/json"
	"maps"
	"reflect"
	"strconv"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/resource"
)

// measure adds up what a decoded object takes. What an element of a list, a map or a
// pointer takes is counted as it is found, whether or not it is valid: decoders make
// them first.
type measure struct {
	items    reflect.Type // the type of the items of the list that is measured; nil: it is no list
	size     int64        // in bytes
	item     int64        // the largest item
	encoded  int          // bytes of the longest item
	quantity string       // one that must not be parsed
}

// Sizes, in bytes.
const (
	allocation = 16  // of what an allocation takes besides what it was asked for
	mapSlots   = 8   // that the smallest map has
	anySize    = 128 // of a value of any type: each element of a list, or a field of an object
)

var quantityType = reflect.TypeFor[resource.Quantity]()

// element counts one element of a list. Lists grow, up to twice what they need.
func (m *measure) element(t reflect.Type) { m.size += 2 * int64(t.Size()) }

// object counts what a pointer refers to, and returns the type of that.
func (m *measure) object(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
		m.size += int64(t.Size()) + allocation
	}
	return t
}

// table counts a map without its entries.
func (m *measure) table(t reflect.Type) {
	m.size += 64 + mapSlots*int64(t.Key().Size()+t.Elem().Size()+1)
}

// entry counts an entry of a map. Maps grow, and keep what they had while they do.
func (m *measure) entry(t reflect.Type) { m.size += 4 * int64(t.Key().Size()+t.Elem().Size()+1) }

// text counts a text, or other bytes that are copied.
func (m *measure) text(n int) { m.size += int64(n) + allocation }

// parse checks a quantity before it is parsed, which may take hours: 1e-1000000000 has a
// billion digits.
func (m *measure) parse(text string) {
	text = strings.TrimSpace(strings.Trim(text, `"`))
	const maxQuantity = 64
	mantissa := strings.TrimRight(text, "0123456789")
	exponent := strings.ContainsAny(mantissa, "eE") && len(text)-len(mantissa) > 3
	if len(text) > maxQuantity || exponent {
		m.quantity = text
	}
}

// own counts an item of the list that is measured. walk measures it, and returns how many
// bytes it has.
func (m *measure) own(t reflect.Type, walk func() int) {
	before := m.size
	if n := walk(); t == m.items {
		m.item, m.encoded = max(m.item, m.size-before), max(m.encoded, n)
	}
}

// fields are the fields of a struct in both encodings.
type fields struct {
	json     map[string]reflect.Type // by name
	protobuf map[int32]reflect.Type  // by number

	unmarshals bool // it decodes its JSON itself
}

var unmarshaler = reflect.TypeFor[json.Unmarshaler]()

// named returns the type of a field; nil: there is none. As encoding/json does, it takes names that differ in
// case only.
func (f *fields) named(key []byte) reflect.Type {
	if t, ok := f.json[string(key)]; ok {
		return t
	}
	name := string(plain(key))
	for other, t := range f.json {
		if strings.EqualFold(name, other) {
			return t
		}
	}
	return nil
}

var knownFields sync.Map // of *fields by reflect.Type

func fieldsOf(t reflect.Type) *fields {
	if known, ok := knownFields.Load(t); ok {
		return known.(*fields)
	}
	f := &fields{
		json: make(map[string]reflect.Type), protobuf: make(map[int32]reflect.Type),
		unmarshals: reflect.PointerTo(t).Implements(unmarshaler),
	}
	for i := range t.NumField() {
		f.add(t.Field(i))
	}
	known, _ := knownFields.LoadOrStore(t, f)
	return known.(*fields)
}

func (f *fields) add(field reflect.StructField) {
	if number := strings.Split(field.Tag.Get("protobuf"), ","); len(number) > 1 {
		if n, err := strconv.ParseInt(number[1], 10, 32); err == nil {
			f.protobuf[int32(n)] = field.Type
		}
	}
	name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
	switch {
	case field.Anonymous && name == "" && field.Type.Kind() == reflect.Struct:
		maps.Copy(f.json, fieldsOf(field.Type).json) // inline
	case !field.IsExported() || name == "-":
	case name == "":
		f.json[field.Name] = field.Type
	default:
		f.json[name] = field.Type
	}
}

package decode

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"unsafe"

	"google.golang.org/protobuf/encoding/protowire"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// table decodes a protobuf message into a Kubernetes struct. The index of a field in the table is
// its protobuf field number. Fields that are not in the table are skipped.
type table []field

type field struct {
	index int // index in the struct
	wire  protowire.Type
	set   setter // if nil, the field is skipped
}

// setter sets a field of a struct, either to a number or to the bytes of a string or message.
type setter func(into reflect.Value, number uint64, data []byte) error

var errMalformed = errors.New("it is not valid protobuf")

// decode merges an encoded message into a struct, as the generated Unmarshal methods do.
func (t table) decode(into reflect.Value, data []byte) error {
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
		if err := f.set(into.Field(f.index), value, part); err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}

// Callers may cache strings, so the decoder limits the number of bytes in each string.
const (
	maxName       = 253       // of an object's name, as in API servers
	maxText       = 16 << 10  // more than any used field may have
	maxAnnotation = 256 << 10 // as much as all annotations of an object may have
)

func lend(data []byte) string { return unsafe.String(unsafe.SliceData(data), len(data)) }

type used struct {
	path string // path in error messages
	// limit is the maximum number of elements in a list or map, or the maximum length of a string
	// in bytes. For a string, a limit of zero means maxText. If an object contains several lists at
	// this path, total limits the sum of their lengths.
	limit, total int
	below        map[string]*used
}

// usedFields parses a list of fields in the format that kinds.go describes.
func usedFields(text string) *used {
	open := []*used{{below: make(map[string]*used)}}
	var last *used
	for word := range strings.FieldsSeq(text) {
		in := open[len(open)-1]
		switch n, err := strconv.Atoi(word); {
		case word == "{":
			open = append(open, last)
		case word == "}":
			open = open[:len(open)-1]
		case err == nil:
			last.limit, last.total = cmp.Or(last.limit, n), n
		default:
			last = &used{path: strings.TrimPrefix(in.path+"."+word, "."), below: make(map[string]*used)}
			in.below[word] = last
		}
	}
	return open[0]
}

// tableOf returns the table for a struct whose tags contain the protobuf numbers and the names of
// its fields.
func tableOf(r *room, of reflect.Type, u *used) (t table) {
	found := 0
	for i := range of.NumField() {
		tag := of.Field(i).Tag.Get("protobuf")
		_, name, _ := strings.Cut(tag, "name=")
		name, _, _ = strings.Cut(name, ",")
		field := u.below[name]
		if field == nil {
			continue
		}
		found++
		number, err := strconv.Atoi(strings.Split(tag, ",")[1])
		if err != nil {
			panic(err)
		}
		t = append(t, make(table, max(0, number+1-len(t)))...)
		t[number].index = i
		t[number].wire, t[number].set = setterOf(r, of.Field(i).Type, field)
	}
	if found != len(u.below) {
		panic(fmt.Sprintf("%v does not have all fields of %s", of, u.path))
	}
	return t
}

func setterOf(r *room, of reflect.Type, u *used) (protowire.Type, setter) {
	switch of {
	case reflect.TypeFor[metav1.Time]():
		return protowire.BytesType, momentSetter(r)
	case reflect.TypeFor[[]metav1.ManagedFieldsEntry]():
		return protowire.BytesType, updatesSetter(r)
	case reflect.TypeFor[[]byte]():
		return protowire.BytesType, func(into reflect.Value, _ uint64, data []byte) error {
			into.SetBytes(data)
			return nil
		}
	case reflect.TypeFor[map[string]string]():
		var keep func(string) bool
		longest := maxText
		if u.path == "metadata.annotations" {
			keep, longest = usedAnnotation, maxAnnotation
		}
		return protowire.BytesType, mapSetter(r, u, longest, keep, lend)
	case reflect.TypeFor[map[string][]byte](): // data of a Secret
		return protowire.BytesType, mapSetter(
			r,
			u,
			maxObject,
			func(key string) bool { return key == "kubeconfig" },
			func(data []byte) []byte { return data },
		)
	}
	switch of.Kind() {
	case reflect.String:
		return protowire.BytesType, textSetter(u)
	case reflect.Bool:
		return protowire.VarintType, func(into reflect.Value, number uint64, _ []byte) error {
			into.SetBool(number != 0)
			return nil
		}
	case reflect.Int32:
		return protowire.VarintType, func(into reflect.Value, number uint64, _ []byte) error {
			into.SetInt(int64(int32(number)))
			return nil
		}
	case reflect.Int64:
		return protowire.VarintType, func(into reflect.Value, number uint64, _ []byte) error {
			into.SetInt(int64(number))
			return nil
		}
	case reflect.Struct:
		t := tableOf(r, of, u)
		return protowire.BytesType, func(into reflect.Value, _ uint64, data []byte) error {
			return t.decode(into, data)
		}
	case reflect.Pointer:
		all := newShelf(r, of.Elem())
		wire, set := setterOf(r, of.Elem(), u)
		return wire, func(into reflect.Value, number uint64, data []byte) error {
			if into.IsNil() {
				into.Set(all.one())
			}
			return set(into.Elem(), number, data)
		}
	case reflect.Slice:
		set := listSetter(r, of.Elem(), u)
		if of == reflect.TypeFor[[]corev1.EnvVar]() {
			set = variablesSetter(set)
		}
		return protowire.BytesType, set
	}
	panic(fmt.Sprintf("%s is a %v", u.path, of))
}

func textSetter(u *used) setter {
	longest := u.limit
	if longest == 0 {
		longest = maxText
	}
	return func(into reflect.Value, _ uint64, data []byte) error {
		if len(data) > longest {
			return fmt.Errorf("its %s is longer than %d bytes", u.path, longest)
		}
		into.SetString(lend(data))
		return nil
	}
}

func listSetter(r *room, of reflect.Type, u *used) setter {
	all := newShelf(r, of)
	element := *u
	if of.Kind() == reflect.String {
		element.limit = 0
	}
	_, set := setterOf(r, of, &element)
	return func(into reflect.Value, number uint64, data []byte) error {
		e := all.grow(into)
		if err := set(e, number, data); err != nil {
			return err
		}
		if into.Len() > u.limit || all.count() > u.total {
			return fmt.Errorf("it has more than %d %s", min(u.limit, u.total), u.path)
		}
		return nil
	}
}

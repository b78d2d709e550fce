package kube

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// maxNesting is how deep JSON is decoded by encoding/json and its like.
const maxNesting = 10000

// measureJSON is the walkFunc of JSON. What is no JSON does not matter: it is not decoded.
func measureJSON(m *measure, t reflect.Type, data []byte) {
	w := &jsonWalk{measure: m, data: data}
	w.value(t)
}

type jsonWalk struct {
	*measure
	data  []byte
	at    int
	depth int
}

// next skips white space, and returns what comes next without taking it; 0: nothing.
func (w *jsonWalk) next() byte {
	for ; w.at < len(w.data); w.at++ {
		switch c := w.data[w.at]; c {
		case ' ', '\t', '\n', '\r':
		default:
			return c
		}
	}
	return 0
}

func (w *jsonWalk) take() { w.at = min(w.at+1, len(w.data)) }

// value takes one value, which becomes a t. Nil: it is not decoded.
func (w *jsonWalk) value(t reflect.Type) {
	c := w.next()
	w.depth++
	defer func() { w.depth-- }()
	if w.depth > maxNesting {
		w.at = len(w.data)
		return
	}
	if t == nil || c == 'n' {
		w.skip(0)
		return
	}
	t = w.object(t)
	switch kind := t.Kind(); {
	case t == quantityType:
		begin := w.at
		w.skip(0)
		w.parse(string(w.data[begin:w.at]))
	case kind == reflect.Interface:
		w.size += anySize
		w.skip(anySize)
	case c == '"':
		w.text(len(w.quoted()))
	case c == '[' && (kind == reflect.Slice || kind == reflect.Array):
		w.list(t.Elem())
	case c == '{' && kind == reflect.Map:
		w.table(t)
		w.members(func(key []byte) reflect.Type {
			w.entry(t)
			w.text(len(key))
			return t.Elem()
		})
	case c == '{' && kind == reflect.Struct:
		begin, fields := w.at, fieldsOf(t)
		w.members(func(key []byte) reflect.Type { return fields.named(key) })
		if fields.unmarshals { // parts are copied, and decoded later
			w.text(w.at - begin)
		}
	default:
		w.skip(0)
	}
}

func (w *jsonWalk) list(t reflect.Type) {
	w.take()
	for c := w.next(); c != 0 && c != ']'; c = w.next() {
		if c == ',' {
			w.take()
			continue
		}
		begin := w.at
		w.element(t)
		w.own(t, func() int { w.value(t); return w.at - begin })
		if w.at == begin { // no value
			w.take()
		}
	}
	w.take()
}

// members takes an object. typeOf gets each key and returns what its value becomes.
func (w *jsonWalk) members(typeOf func(key []byte) reflect.Type) {
	w.take()
	for c := w.next(); c != 0 && c != '}'; c = w.next() {
		if c != '"' { // a comma
			w.take()
			continue
		}
		t := typeOf(w.quoted())
		if w.next() == ':' {
			w.take()
		}
		w.value(t)
	}
	w.take()
}

// skip takes one value without looking into it, and counts so many bytes for each element
// and field.
func (w *jsonWalk) skip(each int64) {
	for depth := 0; w.at < len(w.data); {
		switch c := w.next(); c {
		case '"':
			w.quoted()
		case '{', '[':
			depth++
			w.take()
			w.size += each
		case '}', ']':
			if depth == 0 {
				return // what is around the value ends: there is none
			}
			depth--
			w.take()
		case ',', ':':
			if depth == 0 {
				return
			}
			w.take()
			w.size += each
			continue
		default:
			w.literal()
		}
		if depth == 0 {
			return
		}
	}
}

// literal takes a number, or a word.
func (w *jsonWalk) literal() {
	for w.take(); w.at < len(w.data); w.at++ {
		switch w.data[w.at] {
		case ' ', '\t', '\n', '\r', ',', ':', '{', '}', '[', ']', '"':
			return
		}
	}
}

// quoted takes a text, and returns what is between its quotation marks.
func (w *jsonWalk) quoted() []byte {
	begin := w.at + 1
	for end := begin; ; end++ {
		n := bytes.IndexByte(w.data[min(end, len(w.data)):], '"')
		if n < 0 {
			w.at = len(w.data)
			return w.data[min(begin, len(w.data)):]
		}
		end += n
		text := w.data[begin:end]
		if escapes := len(text) - len(bytes.TrimRight(text, `\`)); escapes%2 == 0 {
			w.at = end + 1
			return text
		}
	}
}

// plain returns a key or text without escapes.
func plain(text []byte) []byte {
	if bytes.IndexByte(text, '\\') < 0 {
		return text
	}
	var s string
	_ = json.Unmarshal(append(append([]byte{'"'}, text...), '"'), &s) // or it is no text
	return []byte(s)
}

// interpretJSON returns what kind an object is, as client-go's JSON decoder finds it.
func interpretJSON(data []byte) (kind schema.GroupVersionKind) {
	w := &jsonWalk{measure: &measure{}, data: data}
	if w.next() != '{' {
		return kind
	}
	var version, name string
	w.members(func(key []byte) reflect.Type {
		var into *string
		switch key := string(plain(key)); {
		case strings.EqualFold(key, "kind"):
			into = &name
		case strings.EqualFold(key, "apiVersion"):
			into = &version
		default:
			return nil
		}
		ahead := *w
		if ahead.next() == ':' {
			ahead.take()
		}
		if ahead.next() == '"' {
			*into = string(plain(ahead.quoted()))
		}
		return nil
	})
	return schema.FromAPIVersionAndKind(version, name)
}

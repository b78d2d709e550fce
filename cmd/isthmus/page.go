package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"reflect"
	"strings"
)

// pageBuffer is how much of a page is in memory at a time, besides its longest element.
const pageBuffer = 32 << 10

// pageList is a list in a page whose elements are made one by one, when they are written.
type pageList interface {
	Len() int
	At(i int) any // not used any more once there is another
}

// servePage answers with a page as indented JSON. A page is a list, or a struct whose
// fields may be lists.
func servePage(w http.ResponseWriter, page any) { servePaced(w, page, func() {}) }

// servePaced is servePage. It calls rest, which may wait, after each element of a list.
func servePaced(w http.ResponseWriter, page any, rest func()) {
	w.Header().Set("Content-Type", "application/json")
	_ = writePage(w, page, rest) // no page has a value that can't be encoded; the client may have gone
}

// writePage writes what json.MarshalIndent returns, and a newline, but encodes a list's
// elements one by one: the text of thousands of services is never there as a whole.
func writePage(to io.Writer, page any, rest func()) error {
	w := &pageWriter{out: bufio.NewWriterSize(to, pageBuffer), rest: rest}
	w.encoder = json.NewEncoder(&w.encoded)
	v := reflect.ValueOf(page)
	if v.Kind() == reflect.Struct {
		w.object(v)
	} else {
		w.value(v, "")
	}
	w.text("\n")
	if w.err != nil {
		return w.err
	}
	return w.out.Flush()
}

// pageWriter writes until the first error.
type pageWriter struct {
	out  *bufio.Writer
	err  error
	rest func()

	encoder *json.Encoder // to encoded: what they need they use again, element by element
	encoded bytes.Buffer
}

const pageIndent = "  "

// object writes a struct, which embeds none and has no options in its tags but omitempty and
// omitzero, which mean the same here.
func (w *pageWriter) object(v reflect.Value) {
	separator := "{\n"
	for i := range v.NumField() {
		name, option, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		if name == "-" || option != "" && v.Field(i).IsZero() {
			continue
		}
		w.text(separator + pageIndent + `"` + name + `": `)
		w.value(v.Field(i), pageIndent)
		separator = ",\n"
	}
	w.text("\n}")
}

// value writes a value whose line has this indent.
func (w *pageWriter) value(v reflect.Value, indent string) {
	if list, ok := v.Interface().(pageList); ok {
		w.list(list.Len(), list.At, indent)
		return
	}
	if v.Kind() != reflect.Slice || v.IsNil() {
		w.element(v.Interface(), indent)
		return
	}
	w.list(v.Len(), func(i int) any { return v.Index(i).Addr().Interface() }, indent)
}

// list writes a list of n elements.
func (w *pageWriter) list(n int, at func(i int) any, indent string) {
	if n == 0 {
		w.text("[]")
		return
	}
	separator := "[\n"
	for i := 0; i < n && w.err == nil; i++ {
		w.text(separator + indent + pageIndent)
		w.element(at(i), indent+pageIndent)
		separator = ",\n"
		w.rest()
	}
	w.text("\n" + indent + "]")
}

// element writes a value as a whole.
func (w *pageWriter) element(v any, indent string) {
	if w.err != nil {
		return
	}
	w.encoded.Reset()
	w.encoder.SetIndent(indent, pageIndent)
	if w.err = w.encoder.Encode(v); w.err == nil {
		_, w.err = w.out.Write(bytes.TrimSuffix(w.encoded.Bytes(), []byte("\n")))
	}
}

func (w *pageWriter) text(s string) {
	if w.err == nil {
		_, w.err = w.out.WriteString(s)
	}
}

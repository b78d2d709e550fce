package main

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"reflect"
	"strings"
)

// pageBuffer is how much of a page is in memory at a time, besides its longest element.
const pageBuffer = 32 << 10

// servePage answers with a page as indented JSON. A page is a list, or a struct whose
// fields may be lists.
func servePage(w http.ResponseWriter, page any) {
	w.Header().Set("Content-Type", "application/json")
	_ = writePage(w, page) // no page has a value that can't be encoded; the client may have gone
}

// writePage writes what json.MarshalIndent returns, and a newline, but encodes a list's
// elements one by one: the text of thousands of services is never there as a whole.
func writePage(to io.Writer, page any) error {
	w := &pageWriter{out: bufio.NewWriterSize(to, pageBuffer)}
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
	out *bufio.Writer
	err error
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
	if v.Kind() != reflect.Slice || v.Len() == 0 {
		w.element(v, indent)
		return
	}
	separator := "[\n"
	for i := range v.Len() {
		w.text(separator + indent + pageIndent)
		w.element(v.Index(i), indent+pageIndent)
		separator = ",\n"
	}
	w.text("\n" + indent + "]")
}

// element writes a value as a whole.
func (w *pageWriter) element(v reflect.Value, indent string) {
	if w.err != nil {
		return
	}
	var text []byte
	if text, w.err = json.MarshalIndent(v.Interface(), indent, pageIndent); w.err == nil {
		_, w.err = w.out.Write(text)
	}
}

func (w *pageWriter) text(s string) {
	if w.err == nil {
		_, w.err = w.out.WriteString(s)
	}
}

package main

import (
	"encoding/json"
	"net/http"
)

// maxKept is how large an explanation may be, in bytes: four times what one of 500 addresses has with long texts.
const maxKept = 16 << 20

// encodedPage is a page as indented JSON, or why there is none.
type encodedPage struct {
	text []byte
	err  error
}

func encodePage(page any) encodedPage {
	text, err := json.MarshalIndent(page, "", "  ")
	return encodedPage{append(text, '\n'), err}
}

func (p encodedPage) serve(w http.ResponseWriter) {
	if p.err != nil {
		http.Error(w, "the page can't be written: "+printable(p.err.Error()), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write(p.text) // the client may have gone
}

// sharedPage returns a handler of a page that its readers share.
func sharedPage(page func() any) http.Handler {
	s := newShared(0, restFor, func() encodedPage { return encodePage(page()) })
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { s.get().value.serve(w) })
}

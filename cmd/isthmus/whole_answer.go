package main

import (
	"bytes"
	"errors"
	"net/http"
)

// maxWhole is how large an answer may be that is made as a whole, in bytes: four times what one
// with as many addresses as a page lists has. Texts of clusters can make it as large as they like.
const maxWhole = 16 << 20

// wholeAnswer is an answer that is made before its client gets any of it.
type wholeAnswer struct {
	header http.Header
	code   int // 0: not known yet
	body   bytes.Buffer
	over   bool // there was more than maxWhole
}

// Header implements http.ResponseWriter.
func (a *wholeAnswer) Header() http.Header { return a.header }

// WriteHeader implements http.ResponseWriter.
func (a *wholeAnswer) WriteHeader(code int) {
	if a.code == 0 {
		a.code = code
	}
}

// Write implements http.ResponseWriter.
func (a *wholeAnswer) Write(p []byte) (int, error) {
	if a.over = a.over || a.body.Len()+len(p) > maxWhole; a.over {
		a.body = bytes.Buffer{}
		return 0, errors.New("too large")
	}
	a.WriteHeader(http.StatusOK)
	return a.body.Write(p)
}

// send sends the answer, or hint instead of one that is too large.
func (a *wholeAnswer) send(w http.ResponseWriter, hint string) {
	if a.over {
		http.Error(w, hint, http.StatusInsufficientStorage)
		return
	}
	a.WriteHeader(http.StatusOK)
	w.WriteHeader(a.code)
	_, _ = a.body.WriteTo(w) // the client may have gone
}

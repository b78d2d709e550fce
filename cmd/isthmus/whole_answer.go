package main

import (
	"bytes"
	"net/http"
)

// wholeAnswer is an answer that is made before its client gets any of it.
type wholeAnswer struct {
	header http.Header
	code   int
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (a *wholeAnswer) Header() http.Header { return a.header }

// WriteHeader implements http.ResponseWriter.
func (a *wholeAnswer) WriteHeader(code int) { a.code = code }

// Write implements http.ResponseWriter.
func (a *wholeAnswer) Write(p []byte) (int, error) { return a.body.Write(p) }

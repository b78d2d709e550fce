package main

import (
	"errors"
	"net/http"
)

// maxWhole is how large an answer may be that is made as a whole, in bytes: four times what one
// with as many addresses as a page lists has. Texts of clusters can make it as large as they like.
const maxWhole = 16 << 20

// wholePiece is how much of it is in one piece, in bytes. One buffer that grows would leave as much
// again as garbage.
const wholePiece = 64 << 10

// wholeAnswer is an answer that is made before its client gets any of it.
type wholeAnswer struct {
	header http.Header
	code   int // 0: not known yet
	pieces [][]byte
	size   int
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
	if a.over = a.over || a.size+len(p) > maxWhole; a.over {
		a.pieces = nil
		return 0, errors.New("too large")
	}
	a.WriteHeader(http.StatusOK)
	a.size += len(p)
	for rest := p; len(rest) > 0; {
		last := len(a.pieces) - 1
		if last < 0 || len(a.pieces[last]) == wholePiece {
			a.pieces = append(a.pieces, make([]byte, 0, wholePiece))
			last++
		}
		n := min(len(rest), wholePiece-len(a.pieces[last]))
		a.pieces[last], rest = append(a.pieces[last], rest[:n]...), rest[n:]
	}
	return len(p), nil
}

// send sends the answer, or hint instead of one that is too large.
func (a *wholeAnswer) send(w http.ResponseWriter, hint string) {
	if a.over {
		http.Error(w, hint, http.StatusInsufficientStorage)
		return
	}
	a.WriteHeader(http.StatusOK)
	w.WriteHeader(a.code)
	for _, piece := range a.pieces {
		if _, err := w.Write(piece); err != nil {
			return // the client has gone
		}
	}
}

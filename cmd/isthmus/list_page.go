package main

import (
	"bytes"
	"fmt"
	"net/http"
	"path"
	"time"

	"isthmus/cmd/isthmus/internal/lists"
)

const (
	listFor     = time.Second // at least: for so long a snapshot is good
	listRestFor = 50          // times as long as making it has taken, if that is more: lists are read all the time
)

// listPages answers view=list of the pages that have it: lines that are searched, sorted and cut. The
// page at / shows them. All clients get theirs from one snapshot.
type listPages struct {
	snapshots *shared[*lists.Snapshot]
}

func newListPages(content func() lists.Content) *listPages {
	return &listPages{newShared(listFor, listRestFor, func() *lists.Snapshot { return lists.NewSnapshot(content()) })}
}

// or returns a handler of a page and its list, which the last element of the path names.
func (l *listPages) or(page http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch view := r.URL.Query().Get("view"); view {
		case "":
			page.ServeHTTP(w, r)
		case "list":
			l.serve(w, r)
		default:
			http.Error(w, fmt.Sprintf("view is %.20q: give list, or no view for all there is", view), http.StatusBadRequest)
		}
	})
}

func (l *listPages) serve(w http.ResponseWriter, r *http.Request) {
	list := path.Base(r.URL.Path)
	q, err := lists.ParseQuery(list, r.URL.Query())
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	m := l.snapshots.get()
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("ETag", fmt.Sprintf(`"%d"`, m.number)) // of all lists: queries differ by their URL
	if r.Header.Get("If-None-Match") == w.Header().Get("ETag") {
		w.WriteHeader(http.StatusNotModified) // before an answer is made
		return
	}
	answer, err := m.value.Answer(list, q)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(answer))
}

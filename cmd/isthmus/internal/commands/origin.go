package commands

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"isthmus/internal/adminapi"
	"isthmus/internal/text"
)

// Origin contains the clock time, page format and build of the replica that sent a page.
type Origin struct {
	At     time.Time      // by the replica's clock
	Format string         // format number of the page; empty if the replica does not send it
	Build  adminapi.Build // build of the replica; zero if unknown
}

// Unchecked returns an error message if this build of the program does not support the format of
// the page, and an empty string otherwise.
func (o Origin) Unchecked(own adminapi.Build) string {
	known := strconv.Itoa(adminapi.Format)
	if o.Format == known {
		return ""
	}
	why := fmt.Sprintf("the replica serves the debug API in format %s, but this program supports only format %s",
		text.Quoted(o.Format), known)
	if o.Format == "" {
		why = "the replica is older than this program and does not report the format of its debug API"
	}
	return fmt.Sprintf("%s: its version is %s, and the version of this program is %s",
		why, describeBuild(o.Build), describeBuild(own))
}

// OtherFormat returns an error if the page has a format number that this build of the program does
// not support. In an unsupported format, fields may have different meanings. Pages from older
// replicas have no format number. Except for some missing fields, pages from older replicas have
// the current format.
func (o Origin) OtherFormat(own adminapi.Build) error {
	if unchecked := o.Unchecked(own); o.Format != "" && unchecked != "" {
		return fmt.Errorf("the page cannot be evaluated: %s", unchecked)
	}
	return nil
}

func writeUnchecked(w io.Writer, unchecked string) {
	if unchecked != "" {
		fmt.Fprintf(w, "Not checked: %s\n", unchecked)
	}
}

// describeBuild returns the version, and the commit if the version is not a release.
func describeBuild(b adminapi.Build) string {
	commit, _, _ := strings.Cut(b.Commit, " ") // without its time
	if b.Version == "(devel)" && commit != "" {
		return fmt.Sprintf("%s of commit %s", b.Version, Printable(commit))
	}
	return Printable(cmp.Or(b.Version, "not known"))
}

func originOf(h http.Header) Origin {
	from := Origin{Format: h.Get(adminapi.FormatHeader)}
	from.Build.Version = h.Get(adminapi.VersionHeader)
	from.Build.Commit = h.Get(adminapi.CommitHeader)
	at, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		at = time.Now()
	}
	from.At = at.Local()
	return from
}

// versionError reports that a replica with a different version lacks a page, or serves a page that
// this program cannot decode.
type versionError struct {
	status    int
	what      string // the problem
	unchecked string // names both versions
}

func (e versionError) Error() string {
	return e.what + ": " + e.unchecked + "\n  Update the replica or this program, whichever is older"
}

// byVersion replaces a pageError with a versionError if the version of the replica explains the
// error.
func byVersion(err error, from Origin, own adminapi.Build) error {
	page, ok := errors.AsType[pageError](err)
	if !ok || from.Build.Version == "" || page.status != http.StatusOK && page.status != http.StatusNotFound {
		return err
	}
	if unchecked := from.Unchecked(own); unchecked != "" {
		return versionError{page.status, page.what, unchecked}
	}
	return err
}

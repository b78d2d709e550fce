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

// Origin is what an answer of a replica says of itself.
type Origin struct {
	At     time.Time      // by the replica's clock
	Format string         // of the page; empty: the replica does not say
	Build  adminapi.Build // of the replica; empty: not known
}

// Unchecked returns why a program of this build can't judge the page: it does not know the format.
// It is empty if the program does.
func (o Origin) Unchecked(own adminapi.Build) string {
	known := strconv.Itoa(adminapi.Format)
	if o.Format == known {
		return ""
	}
	why := fmt.Sprintf("its pages have the format %s, and this program knows the format %s",
		text.Quoted(o.Format), known)
	if o.Format == "" {
		why = "it is older than this program, and its pages have no format number"
	}
	return fmt.Sprintf("%s: its version is %s, that of this program %s",
		why, describeBuild(o.Build), describeBuild(own))
}

// OtherFormat returns an error if the page has a format number that a program of this build does
// not know: the page may mean something else. The page of an older replica, which has no number, at
// most lacks fields.
func (o Origin) OtherFormat(own adminapi.Build) error {
	if unchecked := o.Unchecked(own); o.Format != "" && unchecked != "" {
		return fmt.Errorf("the page can't be judged: %s", unchecked)
	}
	return nil
}

// writeUnchecked writes a line that says why the program can't judge a page. It writes nothing if
// the program can.
func writeUnchecked(w io.Writer, unchecked string) {
	if unchecked != "" {
		fmt.Fprintf(w, "Not checked: %s\n", unchecked)
	}
}

// describeBuild returns the version, and the commit if the version does not name a release.
func describeBuild(b adminapi.Build) string {
	commit, _, _ := strings.Cut(b.Commit, " ") // without its time
	if b.Version == "(devel)" && commit != "" {
		return fmt.Sprintf("%s of commit %s", b.Version, Printable(commit))
	}
	return Printable(cmp.Or(b.Version, "not known"))
}

// originOf reads the headers of an answer.
func originOf(h http.Header) Origin {
	from := Origin{Format: h.Get(adminapi.FormatHeader)}
	from.Build.Version, from.Build.Commit = h.Get(adminapi.VersionHeader), h.Get(adminapi.CommitHeader)
	at, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		at = time.Now()
	}
	from.At = at.Local()
	return from
}

// versionError is that a replica of another version lacks a page, or has a page that this program
// can't decode.
type versionError struct {
	status    int
	what      string // what is wrong
	unchecked string // has the two versions
}

func (e versionError) Error() string {
	return e.what + ": " + e.unchecked + "\n  Use the same version of both: update the older one"
}

// byVersion replaces the error of a request by a versionError if the version of the replica
// explains the error. own is the build of the program.
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

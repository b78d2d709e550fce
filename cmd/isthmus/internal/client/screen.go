package client

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// content is what a screen shows.
type content interface {
	// snapshot returns the content for -o json, to be encoded as one line.
	snapshot(at time.Time, authority string) any
	// table returns the content for people: a headline, then lines that are indented.
	table() (headline string, lines []byte, err error)
}

// screen prints contents, each that differs from the one before.
type screen struct {
	w         io.Writer
	authority string
	asJSON    bool // one line of JSON a state, instead of a table
	redraw    bool // each table replaces the one before, as a terminal can
	last      []byte
}

// show prints the content if it differs from the last one.
func (s *screen) show(c content, now time.Time) error {
	text, err := json.Marshal(c.snapshot(time.Time{}, s.authority))
	if err != nil {
		return fmt.Errorf("print the state: %w", err)
	}
	if bytes.Equal(text, s.last) {
		return nil
	}
	s.last = text
	if text, err = s.render(c, now); err != nil {
		return fmt.Errorf("print the state: %w", err)
	}
	if _, err := s.w.Write(text); err != nil {
		return fmt.Errorf("print the state: %w", err)
	}
	return nil
}

func (s *screen) render(c content, now time.Time) ([]byte, error) {
	if s.asJSON {
		text, err := json.Marshal(c.snapshot(now, s.authority))
		return append(text, '\n'), err
	}
	headline, lines, err := c.table()
	text := fmt.Sprintf("%s  %s: %s\n%s", now.Format("15:04:05.000"), printable(s.authority), printable(headline), lines)
	if s.redraw {
		text = "\x1b[H\x1b[2J" + text
	}
	return []byte(text), err
}

// printable returns s as a cell of a table: quoted if it has characters that a
// terminal might obey, since servers send what they like, and "-" if it is empty.
func printable(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(s)
	}
	return cmp.Or(s, "-")
}

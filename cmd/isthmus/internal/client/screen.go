package client

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"time"
)

// content is what a screen shows.
type content interface {
	// snapshot returns the content for -o json, to be encoded as one line.
	snapshot(at time.Time, authority string) any
	// table returns the content for people: a headline, then lines that are indented.
	table() (headline string, lines []byte)
}

// passing is content of which some is of the moment, such as the time of the last event.
type passing interface {
	// lasting returns the rest: a change of it is worth another line.
	lasting() any
}

// screen prints contents, each that differs from the one before.
type screen struct {
	w         io.Writer
	authority string
	asJSON    bool // one line of JSON a state, instead of a table
	redraw    bool // each table replaces the one before, as a terminal can
	last      []byte
}

// show prints the content if it differs from the last one, in what lasts of it unless
// it replaces that.
func (s *screen) show(c content, now time.Time) error {
	compared := c.snapshot(time.Time{}, s.authority)
	if p, ok := c.(passing); ok && !s.redraw {
		compared = p.lasting()
	}
	text, err := json.Marshal(compared)
	if err != nil {
		return fmt.Errorf("print the state: %w", err)
	}
	if bytes.Equal(text, s.last) {
		return nil
	}
	s.last = text
	if s.asJSON {
		return printJSON(s.w, c.snapshot(now, s.authority))
	}
	headline, lines := c.table()
	shown := fmt.Sprintf("%s  %s: %s\n%s", now.Format("15:04:05.000"), Printable(s.authority), Printable(headline), lines)
	if s.redraw {
		shown = clearScreen + shown
	}
	if err := printText(s.w, shown); err != nil {
		return fmt.Errorf("print the state: %w", err)
	}
	return nil
}

// printJSON prints a value as one line.
func printJSON(w io.Writer, v any) error {
	line, err := JSONLine(v)
	if err == nil {
		_, err = w.Write(line)
	}
	if err != nil {
		return fmt.Errorf("print it as JSON: %w", err)
	}
	return nil
}

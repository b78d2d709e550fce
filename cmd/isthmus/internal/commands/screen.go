package commands

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"time"
)

// screen prints what a verb has to show, once or again and again.
type screen struct {
	w      io.Writer
	asJSON bool   // one line of JSON a state, instead of a table
	redraw bool   // each table replaces the one before, as a terminal can
	last   []byte // that changed was asked about
}

// changed reports whether a state differs from the one before, in what it is given of it.
func (s *screen) changed(state any) (bool, error) {
	text, err := json.Marshal(state)
	if err != nil {
		return false, fmt.Errorf("print the state: %w", err)
	}
	same := bytes.Equal(text, s.last)
	s.last = text
	return !same, nil
}

// show prints a state: output for programs, or the table, which is a headline and lines that are indented, under what it is of.
func (s *screen) show(at time.Time, of string, output any, table func() (headline string, lines []byte)) error {
	if s.asJSON {
		return printJSON(s.w, output)
	}
	headline, lines := table()
	shown := fmt.Sprintf("%s  %s: %s\n%s", at.Format("15:04:05.000"), Printable(of), Printable(headline), lines)
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

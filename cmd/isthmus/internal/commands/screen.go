package commands

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/term"

	"isthmus/internal/text"
)

// screen prints what a command has to show, once or again and again.
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

// show prints a state: output for programs, or the table, which is a headline and lines that are
// indented, under what it is of.
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

// clearScreen moves the cursor of a terminal to its start, and clears it.
const clearScreen = "\x1b[H\x1b[2J"

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// wantsColour reports whether what is written may have colours.
func wantsColour(w io.Writer) bool {
	return os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && isTerminal(w)
}

// printText prints what has been painted, without colours unless w takes them.
func printText(w io.Writer, text string) error {
	if !wantsColour(w) {
		text = withoutColours.Replace(text)
	}
	_, err := io.WriteString(w, text)
	return err
}

// Printable returns s as a cell of a table: quoted if it has characters that a
// terminal might obey, since servers send what they like, and "-" if it is empty.
func Printable(s string) string {
	if s == "" {
		return "-"
	}
	return text.Quoted(s)
}

// JSONLine returns a value as a line of JSON, in which characters that a terminal might
// obey are escaped.
func JSONLine(v any) ([]byte, error) {
	encoded, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	line := make([]byte, 0, len(encoded)+1)
	for _, r := range string(encoded) {
		if !text.Unprintable(r) {
			line = utf8.AppendRune(line, r)
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			line = fmt.Appendf(line, `\u%04x`, unit)
		}
	}
	return append(line, '\n'), nil
}

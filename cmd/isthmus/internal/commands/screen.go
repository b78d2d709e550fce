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

type screen struct {
	w      io.Writer
	asJSON bool   // print each state as one line of JSON instead of a table
	redraw bool   // each table replaces the previous one on the terminal
	last   []byte // the last argument of changed, as JSON
}

func (s *screen) changed(state any) (bool, error) {
	text, err := json.Marshal(state)
	if err != nil {
		return false, fmt.Errorf("print the state: %w", err)
	}
	same := bytes.Equal(text, s.last)
	s.last = text
	return !same, nil
}

// show prints a state as JSON, or as a table with a heading and indented lines. The heading starts
// with a time and the name of an object.
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

const clearScreen = "\x1b[H\x1b[2J"

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

func wantsColor(w io.Writer) bool {
	return os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && isTerminal(w)
}

// printText prints a string that may contain colors. If w does not support colors, printText
// omits the colors.
func printText(w io.Writer, text string) error {
	if !wantsColor(w) {
		text = withoutColors.Replace(text)
	}
	_, err := io.WriteString(w, text)
	return err
}

// Printable formats s for printing in a table cell. Because servers may send any text, Printable
// quotes s if s contains characters that a terminal might interpret. Printable returns "-" for an
// empty string.
func Printable(s string) string {
	if s == "" {
		return "-"
	}
	return text.Quoted(s)
}

// JSONLine encodes a value as one line of JSON and escapes characters that a terminal might
// interpret.
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

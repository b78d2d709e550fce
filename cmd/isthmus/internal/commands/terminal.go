package commands

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/term"

	"isthmus/internal/text"
)

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

package commands

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/duration"

	"isthmus/internal/adminapi"
)

// A color is a terminal escape sequence.
type color string

const (
	plain  color = ""
	red    color = "\x1b[31m"
	green  color = "\x1b[32m"
	yellow color = "\x1b[33m"
)

// paint adds a color to a string, which must not contain control characters. If the output does not
// support colors, printText removes the color.
func (c color) paint(text string) string {
	if c == plain {
		return text
	}
	return string(c) + text + "\x1b[0m"
}

var withoutColors = strings.NewReplacer(string(red), "", string(green), "", string(yellow), "", "\x1b[0m", "")

var colors = map[string]color{
	"ready": green, "alive": green, "pending": yellow, adminapi.LastResort: yellow, adminapi.Withdrawn: yellow,
	"unreachable": red, "stale": red, "rejected": red, "unlinked": red, "dead": red,
}

// colored returns a table cell that shows a state or level in the matching color.
func colored(word string) cell { return cell{word, colors[word]} }

type cell struct {
	text  string
	color color
}

// cells is a table. Each column is as wide as its widest cell.
type cells struct{ rows [][]cell }

// row adds a row. Each value is a cell, a string, or another value that [fmt.Sprint] formats.
func (t *cells) row(values ...any) {
	row := make([]cell, len(values))
	for i, v := range values {
		switch v := v.(type) {
		case cell:
			row[i] = v
		case string:
			row[i].text = v
		default:
			row[i].text = fmt.Sprint(v)
		}
	}
	t.rows = append(t.rows, row)
}

// write appends the indented rows to b.
func (t *cells) write(b *bytes.Buffer, indent string) {
	var widths []int
	for _, row := range t.rows {
		for i, c := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(Printable(c.text)))
		}
	}
	for _, row := range t.rows {
		b.WriteString(indent)
		for i, c := range row {
			text := Printable(c.text)
			padding := widths[i] + 2 - utf8.RuneCountInString(text)
			b.WriteString(c.color.paint(text))
			if i < len(row)-1 {
				b.WriteString(strings.Repeat(" ", padding))
			}
		}
		b.WriteByte('\n')
	}
}

// writeUnder appends a title and the table, unless the table contains only a header row.
func (t *cells) writeUnder(b *bytes.Buffer, title string) {
	if len(t.rows) > 1 {
		b.WriteString(title)
		t.write(b, "  ")
	}
}

func joined(by string, texts ...string) string {
	return strings.Join(slices.DeleteFunc(texts, func(s string) bool { return s == "" }), by)
}

// maxNames limits how many names from a list appear on one line.
const maxNames = 6

// maxLines limits the number of lines in each list, except in lists of objects that the user
// requested by name.
const maxLines = 20

func writeList(b *bytes.Buffer, title string, lines []string, limit int) {
	if len(lines) == 0 {
		return
	}
	fmt.Fprintf(b, "%s:\n", title)
	for _, line := range lines[:min(limit, len(lines))] {
		fmt.Fprintf(b, "  %s\n", Printable(line))
	}
	if more := len(lines) - limit; more > 0 {
		fmt.Fprintf(b, "  … and %d more: -o json has all\n", more)
	}
}

// age formats the time that has passed since the given time, as kubectl does. For the zero time,
// the result is "".
func age(now, then time.Time) string {
	if then.IsZero() {
		return ""
	}
	return duration.HumanDuration(max(0, now.Sub(then)))
}

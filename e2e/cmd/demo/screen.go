package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// screen prints the output of the demo. On a terminal, it redraws the row of the current step after
// each change. Otherwise it prints each row once.
type screen struct {
	terminal bool
	fail     func(error) // ends the demo after a failed write

	mu  sync.Mutex
	out io.Writer
}

func newScreen(out io.Writer) *screen {
	s := &screen{out: out}
	if file, ok := out.(*os.File); ok && os.Getenv("TERM") != "dumb" {
		info, err := file.Stat()
		s.terminal = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	return s
}

const (
	bold, dim, red, green, plain = "\x1b[1m", "\x1b[2m", "\x1b[31m", "\x1b[32m", "\x1b[0m"
	clearLine                    = "\r\x1b[K"

	rowFormat   = "  %-40s%7s%7s%7s %10s  %s"
	tiersFormat = "  %-40s%7s%7s%7s%12s %10s  %s" // for a table with tiers
)

func (s *screen) style(style, text string) string {
	if !s.terminal {
		return text
	}
	return style + text + plain
}

func (s *screen) print(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := fmt.Fprintf(s.out, format, args...); err != nil && s.fail != nil {
		s.fail(fmt.Errorf("standard output: %w", err))
	}
}

func (s *screen) done(what string, took time.Duration) {
	s.print("  %-61s %10s\n", what, short(took))
}

func (s *screen) head() {
	s.print("%s\n", s.style(dim, fmt.Sprintf(rowFormat, "", west, east, north, "seen after", "flaps")))
}

func (s *screen) tiersHead() {
	s.print("%s\n", s.style(dim, fmt.Sprintf(tiersFormat, "", west, east, north, "tiers", "seen after", "flaps")))
}

// row is a row of the table.
type row struct {
	title         string
	before, now   []int
	tiers         string // empty if the table has no tiers
	when, verdict string
}

func (s *screen) format(r row) string {
	cells := []any{r.title}
	for i, n := range r.now {
		cell := fmt.Sprintf("%7d", n)
		if i < len(r.before) && r.before[i] != n {
			cell = s.style(bold, cell)
		}
		cells = append(cells, cell)
	}
	format := rowFormat
	if r.tiers != "" {
		format, cells = tiersFormat, append(cells, r.tiers)
	}
	return strings.TrimRight(fmt.Sprintf(format, append(cells, r.when, r.verdict)...), " ")
}

// live draws a row that may still change, only on a terminal.
func (s *screen) live(r row) {
	if s.terminal {
		s.print("%s%s", clearLine, s.format(r))
	}
}

func (s *screen) finish(r row) {
	if s.terminal {
		s.print("%s", clearLine)
		color := green
		if r.verdict != "none" {
			color = red
		}
		r.verdict = s.style(color, r.verdict)
	}
	s.print("%s\n", s.format(r))
}

// note prints a remark about the previous row.
func (s *screen) note(text string) { s.print("%s\n", s.style(dim, "    "+text)) }

func short(d time.Duration) string {
	if d < time.Second {
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}

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
	table() (headline string, lines []byte, err error)
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
		return jsonLine(c.snapshot(now, s.authority))
	}
	headline, lines, err := c.table()
	text := fmt.Sprintf("%s  %s: %s\n%s", now.Format("15:04:05.000"), printable(s.authority), printable(headline), lines)
	if s.redraw {
		text = clearScreen + text
	}
	return []byte(text), err
}

package decode

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"isthmus/internal/guard"
)

const (
	// maxValues is the maximum number of array elements in a JSON document. The same maximum
	// applies to the number of object members. An element or a member takes as little as 3 bytes of
	// JSON, but may become a struct of 100 bytes.
	maxValues = 50_000
	// maxBlanks is the maximum number of bytes of white space between two values. API servers send
	// at most one byte of white space between two values.
	maxBlanks = 64 << 10
)

var (
	errNoJSON = errors.New(
		"the API server's response is not valid Kubernetes API JSON: check that the URL points to an API server",
	)
	errBlanks = fmt.Errorf(
		"the API server sent more than %d KiB of white space: check that the URL points to an API "+
			"server", maxBlanks>>10,
	)
)

// The values type reads JSON values as they arrive. Each byte is scanned only once to find the end
// of a value. Syntax errors are not detected until a value is decoded.
type values struct{ *input }

// peek skips white space and returns the next byte without consuming it.
func (v values) peek() (byte, error) {
	for range maxBlanks {
		c, err := v.ReadByte()
		if err != nil {
			return 0, err
		}
		if !isBlank(c) {
			return c, v.UnreadByte()
		}
	}
	return 0, errBlanks
}

// expect skips white space, checks that the wanted byte comes next, and consumes that byte. If the
// next byte differs from the wanted byte, expect returns an error.
func (v values) expect(wanted byte) error {
	c, err := v.peek()
	if err == nil && c != wanted {
		err = errNoJSON
	}
	if err == nil {
		_, err = v.Discard(1)
	}
	return err
}

// The elements method reads a JSON object or array, and calls a function to read each element. JSON
// null counts as an empty object or array.
func (v values) elements(open, end byte, next func() error) error {
	if c, err := v.peek(); err == nil && c == 'n' {
		return v.skip()
	}
	if err := v.expect(open); err != nil {
		return err
	}
	for first := true; ; first = false {
		c, err := v.peek()
		if err != nil {
			return err
		}
		if c == end {
			return v.expect(end)
		}
		if !first {
			if err := v.expect(','); err != nil {
				return err
			}
		}
		if err := next(); err != nil {
			return err
		}
	}
}

// The members method reads a JSON object, and calls a function to read the value of each member.
func (v values) members(member func(key string) error) error {
	return v.elements('{', '}', func() error {
		key, err := v.text()
		if err == nil {
			err = v.expect(':')
		}
		if err != nil {
			return err
		}
		return member(key)
	})
}

func (v values) skip() error { return v.value(func([]byte) error { return nil }) }

func (v values) text() (text string, err error) {
	err = v.value(func(data []byte) error {
		if len(data) > maxText || json.Unmarshal(data, &text) != nil {
			return errNoJSON
		}
		return nil
	})
	return text, err
}

// value reads the next JSON value and calls f with its bytes, which are valid only until f returns.
// If the value is larger than maxObject, the result is an error.
func (v values) value(f func(data []byte) error) error {
	if _, err := v.peek(); err != nil {
		return err
	}
	buffer := buffers.Get().(*[maxSmall]byte)
	defer buffers.Put(buffer)
	data, held := buffer[:0], false
	var s scanner
	for ended := false; !ended; {
		if _, err := v.Peek(1); err == io.EOF && s.scalar {
			break
		} else if err != nil {
			return unexpected(err)
		}
		part, _ := v.Peek(v.Buffered())
		var n int
		n, ended = s.scan(part)
		if len(data)+n > maxObject {
			return errFrame(maxObject)
		}
		if len(data)+n > maxSmall && !held {
			release, err := v.hold()
			if err != nil {
				return err
			}
			defer release()
			held = true
		}
		data = append(data, part[:n]...)
		if _, err := v.Discard(n); err != nil {
			return err
		}
	}
	return f(data)
}

type scanner struct {
	depth           int
	quoted, escaped bool
	scalar          bool // the value is not a string, list or object
}

// scan returns how many bytes of the data belong to the current value, and reports whether the
// value ends within the data. A value must not begin with white space.
func (s *scanner) scan(data []byte) (n int, ended bool) {
	for i, c := range data {
		switch {
		case s.escaped:
			s.escaped = false
		case s.quoted:
			s.quoted = c != '"'
			s.escaped = c == '\\'
			if !s.quoted && s.depth == 0 {
				return i + 1, true
			}
		case s.scalar:
			if isBlank(c) || c == ',' || c == ']' || c == '}' {
				return i, true
			}
		case c == '"':
			s.quoted = true
		case c == '{' || c == '[':
			s.depth++
		case c == '}' || c == ']':
			if s.depth--; s.depth <= 0 {
				return i + 1, true
			}
		case s.depth == 0:
			s.scalar = true
		}
	}
	return len(data), false
}

func isBlank(c byte) bool { return c == ' ' || c == '\n' || c == '\t' || c == '\r' }

// countable returns an error if JSON data contains too many values.
func countable(data []byte) error {
	limits := guard.Limits{Elements: maxValues, Fields: maxValues}
	if _, err := io.Copy(io.Discard, guard.JSON(bytes.NewReader(data), limits)); err != nil {
		return fmt.Errorf("it has more than %d values", maxValues)
	}
	return nil
}

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
	// maxValues is how many elements, and how many members, an object in JSON may have: 3 bytes can stand for a
	// struct of a hundred.
	maxValues = 50_000
	// maxBlanks is how many blanks may stand between two values, in bytes. API servers send one at most.
	maxBlanks = 64 << 10
)

var (
	errNoJSON = errors.New(
		"the API server's answer is not the JSON that API servers send: check that the server is an API server",
	)
	errBlanks = fmt.Errorf(
		"the API server sent more than %d KiB of blanks: check that the server is an API server", maxBlanks>>10,
	)
)

// values are values of JSON that are read as they come. Each byte is looked at once until the value has come as a
// whole; what is not valid within it is found when that is decoded.
type values struct{ *input }

// first returns the next byte that is no blank, and leaves it there.
func (v values) first() (byte, error) {
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

// expect reads a byte that must be next.
func (v values) expect(wanted byte) error {
	c, err := v.first()
	if err == nil && c != wanted {
		err = errNoJSON
	}
	if err == nil {
		_, err = v.Discard(1)
	}
	return err
}

// elements calls next before each element of an object or list, which it reads. null has none.
func (v values) elements(open, end byte, next func() error) error {
	if c, err := v.first(); err == nil && c == 'n' {
		return v.skip()
	}
	if err := v.expect(open); err != nil {
		return err
	}
	for first := true; ; first = false {
		c, err := v.first()
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

// members calls member before the value of each member of an object, which it reads.
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

// skip reads the next value.
func (v values) skip() error { return v.value(func([]byte) error { return nil }) }

// text reads a short text.
func (v values) text() (text string, err error) {
	err = v.value(func(data []byte) error {
		if len(data) > maxText || json.Unmarshal(data, &text) != nil {
			return errNoJSON
		}
		return nil
	})
	return text, err
}

// value reads the next value. f gets it until it returns. One of more than maxObject bytes is an error.
func (v values) value(f func(data []byte) error) error {
	if _, err := v.first(); err != nil {
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

// scanner finds the end of one value.
type scanner struct {
	depth           int
	quoted, escaped bool
	scalar          bool // it is no text, list or object
}

// scan returns how many of the bytes belong to the value, and whether they end it. The first byte of the value is no
// blank.
func (s *scanner) scan(data []byte) (n int, ended bool) {
	for i, c := range data {
		switch {
		case s.escaped:
			s.escaped = false
		case s.quoted:
			s.quoted, s.escaped = c != '"', c == '\\'
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

// countable returns why an object is refused that has too many values.
func countable(data []byte) error {
	limits := guard.Limits{Elements: maxValues, Fields: maxValues}
	if _, err := io.Copy(io.Discard, guard.JSON(bytes.NewReader(data), limits)); err != nil {
		return fmt.Errorf("it has more than %d values", maxValues)
	}
	return nil
}

package decode

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

const (
	// maxValues is how many values an object in JSON may have: 3 bytes can stand for a struct of a hundred.
	maxValues = 50_000
	// maxBlanks is how many blanks may stand between two values, in bytes. API servers send one at most.
	maxBlanks = 64 << 10
)

var errNoJSON = errors.New("the API server's answer is not the JSON that API servers send: check that the server is an API server")

// values are values of JSON that are read as they come. What is not valid within one is found when that is decoded.
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
	return 0, fmt.Errorf("the API server sent more than %d KiB of blanks: check that the server is an API server", maxBlanks>>10)
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
func (v values) skip() error {
	_, err := v.scan(func([]byte) error { return nil })
	return err
}

// text reads a short text.
func (v values) text() (text string, err error) {
	var data []byte
	_, err = v.scan(func(part []byte) error {
		if data = append(data, part...); len(data) > maxText {
			return errNoJSON
		}
		return nil
	})
	if err == nil && json.Unmarshal(data, &text) != nil {
		err = errNoJSON
	}
	return text, err
}

// value reads the next value, as [input.part] does. One with too many values is refused too.
func (v values) value(f func(data []byte, whole error) error) error {
	buffer := buffers.Get().(*[maxSmall]byte)
	defer buffers.Put(buffer)
	data, held := buffer[:0], false
	s, err := v.scan(func(part []byte) error {
		if !held && len(data)+len(part) > maxSmall {
			if _, err := v.hold(); err != nil {
				return err
			}
			held = true
		}
		data = append(data, part[:min(len(part), maxObject-len(data))]...)
		return nil
	})
	if held {
		defer func() { <-v.api.large }()
	}
	switch {
	case err != nil:
		return err
	case s.size > len(data):
		return f(data, tooLarge(uint64(s.size)))
	case s.values > maxValues:
		return f(data, fmt.Errorf("it has more than %d values", maxValues))
	}
	return f(data, nil)
}

// scan reads the next value, and calls keep for each part of it.
func (v values) scan(keep func(part []byte) error) (s scanner, err error) {
	if _, err := v.first(); err != nil {
		return s, err
	}
	for ended := false; !ended; {
		if _, err := v.Peek(1); err == io.EOF && s.scalar {
			break
		} else if err != nil {
			return s, unexpected(err)
		}
		part, _ := v.Peek(v.Buffered())
		var n int
		n, ended = s.scan(part)
		if s.size += n; s.size > maxFrame {
			return s, errFrame(uint64(s.size))
		}
		if err := keep(part[:n]); err != nil {
			return s, err
		}
		if _, err := v.Discard(n); err != nil {
			return s, err
		}
	}
	if s.size == 0 {
		return s, errNoJSON
	}
	return s, nil
}

// scanner finds the end of one value.
type scanner struct {
	size            int // in bytes
	values          int // about how many are in it
	depth           int
	quoted, escaped bool
	begun, scalar   bool
}

// scan returns how many of the bytes belong to the value, and whether they end it. The first byte
// of the value is no blank.
func (s *scanner) scan(data []byte) (n int, ended bool) {
	for i, c := range data {
		switch {
		case s.escaped:
			s.escaped = false
		case s.quoted:
			s.escaped = c == '\\'
			if c == '"' {
				if s.quoted = false; s.depth == 0 {
					return i + 1, true
				}
			}
		case s.scalar:
			if isBlank(c) || c == ',' || c == ']' || c == '}' {
				return i, true
			}
		case c == '"':
			s.quoted = true
		case c == ',':
			s.values++
		case c == '{' || c == '[':
			s.values++
			s.depth++
		case c == '}' || c == ']':
			if s.depth--; s.depth <= 0 {
				return i + 1, true
			}
		case !s.begun:
			s.scalar = true
		}
		s.begun = true
	}
	return len(data), false
}

func isBlank(c byte) bool { return c == ' ' || c == '\n' || c == '\t' || c == '\r' }

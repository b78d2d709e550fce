package decode

import (
	"bytes"
	"encoding/json"
	"errors"
	"unicode/utf8"
)

// Scanning finds where values of JSON end, without decoding them. What is not valid within them
// is found when they are decoded, if they are.

var errJSON = errors.New("it is not valid JSON")

// scanner finds the end of one value.
type scanner struct {
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
		case c == '{' || c == '[':
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

// skipBlanks returns data without the blanks before it.
func skipBlanks(data []byte) []byte {
	for len(data) > 0 && isBlank(data[0]) {
		data = data[1:]
	}
	return data
}

// cutValue returns the value that data begins with. whole is false if data ends before it does.
func cutValue(data []byte) (value, rest []byte, whole bool) {
	data = skipBlanks(data)
	var s scanner
	n, whole := s.scan(data)
	return data[:n], data[n:], whole || s.scalar
}

// eachMember calls f for each member of an object, and returns its errors. null has none. Of an object that is cut
// off f gets what there is, the last value incomplete, before the error.
func eachMember(data []byte, f func(key string, value []byte) error) error {
	return eachOf(data, '{', '}', func(data []byte) ([]byte, error) {
		quoted, data, whole := cutValue(data)
		if !whole {
			return nil, errJSON
		}
		key, err := unquote(quoted)
		data = skipBlanks(data)
		if err != nil || len(data) == 0 || data[0] != ':' {
			return nil, errJSON
		}
		value, rest, whole := cutValue(data[1:])
		if err := f(key, value); err != nil {
			return nil, err
		}
		if !whole {
			return nil, errJSON
		}
		return rest, nil
	})
}

// eachElement is eachMember for a list.
func eachElement(data []byte, f func(value []byte) error) error {
	return eachOf(data, '[', ']', func(data []byte) ([]byte, error) {
		value, rest, whole := cutValue(data)
		if !whole || len(value) == 0 {
			return nil, errJSON
		}
		return rest, f(value)
	})
}

// eachOf calls next with what comes after open and each comma. It returns what is left.
func eachOf(data []byte, open, end byte, next func([]byte) ([]byte, error)) error {
	data = skipBlanks(data)
	if bytes.HasPrefix(data, []byte("null")) {
		return nil
	}
	if len(data) == 0 || data[0] != open {
		return errJSON
	}
	data = skipBlanks(data[1:])
	if len(data) > 0 && data[0] == end {
		return nil
	}
	for {
		var err error
		if data, err = next(data); err != nil {
			return err
		}
		data = skipBlanks(data)
		switch {
		case len(data) > 0 && data[0] == end:
			return nil
		case len(data) == 0 || data[0] != ',':
			return errJSON
		}
		data = data[1:]
	}
}

// unquote returns a text. null is an empty one.
func unquote(data []byte) (text string, err error) {
	n := len(data)
	if n >= 2 && data[0] == '"' && data[n-1] == '"' && bytes.IndexByte(data, '\\') < 0 && utf8.Valid(data) {
		return string(data[1 : n-1]), nil
	}
	if err := json.Unmarshal(data, &text); err != nil {
		return "", errJSON
	}
	return text, nil
}

// count returns about how many values are in data.
func count(data []byte) (n int) {
	quoted, escaped := false, false
	for _, c := range data {
		switch {
		case escaped:
			escaped = false
		case quoted:
			escaped, quoted = c == '\\', c != '"'
		case c == '"':
			quoted = true
		case c == ',' || c == '{' || c == '[':
			n++
		}
	}
	return n
}

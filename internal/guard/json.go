package guard

import (
	"errors"
	"io"
)

// Limits contains the maximum numbers of array elements and object fields in a JSON document.
// Elements and fields are counted at all nesting levels.
type Limits struct {
	Elements int // of arrays; each may decode to a struct
	Fields   int // of objects; each may decode to a map entry
}

// maxDepth is the maximum nesting depth of arrays and objects, which equals the limit of
// encoding/json.
const maxDepth = 10_000

var (
	errElements = errors.New("the JSON has too many elements")
	errFields   = errors.New("the JSON has too many fields")
	errDepth    = errors.New("the JSON is nested too deeply")
)

// JSON limits the number of elements and fields in JSON that is read from an [io.Reader]. The
// returned reader yields the same bytes as the given reader, but returns an error if the JSON
// exceeds the limits or is nested too deeply. The returned reader does not validate the JSON,
// because the decoder reports invalid JSON.
func JSON(from io.Reader, limits Limits) io.Reader { return &counter{from: from, left: limits} }

type counter struct {
	from io.Reader
	left Limits
	err  error

	open            []byte // the open brackets
	quoted, escaped bool   // inside a string; after a backslash in a string
	parted          bool   // the next character that is not blank begins an element or field
}

func (c *counter) Read(b []byte) (int, error) {
	if c.err != nil {
		return 0, c.err
	}
	n, err := c.from.Read(b)
	for i, char := range b[:n] {
		if c.count(char); c.err != nil {
			return i, c.err
		}
	}
	return n, err
}

func (c *counter) count(char byte) {
	switch {
	case c.escaped:
		c.escaped = false
		return
	case c.quoted:
		c.quoted = char != '"'
		c.escaped = char == '\\'
		return
	case char == ' ' || char == '\n' || char == '\t' || char == '\r':
		return
	}
	if c.parted && char != ']' && char != '}' {
		c.part()
	}
	c.parted = false
	switch char {
	case '"':
		c.quoted = true
	case '[', '{':
		c.open, c.parted = append(c.open, char), true
		if len(c.open) > maxDepth {
			c.err = errDepth
		}
	case ']', '}':
		c.open = c.open[:max(len(c.open)-1, 0)]
	case ',':
		c.parted = true
	}
}

func (c *counter) part() {
	if len(c.open) == 0 {
		return
	}
	left, err := &c.left.Fields, errFields
	if c.open[len(c.open)-1] == '[' {
		left, err = &c.left.Elements, errElements
	}
	if *left--; *left < 0 {
		c.err = err
	}
}

package guard

import (
	"errors"
	"io"
)

// Limits are how many parts a JSON text may have, of all depths together.
type Limits struct {
	Elements int // of arrays, each of which may become a struct
	Fields   int // of objects, each of which may become an entry of a map
}

// maxDepth is how deep arrays and objects may be nested: as encoding/json has it.
const maxDepth = 10_000

var (
	errElements = errors.New("the JSON has too many elements")
	errFields   = errors.New("the JSON has too many fields")
	errDepth    = errors.New("the JSON is nested too deeply")
)

// JSON returns a reader of the same bytes, which fails where they have more parts than
// limits allow. What is not JSON it counts in some way: that is for the decoder to refuse.
func JSON(from io.Reader, limits Limits) io.Reader { return &counter{from: from, left: limits} }

type counter struct {
	from io.Reader
	left Limits
	err  error

	open            []byte // the brackets that are open
	quoted, escaped bool   // within a string; after a backslash there
	parted          bool   // the next character that is no blank begins a part
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
		c.quoted, c.escaped = char != '"', char == '\\'
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

// part counts one more element or field of what is open.
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

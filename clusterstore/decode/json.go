package decode

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"isthmus/clusterstore/guard"
)

const (
	// maxValues is how many elements, and how many members, an object in JSON may have: 3 bytes can stand for a struct of a hundred.
	maxValues = 50_000
	// maxBlanks is how many blanks may stand between two values, in bytes. API servers send one at most.
	maxBlanks = 64 << 10
	// maxAhead is how much is read at a time, in bytes.
	maxAhead = 4 << 10
)

var (
	errNoJSON = errors.New("the API server's answer is not the JSON that API servers send: check that the server is an API server")
	errBlanks = fmt.Errorf("the API server sent more than %d KiB of blanks: check that the server is an API server", maxBlanks>>10)
)

// values are values of JSON that are read as they come, by encoding/json, which looks through blanks between two of them anew
// with each part that comes: so these are bounded, before a value is read. One may have maxObject bytes.
type values struct {
	*json.Decoder
	from *portions
	raw  json.RawMessage // the last one
}

func (in *input) values() *values {
	from := &portions{input: in}
	return &values{Decoder: json.NewDecoder(from), from: from}
}

// end gives back what values have, and keeps what comes after the last one for those that are next.
func (v *values) end() {
	ahead, _ := io.ReadAll(v.Buffered())
	v.from.rest = append(ahead, v.from.rest...)
	if v.from.held {
		<-v.from.api.large
	}
}

// more reports whether something comes before the end of the list or object, as [json.Decoder.More] does.
func (v *values) more() bool {
	v.from.read, v.from.limit, v.from.beyond = 0, maxBlanks, errBlanks
	return v.More()
}

// token returns the next delimiter or key, or null.
func (v *values) token() (json.Token, error) {
	v.more()
	t, err := v.Token()
	return t, noJSON(err)
}

// next reads the next value.
func (v *values) next(into any) error {
	v.more()
	v.from.read, v.from.limit, v.from.beyond = 0, maxObject, errFrame(maxObject)
	return noJSON(v.Decode(into))
}

// elements calls each for those of the next value, which is a list or null.
func (v *values) elements(each func(data []byte, whole error) error) error {
	switch t, err := v.token(); {
	case err != nil || t == nil:
		return err
	case t != json.Delim('['):
		return errNoJSON
	}
	for v.more() {
		if err := v.next(&v.raw); err != nil {
			return err
		}
		if err := each(v.raw, countable(v.raw)); err != nil {
			return err
		}
	}
	_, err := v.token()
	return err
}

// portions is what values are read from.
type portions struct {
	*input
	read, limit int   // how much has come of a value, and may come
	beyond      error // if more comes
	held        bool
}

func (p *portions) Read(b []byte) (n int, err error) {
	if n = copy(b, p.rest); n > 0 {
		p.rest = p.rest[n:]
		return n, nil
	}
	if p.read >= p.limit {
		return 0, p.beyond
	}
	if p.read > maxSmall && !p.held {
		if _, err := p.hold(); err != nil {
			return 0, err
		}
		p.held = true
	}
	n, err = p.Reader.Read(b[:min(len(b), maxAhead)])
	p.read += n
	return n, err
}

// countable returns why an object is refused that has too many values.
func countable(data []byte) error {
	limits := guard.Limits{Elements: maxValues, Fields: maxValues}
	if _, err := io.Copy(io.Discard, guard.JSON(bytes.NewReader(data), limits)); err != nil {
		return fmt.Errorf("it has more than %d values", maxValues)
	}
	return nil
}

// noJSON returns an error that says so of what is not valid JSON.
func noJSON(err error) error {
	if errors.As(err, new(*json.SyntaxError)) || errors.As(err, new(*json.UnmarshalTypeError)) {
		return errNoJSON
	}
	return err
}

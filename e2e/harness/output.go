package harness

import (
	"bytes"
	"io"
	"strings"
	"sync"
)

// firstLine is a writer that keeps the first line and drops what follows.
type firstLine struct {
	text strings.Builder
	over chan struct{} // closed once the line is complete, after which text does not change
	done bool
}

func (f *firstLine) Write(b []byte) (int, error) {
	if f.done {
		return len(b), nil
	}
	line, _, ended := bytes.Cut(b, []byte("\n"))
	f.text.Write(line)
	if ended {
		f.done = true
		close(f.over)
	}
	return len(b), nil
}

// Tail is a writer that keeps the end of what was written, 256 KiB at least. The zero value is ready for use, by several
// goroutines.
type Tail struct {
	To io.Writer // gets everything too, if not nil; fixed

	mu   sync.Mutex
	text []byte
}

const tailBytes = 256 << 10

// Write never fails by itself; it returns the error of To.
func (t *Tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, b...)
	if len(t.text) > 2*tailBytes {
		t.text = bytes.Clone(t.text[len(t.text)-tailBytes:])
	}
	if t.To == nil {
		return len(b), nil
	}
	return t.To.Write(b)
}

// Lines returns the last n lines.
func (t *Tail) Lines(n int) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return LastLines(string(t.text), n)
}

// LastLines returns the last n lines of a text, without the newline at its end.
func LastLines(text string, n int) string {
	all := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(all[max(0, len(all)-n):], "\n")
}

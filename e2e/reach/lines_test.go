package reach

import (
	"bytes"
	"fmt"
	"regexp"
	"sync"
)

// lines is the output of a process that goes on.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// has returns an error unless the output matches.
func (l *lines) has(pattern string) error {
	if text := l.String(); !regexp.MustCompile(pattern).MatchString(text) {
		return fmt.Errorf("no %s in %q", pattern, text)
	}
	return nil
}

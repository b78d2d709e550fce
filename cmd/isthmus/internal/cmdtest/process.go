// Package cmdtest contains test helpers for the packages under cmd. The helpers capture the output
// of a process, and provide fake clusters that need no API server.
package cmdtest

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// Output is a writer that lets a test wait until a given string has been written. Output is safe
// for concurrent use, except that only one goroutine at a time may call Await.
type Output struct {
	mu    sync.Mutex
	b     bytes.Buffer
	wrote chan struct{}
}

// NewOutput returns an empty Output.
func NewOutput() *Output { return &Output{wrote: make(chan struct{}, 1)} }

// Write implements io.Writer.
func (o *Output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	select {
	case o.wrote <- struct{}{}:
	default: // Await has not read the previous write yet
	}
	return o.b.Write(b)
}

// Await waits up to a minute for the output to contain the wanted string, and returns all output.
// If the string is still missing after a minute, the test fails.
func (o *Output) Await(t *testing.T, want string) string {
	t.Helper()
	limit := time.After(time.Minute)
	for {
		o.mu.Lock()
		text := o.b.String()
		o.mu.Unlock()
		if strings.Contains(text, want) {
			return text
		}
		select {
		case <-o.wrote:
		case <-limit:
			t.Fatalf("no %q in %q", want, text)
		}
	}
}

// FreeAddr returns a local address that no process listens on. The port is below the ephemeral port
// range, so that no outgoing connection takes the port before the test listens on it.
func FreeAddr(t *testing.T) string {
	t.Helper()
	for range 100 {
		if l, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", 20000+rand.IntN(10000))); err == nil {
			defer l.Close()
			return l.Addr().String()
		}
	}
	t.Fatal("no free port in a hundred")
	return ""
}

// Listens reports whether a TCP connection to the address succeeds.
func Listens(addr string) bool {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return false
	}
	c.Close()
	return true
}

// Get returns the body of the response without surrounding white space, or an empty string if there
// is no response.
func Get(client *http.Client, url string) string {
	resp, err := client.Get(url)
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(body))
}

// Eventually waits up to a minute for f to return true. The failure message contains the given
// description of the condition.
func Eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	limit := time.After(time.Minute)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !f() {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatal("after a minute, not yet: " + what)
		}
	}
}

package floor_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"isthmus/e2e/bench/floor"
	"isthmus/e2e/bench/load"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var recording = floor.Recording{
	Get: map[string]floor.Answer{
		"web:80":  {First: [][]byte{[]byte("add"), bytes.Repeat([]byte("more"), 1000)}, Steps: [][]byte{[]byte("away"), []byte("back")}},
		"cart:80": {First: [][]byte{[]byte("none")}},
	},
	GetProfile: map[string]floor.Answer{"web:80": {First: [][]byte{[]byte("profile")}, Steps: [][]byte{[]byte("other profile")}}},
}

// running is a floor that ends with its input.
type running struct {
	addr  string
	input io.WriteCloser
	ended chan error
}

func serve(t *testing.T) *running {
	t.Helper()
	path := filepath.Join(t.TempDir(), "recording.json")
	if err := recording.Write(path); err != nil {
		t.Fatal(err)
	}
	in, input := io.Pipe()
	output, out := io.Pipe()
	r := &running{input: input, ended: make(chan error, 1)}
	go func() { r.ended <- floor.Serve(path, in, out) }()
	if _, err := fmt.Fscanln(output, &r.addr); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestServe(t *testing.T) {
	r := serve(t)
	open := func(method, authority string) *load.Load {
		l, err := load.Open(t.Context(), load.Config{Addr: r.addr, Conns: 3, Targets: slices.Repeat([]load.Target{{Authority: authority, Method: method, Keep: true}}, 10)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		return l
	}
	check := func(l *load.Load, want ...[]byte) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		if err := l.Await(ctx, len(want)); err != nil {
			t.Fatal(err)
		}
		l.Messages(func(to load.Target, got [][]byte) {
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%s: %.20q, not %.20q", to.Authority, got, want)
			}
		})
	}
	web, cart, profile := open("Get", "web:80"), open("Get", "cart:80"), open("GetProfile", "web:80")
	first, steps := recording.Get["web:80"].First, recording.Get["web:80"].Steps
	check(web, first...)
	// Steps are never lost, however fast they come.
	fmt.Fprint(r.input, "0 Get web:80\n1 Get web:80\n0 Get web:80\n")
	check(web, append(slices.Clone(first), steps[0], steps[1], steps[0])...)
	check(cart, []byte("none"))
	check(profile, []byte("profile"))
	fmt.Fprint(r.input, "0 GetProfile web:80\n")
	check(profile, []byte("profile"), []byte("other profile"))
	check(web, append(slices.Clone(first), steps[0], steps[1], steps[0])...) // these are another method's
	// Who comes later begins as all do.
	check(open("Get", "web:80"), first...)
	r.input.Close()
	if err := <-r.ended; err != nil {
		t.Error(err)
	}
}

func TestServeRefuses(t *testing.T) {
	for _, line := range []string{"0 Get nobody:80", "2 Get web:80", "-1 Get web:80", "0 Get cart:80", "1 GetProfile web:80", "0 Put web:80", "0 web:80", "x Get web:80", ""} {
		r := serve(t)
		fmt.Fprintln(r.input, line)
		if err := <-r.ended; err == nil {
			t.Errorf("%q is accepted", line)
		}
	}
	r := serve(t)
	if _, err := load.Open(t.Context(), load.Config{Addr: r.addr, Conns: 1, Targets: []load.Target{{Authority: "nobody:80"}}}); err == nil ||
		!strings.Contains(err.Error(), "NotFound") {
		t.Errorf("nobody: %v", err)
	}
	r.input.Close()
	if err := <-r.ended; err != nil {
		t.Error(err)
	}
	if err := floor.Serve("no such file", strings.NewReader(""), io.Discard); err == nil {
		t.Error("served nothing")
	}
}

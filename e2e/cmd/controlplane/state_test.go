package main

import (
	"errors"
	"net"
	"strings"
	"syscall"
	"testing"
)

// TestListen checks that a directory keeps its port and that only one process at a time can bind
// it.
func TestListen(t *testing.T) {
	dir, host := stateDir(t.TempDir()), net.IPv4(127, 0, 0, 1)
	first, err := dir.Listen(host)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := dir.Listen(host); !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(err.Error(), string(dir)) {
		t.Errorf("while it is served: %v", err)
	}
	first.Close()
	again, err := dir.Listen(host)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if first.Addr().String() != again.Addr().String() {
		t.Errorf("at %v, and later at %v", first.Addr(), again.Addr())
	}
}

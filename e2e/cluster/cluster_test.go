package cluster_test

import (
	"context"
	"errors"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"isthmus/e2e/cluster"
	"isthmus/e2e/program"
)

// TestLife pauses a cluster and ends it. That clusters have what Kubernetes has, keep objects over restarts, and that their
// controllers work, is what the cases in testdata, and TestRollingUpdates, build on.
func TestLife(t *testing.T) {
	binary, err := program.Controlplane.Path(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// A path that no socket could have.
	c, err := cluster.Start(t.Context(), cluster.Config{Name: "west", Dir: filepath.Join(t.TempDir(), strings.Repeat("long", 30)), Binary: binary})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	checkPause(t, c)
	if err := c.Pause(); err != nil { // being paused must not keep it alive
		t.Fatal(err)
	}
	checkClose(t, c)
}

func checkPause(t *testing.T, c *cluster.Cluster) {
	if err := c.Pause(); err != nil {
		t.Fatal(err)
	}
	config := c.REST()
	config.Timeout = 300 * time.Millisecond
	hangs := func() bool {
		_, err := clientOf(t, config).Discovery().ServerVersion()
		return errors.Is(err, context.DeadlineExceeded) || err != nil && isTimeout(err)
	}
	for limit := time.Now().Add(time.Minute); !hangs(); { // a thread that runs may go on for a moment
		if time.Now().After(limit) {
			t.Fatal("a paused cluster answers")
		}
	}
	if !hangs() {
		t.Error("a paused cluster answered")
	}
	if !c.Running() {
		t.Error("not Running while paused")
	}
	if err := c.Resume(); err != nil {
		t.Fatal(err)
	}
	if _, err := clientOf(t, c.REST()).Discovery().ServerVersion(); err != nil {
		t.Errorf("after it went on: %v", err)
	}
}

func isTimeout(err error) bool {
	var timeout interface{ Timeout() bool }
	return errors.As(err, &timeout) && timeout.Timeout()
}

// checkClose closes the cluster and sees that nothing is left of it.
func checkClose(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	pid := pidOf(t, c.Dir())
	if err := syscall.Kill(pid, 0); err != nil {
		t.Fatalf("cluster %s, process %d: %v", c.Name(), pid, err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("cluster %s: process %d after Close: %v", c.Name(), pid, err)
	}
	server, err := url.Parse(c.REST().Host)
	if err != nil {
		t.Fatal(err)
	}
	if conn, err := net.Dial("tcp", server.Host); err == nil {
		conn.Close()
		t.Errorf("cluster %s: a server listens on %s after Close", c.Name(), server.Host)
	}
	if err := c.Close(); err != nil {
		t.Errorf("closing again: %v", err)
	}
	if err := c.Pause(); err == nil {
		t.Errorf("cluster %s: a closed cluster was paused", c.Name())
	}
	if err := c.Restart(t.Context()); err == nil {
		t.Errorf("cluster %s: a closed cluster was restarted", c.Name())
	}
}

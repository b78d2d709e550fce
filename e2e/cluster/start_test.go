package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"isthmus/e2e/cluster"
	"isthmus/e2e/program"
)

// starterEnv makes the test binary start a cluster in the folder it names,
// pause it, print that and hang.
const starterEnv = "CLUSTER_TEST_STARTER"

func TestMain(m *testing.M) {
	if dir := os.Getenv(starterEnv); dir != "" {
		starter(dir)
	}
	goleak.VerifyTestMain(m)
}

func starter(dir string) {
	c, err := cluster.Start(context.Background(), cluster.Config{Name: "orphan", Dir: dir, Binary: os.Getenv(program.Controlplane.Env)})
	if err == nil && runtime.GOOS == "linux" {
		err = c.Pause()
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("started")
	select {}
}

// TestEndsWithItsStarter kills a process that has started a cluster.
func TestEndsWithItsStarter(t *testing.T) {
	binary, err := program.Controlplane.Path(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	p, err := program.Start(program.Config{Path: os.Args[0], Env: []string{starterEnv + "=" + dir, program.Controlplane.Env + "=" + binary}, Announces: true})
	if err != nil {
		t.Fatal(err)
	}
	line, err := p.AwaitLine(t.Context())
	if killErr := p.Kill(); killErr != nil {
		t.Error(killErr)
	}
	if line != "started" {
		t.Fatalf("the starter printed %q, %v", line, err)
	}
	pid := pidOf(t, dir)
	eventually(t, "the cluster ends", func() error {
		if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("process %d: %v", pid, err)
		}
		return nil
	})
}

func TestStartErrors(t *testing.T) {
	dir := t.TempDir()
	script := func(text string) string {
		path := filepath.Join(dir, fmt.Sprint(len(text)))
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o700); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for name, test := range map[string]struct {
		config cluster.Config
		want   string
	}{
		"no name":   {cluster.Config{Dir: dir}, "no name given"},
		"no folder": {cluster.Config{Name: "west"}, "cluster west: no folder"},
		"no binary": {cluster.Config{Name: "west", Dir: dir, Binary: filepath.Join(dir, "none")}, "cluster west: fork/exec"},
		"it ends":   {cluster.Config{Name: "west", Dir: dir, Binary: script("echo it broke >&2; exit 3")}, "exit status 3\n" + dir + "/log ends with:\nit broke"},
		"it hangs":  {cluster.Config{Name: "west", Dir: dir, Binary: script("exec sleep 60")}, "cluster west: was not ready in time: context deadline exceeded"},
	} {
		t.Run(name, func(t *testing.T) {
			limit := time.Minute
			if name == "it hangs" {
				limit = time.Second
			}
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			c, err := cluster.Start(ctx, test.config)
			if c != nil || err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, %v; want an error with %q", c, err, test.want)
			}
		})
	}
}

// TestStartAllLeavesNothing starts a cluster together with one that cannot be.
func TestStartAllLeavesNothing(t *testing.T) {
	binary, err := program.Controlplane.Path(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	_, err = cluster.StartAll(t.Context(),
		cluster.Config{Name: "west", Dir: filepath.Join(dir, "west"), Binary: binary},
		cluster.Config{Name: "east", Dir: filepath.Join(dir, "east"), Binary: binary, Controllers: []string{"none-such"}})
	if err == nil || !strings.Contains(err.Error(), `there is no "none-such"`) {
		t.Errorf("got %v", err)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "west", "pid")); err == nil && len(text) > 0 {
		pid := pidOf(t, filepath.Join(dir, "west"))
		if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("process %d of west: %v", pid, err)
		}
	}
}

func clientOf(t *testing.T, config *rest.Config) *kubernetes.Clientset {
	t.Helper()
	transport, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(transport.CloseIdleConnections)
	client, err := kubernetes.NewForConfigAndClient(config, transport)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func pidOf(t *testing.T, dir string) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "pid"))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// eventually tries until it works.
func eventually(t *testing.T, what string, try func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := try()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%s: %v", what, err)
		}
	}
}

package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"isthmus/e2e/gateway"
	"isthmus/e2e/program"
)

// With this variable set, the test's binary is a gateway that behaves as the variable names it.
const behaviour = "TEST_GATEWAY"

func TestMain(m *testing.M) {
	if how := os.Getenv(behaviour); how != "" {
		if err := pretend(how); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// pretend is a gateway as far as its process goes.
func pretend(how string) error {
	flags := map[string]string{}
	for _, arg := range os.Args[2:] {
		key, value, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		flags[key] = value
	}
	fmt.Printf("started as %s with %s, API server %q, HOSTNAME=%s\n", os.Args[1], strings.Join(os.Args[2:], " "), os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("HOSTNAME"))
	if how == "refuse" || flags["refuse"] != "" {
		return errors.New("refused")
	}
	terminated := make(chan os.Signal, 1)
	signal.Notify(terminated, syscall.SIGTERM)
	grpc, err := net.Listen("tcp", flags["addr"])
	if err != nil {
		return err
	}
	defer grpc.Close()
	asked := 0
	mux := http.NewServeMux()
	mux.HandleFunc("/ready", func(w http.ResponseWriter, _ *http.Request) {
		if asked++; asked < 3 {
			http.Error(w, "not yet", http.StatusServiceUnavailable)
		}
	})
	mux.HandleFunc("/exit", func(http.ResponseWriter, *http.Request) { os.Exit(3) })
	go http.ListenAndServe(flags["metrics-addr"], mux) // until the process ends
	<-terminated
	if how == "stubborn" {
		select {}
	}
	fmt.Println("terminated")
	return nil
}

func start(t *testing.T, how string, cfg gateway.Config) (*gateway.Gateway, error) {
	t.Helper()
	t.Setenv(behaviour, how)
	cfg.Binary, cfg.Kubeconfig = os.Args[0], "/west/kubeconfig"
	g, err := gateway.Start(t.Context(), cfg)
	if g != nil {
		t.Cleanup(func() {
			if err := g.Stop(); err != nil {
				t.Error(err)
			}
		})
	}
	return g, err
}

func TestStartRestartStop(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1") // as where tests run in a Pod
	var output strings.Builder
	g, err := start(t, "serve", gateway.Config{Args: []string{"-pace=1ms"}, Output: &output})
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Check(t.Context()); err != nil {
		t.Error(err)
	}
	log := g.Log(10)
	for _, want := range []string{"started as gateway", "-kubeconfig=/west/kubeconfig", "-enable-ipv6=false", "-pace=1ms", `API server ""`, "HOSTNAME=isthmus-0"} {
		if !strings.Contains(log, want) {
			t.Errorf("%q is not in the log:\n%s", want, log)
		}
	}
	addr, metrics, pid := g.Addr(), g.MetricsAddr(), g.Pid()
	if err := g.Restart(t.Context(), "HOSTNAME=other", "-enable-ipv6=true"); err != nil {
		t.Fatal(err)
	}
	if g.Addr() != addr || g.MetricsAddr() != metrics || g.Pid() == pid {
		t.Errorf("restarted at %s and %s as %d", g.Addr(), g.MetricsAddr(), g.Pid())
	}
	if log := g.Log(2); !strings.Contains(log, "terminated\nstarted") || !strings.HasSuffix(log, `-pace=1ms -enable-ipv6=true, API server "", HOSTNAME=other`) {
		t.Errorf("the log after a restart:\n%s", log)
	}
	if err := g.Stop(); err != nil {
		t.Error(err)
	}
	if err := g.Check(t.Context()); err == nil || g.Pid() != 0 {
		t.Errorf("stopped, but %v and process %d", err, g.Pid())
	}
	if !strings.Contains(output.String(), "started as gateway") {
		t.Errorf("output %q", output.String())
	}
}

func TestEndsBeforeReady(t *testing.T) {
	if _, err := start(t, "refuse", gateway.Config{}); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("the error does not show the log: %v", err)
	}
}

func TestRestartThatFails(t *testing.T) {
	g, err := start(t, "serve", gateway.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Restart(t.Context(), "-refuse=yes"); err == nil {
		t.Error("no error")
	}
	if err := g.Restart(t.Context()); err != nil {
		t.Errorf("a start that failed cannot be mended: %v", err)
	}
}

func TestCheckFindsAnExit(t *testing.T) {
	g, err := start(t, "serve", gateway.Config{})
	if err != nil {
		t.Fatal(err)
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	if resp, err := client.Get("http://" + g.MetricsAddr() + "/exit"); err == nil {
		resp.Body.Close()
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for err = nil; err == nil || !strings.Contains(err.Error(), "exit status 3"); err = g.Check(ctx) {
		if ctx.Err() != nil {
			t.Fatalf("the exit was not noticed: %v", err)
		}
	}
	<-g.Exited()
	if err := g.Stop(); err != nil || g.Exited() != nil {
		t.Errorf("%v, or a stopped gateway that may exit", err)
	}
}

func TestStubbornIsKilled(t *testing.T) {
	const limit = 500 * time.Millisecond
	g, err := start(t, "stubborn", gateway.Config{StopLimit: limit})
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := g.Stop(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("a gateway that does not end: %v", err)
	}
	if took := time.Since(began); took < limit {
		t.Errorf("killed after %v", took)
	}
}

func TestBinaryFromEnvironment(t *testing.T) {
	want := filepath.Join(t.TempDir(), "isthmus")
	t.Setenv(program.Isthmus.Env, want)
	if got, err := program.Isthmus.Path(t.Context()); got != want || err != nil {
		t.Errorf("%s, %v", got, err)
	}
}

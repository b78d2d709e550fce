package prometheus

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"

	"isthmus/e2e/program"
)

// Config says what to scrape.
type Config struct {
	Dir     string              // for the configuration and the data; exists
	Targets map[string][]string // HOST:PORTs by job
	Rules   []string            // files
}

// startLimit is how long a server may take until it is ready.
const startLimit = 2 * time.Minute

// Server is a running Prometheus. Its methods may be called from several
// goroutines.
type Server struct {
	addr   string
	client *http.Client
	cmd    *exec.Cmd
	output output
	exited chan struct{} // closed when the process has been reaped
}

// Start runs a server and returns when it is ready. ctx bounds the wait only: the
// server runs until Stop or the end of this process.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	binary, err := program.Prometheus.Path(ctx)
	if err != nil {
		return nil, err
	}
	config, err := cfg.write()
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &Server{
		addr:   l.Addr().String(),
		client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second},
		exited: make(chan struct{}),
	}
	if err := l.Close(); err != nil {
		return nil, err
	}
	s.cmd = exec.Command(binary, "--config.file="+config, "--storage.tsdb.path="+filepath.Join(cfg.Dir, "data"),
		"--web.listen-address="+s.addr, "--log.level=warn")
	s.cmd.Stdout, s.cmd.Stderr = &s.output, &s.output
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for the starter to act on
	dieWithParent(s.cmd.SysProcAttr)
	started := make(chan error)
	go s.run(started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start prometheus: %w", err)
	}
	if err := s.await(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("prometheus: %w\n%s", err, s.output.String()), s.Stop())
	}
	return s, nil
}

// write writes the configuration. JSON is YAML.
func (c *Config) write() (path string, err error) {
	type group map[string][]string
	var jobs []map[string]any
	for name, targets := range c.Targets {
		jobs = append(jobs, map[string]any{"job_name": name, "static_configs": []group{{"targets": targets}}})
	}
	text, err := json.Marshal(map[string]any{
		"global":         map[string]string{"scrape_interval": "3s", "scrape_timeout": "3s", "evaluation_interval": "3s"},
		"rule_files":     c.Rules,
		"scrape_configs": jobs,
	})
	if err != nil {
		return "", err
	}
	path = filepath.Join(c.Dir, "prometheus.yml")
	return path, os.WriteFile(path, text, 0o600)
}

// run starts the process and reaps it. It keeps its thread for as long, because to
// Linux the parent that a child dies with is a thread.
func (s *Server) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := s.cmd.Start()
	started <- err
	if err == nil {
		_ = s.cmd.Wait() // whose error says that it was killed
		close(s.exited)
	}
}

func (s *Server) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := s.get(ctx, "/-/ready", nil)
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-s.exited:
			return fmt.Errorf("ended before it was ready: %w", err)
		case <-ctx.Done():
			return fmt.Errorf("not ready: %w", err)
		}
	}
}

// Stop ends the server. There is nothing to keep.
func (s *Server) Stop() error {
	if err := s.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop prometheus: %w", err)
	}
	<-s.exited
	return nil
}

// output is what a process has written.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

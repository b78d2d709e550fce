package prometheus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"isthmus/e2e/admin"
	"isthmus/e2e/port"
	"isthmus/e2e/program"
)

// Config is what to scrape.
type Config struct {
	Dir     string              // for the configuration and the data; exists
	Targets map[string][]string // HOST:PORTs by job
	Rules   []string            // files
}

// startLimit is how long a server may take until it is ready.
const startLimit = 2 * time.Minute

// Ports of servers. Those of gateways lie above.
const firstPort, lastPort = 9100, 9999

// Server is a running Prometheus. Its methods may be called from several goroutines.
type Server struct {
	port *port.Port
	proc *program.Process
}

// Start runs a server and returns when it is ready. ctx bounds the wait only: the server runs until Stop or the end of this
// process.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	binary, err := program.Prometheus.Path(ctx)
	if err != nil {
		return nil, err
	}
	config, err := cfg.write()
	if err != nil {
		return nil, err
	}
	reserved, err := port.Reserve(firstPort, lastPort)
	if err != nil {
		return nil, err
	}
	s := &Server{port: reserved}
	var log program.Tail
	s.proc, err = program.Start(program.Config{Path: binary, Output: &log, Args: []string{
		"--config.file=" + config, "--storage.tsdb.path=" + filepath.Join(cfg.Dir, "data"),
		"--web.listen-address=" + reserved.Addr(), "--log.level=warn",
	}})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start prometheus: %w", err), reserved.Release())
	}
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	if err := s.proc.Await(ctx, func(ctx context.Context) error {
		_, err := admin.Get(ctx, reserved.Addr(), "/-/ready")
		return err
	}); err != nil {
		return nil, errors.Join(fmt.Errorf("prometheus %w\n%s", err, log.Lines(20)), s.Stop())
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

// Stop ends the server. There is nothing to keep.
func (s *Server) Stop() error { return errors.Join(s.proc.Kill(), s.port.Release()) }

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"isthmus/e2e/harness"
)

type prometheusConfig struct {
	Dir     string              // existing directory for the configuration and the data
	Targets map[string][]string // HOST:PORT of the targets by job
	Rules   []string            // paths of rule files
}

const prometheusStartLimit = 2 * time.Minute

// Replicas use the port range above these ports.
const firstPrometheusPort, lastPrometheusPort = 9100, 9999

// prometheusServer is a running Prometheus server from the e2e/tools module. It scrapes its targets
// every three seconds, evaluates its rules and answers queries. All data is in its directory. All
// methods are safe for concurrent use.
type prometheusServer struct {
	port *harness.Port
	proc *harness.Process
}

// startPrometheus starts a server and waits until it is ready. The context only limits the wait:
// the server runs until Stop or until this process ends.
func startPrometheus(ctx context.Context, cfg prometheusConfig) (*prometheusServer, error) {
	binary, err := harness.Prometheus.Path(ctx)
	if err != nil {
		return nil, err
	}
	config, err := cfg.write()
	if err != nil {
		return nil, err
	}
	reserved, err := harness.ReservePort(firstPrometheusPort, lastPrometheusPort)
	if err != nil {
		return nil, err
	}
	s := &prometheusServer{port: reserved}
	var log harness.Tail
	s.proc, err = harness.StartProcess(harness.ProcessConfig{Path: binary, Output: &log, Args: []string{
		"--config.file=" + config, "--storage.tsdb.path=" + filepath.Join(cfg.Dir, "data"),
		"--web.listen-address=" + reserved.Addr(), "--log.level=warn",
	}})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start prometheus: %w", err), reserved.Release())
	}
	ctx, cancel := context.WithTimeout(ctx, prometheusStartLimit)
	defer cancel()
	if err := s.proc.Await(ctx, func(ctx context.Context) error {
		_, err := harness.GetPage(ctx, reserved.Addr(), "/-/ready")
		return err
	}); err != nil {
		return nil, errors.Join(fmt.Errorf("prometheus %w\n%s", err, log.Lines(20)), s.Stop())
	}
	return s, nil
}

// write writes the configuration as JSON, which is valid YAML.
func (c *prometheusConfig) write() (path string, err error) {
	type group map[string][]string
	var jobs []map[string]any
	for name, targets := range c.Targets {
		jobs = append(jobs, map[string]any{"job_name": name, "static_configs": []group{{"targets": targets}}})
	}
	text, err := json.Marshal(map[string]any{
		"global": map[string]string{
			"scrape_interval":     "3s",
			"scrape_timeout":      "3s",
			"evaluation_interval": "3s",
		},
		"rule_files":     c.Rules,
		"scrape_configs": jobs,
	})
	if err != nil {
		return "", err
	}
	path = filepath.Join(c.Dir, "prometheus.yml")
	return path, os.WriteFile(path, text, 0o600)
}

// Stop kills the server, because its data is not needed.
func (s *prometheusServer) Stop() error { return errors.Join(s.proc.Kill(), s.port.Release()) }

type prometheusSample struct {
	Labels map[string]string
	Value  float64
}

func (s *prometheusServer) Query(ctx context.Context, expression string) ([]prometheusSample, error) {
	var answer struct {
		Data struct {
			ResultType string          `json:"resultType"`
			Result     json.RawMessage `json:"result"`
		} `json:"data"`
	}
	if err := s.get(ctx, "/api/v1/query?query="+url.QueryEscape(expression), &answer); err != nil {
		return nil, fmt.Errorf("%s: %w", expression, err)
	}
	if answer.Data.ResultType != "vector" {
		return nil, fmt.Errorf("%s: the result is a %s", expression, answer.Data.ResultType)
	}
	var result []struct {
		Metric map[string]string `json:"metric"`
		Value  [2]any            `json:"value"` // time and value
	}
	if err := json.Unmarshal(answer.Data.Result, &result); err != nil {
		return nil, err
	}
	samples := make([]prometheusSample, 0, len(result))
	for _, r := range result {
		text, _ := r.Value[1].(string)
		value, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", expression, err)
		}
		samples = append(samples, prometheusSample{r.Metric, value})
	}
	return samples, nil
}

func (s *prometheusServer) get(ctx context.Context, path string, into any) error {
	text, err := harness.GetPage(ctx, s.port.Addr(), path)
	if err != nil {
		return err
	}
	return json.Unmarshal([]byte(text), into)
}

// prometheusRule is an alerting rule in the server's API.
type prometheusRule struct {
	Name       string `json:"name"`
	Expression string `json:"query"`
	Health     string `json:"health"` // ok after the first successful evaluation
	State      string `json:"state"`  // inactive, pending or firing
}

func (s *prometheusServer) Rules(ctx context.Context) ([]prometheusRule, error) {
	var answer struct {
		Data struct {
			Groups []struct {
				Rules []prometheusRule `json:"rules"`
			} `json:"groups"`
		} `json:"data"`
	}
	if err := s.get(ctx, "/api/v1/rules", &answer); err != nil {
		return nil, fmt.Errorf("rules: %w", err)
	}
	var rules []prometheusRule
	for _, g := range answer.Data.Groups {
		rules = append(rules, g.Rules...)
	}
	return rules, nil
}

// Selectors returns the selectors in an expression.
func (s *prometheusServer) Selectors(ctx context.Context, expression string) ([]string, error) {
	var answer struct {
		Data json.RawMessage `json:"data"`
	}
	if err := s.get(ctx, "/api/v1/parse_query?query="+url.QueryEscape(expression), &answer); err != nil {
		return nil, fmt.Errorf("%s: %w", expression, err)
	}
	var tree any
	if err := json.Unmarshal(answer.Data, &tree); err != nil {
		return nil, err
	}
	var selectors []string
	walkJSON(tree, func(node map[string]any) {
		if kind := node["type"]; kind != "vectorSelector" && kind != "matrixSelector" {
			return
		}
		var matchers []string
		list, _ := node["matchers"].([]any)
		for _, m := range list {
			m, _ := m.(map[string]any)
			value, _ := m["value"].(string)
			matchers = append(matchers, fmt.Sprint(m["name"], m["type"], strconv.Quote(value)))
		}
		selectors = append(selectors, "{"+strings.Join(matchers, ",")+"}")
	})
	return selectors, nil
}

func walkJSON(tree any, f func(map[string]any)) {
	switch tree := tree.(type) {
	case map[string]any:
		f(tree)
		for _, child := range tree {
			walkJSON(child, f)
		}
	case []any:
		for _, child := range tree {
			walkJSON(child, f)
		}
	}
}

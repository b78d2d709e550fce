package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"isthmus/e2e/program"
	"isthmus/e2e/prometheus"
)

// TestObserved: what docs/metrics.md says is what a gateway exports, and everything that the dashboards and alerts ask
// for is there, as a Prometheus server sees it that scrapes two gateways with streams and changes.
func TestObserved(t *testing.T) {
	t.Parallel()
	o := newObserved(t)
	o.watch()
	o.churn()
	o.stall()
	t.Run("documented", o.documented)
	t.Run("pages", o.pages)

	rules := manifest(t, "alerts/isthmus.yaml")
	server, err := prometheus.Start(t.Context(), prometheus.Config{Dir: t.TempDir(), Rules: []string{rules},
		Targets: map[string][]string{"isthmus": {o.gateways[0].MetricsAddr(), o.gateways[1].MetricsAddr()}}})
	o.check(err)
	t.Cleanup(func() { o.report(server.Stop()) })
	eventually(t, "both gateways are scraped", func(ctx context.Context) error {
		up, err := server.Query(ctx, "sum(up) == 2")
		if err == nil && len(up) == 0 {
			err = fmt.Errorf("not yet")
		}
		return err
	})
	t.Run("dashboards", func(t *testing.T) { checkDashboards(t, server) })
	t.Run("alerts", func(t *testing.T) { checkAlerts(t, server) })
}

// eventually tries until there is no error, or for a minute.
func eventually(t *testing.T, what string, try func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		err := try(ctx)
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

// get asks for a URL.
func get(ctx context.Context, url string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", url, resp.Status)
	}
	return string(text), err
}

// manifest is the absolute path of a file that users apply.
func manifest(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("..", "manifests", name))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// pages: what the gateway tells people about services and streams.
func (o *observed) pages(t *testing.T) {
	for page, want := range map[string]string{
		"services": `"service": "shop/web-federated",\s+"federated": true`,
		"streams":  `"method": "Get",\s+"destination": "web-federated.shop.svc.cluster.local:80",\s+"zone": "west-1a",\s+"streams": 1,`,
		"clusters": `"cluster": "dead",\s+"secret": "cluster-credentials-dead",\s+"state": "unreachable"`,
	} {
		eventually(t, "/debug/"+page, func(ctx context.Context) error {
			text, err := get(ctx, "http://"+o.gateways[0].MetricsAddr()+"/debug/"+page)
			if err == nil && !regexp.MustCompile(want).MatchString(text) {
				err = fmt.Errorf("no %s in\n%s", want, text)
			}
			return err
		})
	}
}

// checkDashboards: every panel's query has a result.
func checkDashboards(t *testing.T, server *prometheus.Server) {
	files, err := filepath.Glob(manifest(t, "dashboards/*.json"))
	if err != nil || len(files) != 2 {
		t.Fatalf("%d dashboards, %v", len(files), err)
	}
	variables := strings.NewReplacer("$job", "isthmus", "$__rate_interval", "20s")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var dashboard struct {
			Title  string
			Panels []struct {
				Title   string
				Targets []struct{ Expr string }
			}
		}
		if err := json.Unmarshal(text, &dashboard); err != nil || len(dashboard.Panels) == 0 {
			t.Fatalf("%s: %d panels, %v", file, len(dashboard.Panels), err)
		}
		for _, panel := range dashboard.Panels {
			if len(panel.Targets) == 0 {
				t.Errorf("%s: %s asks for nothing", dashboard.Title, panel.Title)
			}
			for _, target := range panel.Targets {
				eventually(t, dashboard.Title+": "+panel.Title, func(ctx context.Context) error {
					return answered(ctx, server, variables.Replace(target.Expr))
				})
			}
		}
	}
}

// answered returns an error unless an expression has a result with a number.
func answered(ctx context.Context, server *prometheus.Server, expression string) error {
	samples, err := server.Query(ctx, expression)
	if err != nil {
		return err
	}
	for _, s := range samples {
		if s.Value == s.Value { // a quantile of nothing is not a number
			return nil
		}
	}
	return fmt.Errorf("%s: %d series, none with a number", expression, len(samples))
}

// checkAlerts: the rules are well formed, do what their tests say, are evaluated without an error, and look at series
// that are there. None of them fires but, after five minutes, that about the cluster which is not there.
func checkAlerts(t *testing.T, server *prometheus.Server) {
	promtool, err := program.Promtool.Path(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"check", "rules", "--lint-fatal", manifest(t, "alerts/isthmus.yaml")},
		{"test", "rules", "testdata/alerts/isthmus.yaml"},
	} {
		if text, err := exec.CommandContext(t.Context(), promtool, args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, text)
		}
	}
	var rules []prometheus.Rule
	eventually(t, "there are rules", func(ctx context.Context) error {
		if rules, err = server.Rules(ctx); err == nil && len(rules) == 0 {
			err = errors.New("none")
		}
		return err
	})
	for _, rule := range rules {
		eventually(t, rule.Name+" looks at series", func(ctx context.Context) error {
			selectors, err := server.Selectors(ctx, rule.Expression)
			if err == nil && len(selectors) == 0 {
				err = errors.New("it selects nothing")
			}
			for _, s := range selectors {
				err = errors.Join(err, answered(ctx, server, s))
			}
			return err
		})
	}
	eventually(t, "all rules are evaluated", func(ctx context.Context) error {
		rules, err := server.Rules(ctx)
		for _, rule := range rules {
			if err == nil && (rule.Health != "ok" || rule.State == "firing" && rule.Name != "IsthmusClusterUnreached") {
				err = fmt.Errorf("%s is %s, %s", rule.Name, rule.Health, rule.State)
			}
		}
		return err
	})
}

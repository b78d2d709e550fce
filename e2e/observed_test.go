package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"isthmus/e2e/harness"
)

// TestObserved: docs/metrics.md lists what a gateway exports, and everything that the dashboards and alerts ask
// for is there, as a Prometheus server sees it that scrapes two gateways with streams and changes.
func TestObserved(t *testing.T) {
	t.Parallel()
	o := newObserved(t)
	o.watch()
	o.churn()
	o.stall()
	t.Run("documented", o.documented)
	t.Run("pages", o.pages)
	t.Run("get", o.get)

	rules := manifest(t, "alerts/isthmus.yaml")
	server, err := startPrometheus(t.Context(), prometheusConfig{Dir: t.TempDir(), Rules: []string{rules},
		Targets: map[string][]string{"isthmus": {o.gateways[0].MetricsAddr(), o.gateways[1].MetricsAddr()}}})
	must(o.t, err)
	atEnd(t, server.Stop)
	await(t, "both gateways are scraped", func() error {
		up, err := server.Query(t.Context(), "sum(up) == 2")
		if err == nil && len(up) == 0 {
			err = fmt.Errorf("not yet")
		}
		return err
	})
	t.Run("dashboards", func(t *testing.T) { checkDashboards(t, server) })
	t.Run("alerts", func(t *testing.T) { checkAlerts(t, server) })
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

// pages: what the gateway shows about services, streams and clusters.
func (o *observed) pages(t *testing.T) {
	for page, want := range map[string]string{
		"services": `"service": "shop/web-federated",\s+"federated": true(.*\s+)+?"prefer": "local, any"(.*\s+)+?"tier": "local",\s+"inUse": true`,
		"streams":  `"method": "Get",\s+"destination": "web-federated.shop.svc.cluster.local:80",\s+"zone": "west-1a",\s+"streams": 1,`,
		"clusters": `"cluster": "dead",\s+"secret": "cluster-credentials-dead",\s+"state": "unreachable"`,
	} {
		await(t, "/debug/"+page, func() error {
			text, err := harness.GetPage(t.Context(), o.gateways[0].MetricsAddr(), "/debug/"+page)
			if err == nil && !regexp.MustCompile(want).MatchString(text) {
				err = fmt.Errorf("no %s in\n%s", want, text)
			}
			return err
		})
	}
}

// get: isthmus get shows which tier the endpoints belong to, and proxies are not sent that.
func (o *observed) get(t *testing.T) {
	isthmus, err := harness.Isthmus.Path(t.Context())
	must(t, err)
	text, err := exec.CommandContext(t.Context(), isthmus, "get", federatedShop, "--addr", o.gateways[0].Addr(), "--once", "-o", "json").CombinedOutput()
	if err != nil || !strings.Contains(string(text), `"isthmus_standing":"in-service","isthmus_tier":"local"`) {
		t.Errorf("isthmus get: %v\n%s", err, text)
	}
	for _, e := range o.stream.Snapshot().Get.Endpoints() {
		for name := range e.Labels() {
			if strings.HasPrefix(name, "isthmus") {
				t.Errorf("a proxy was sent the label %s", name)
			}
		}
	}
}

// checkDashboards: every panel's query has a result.
func checkDashboards(t *testing.T, server *prometheusServer) {
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
				Type    string
				Targets []struct{ Expr string }
			}
		}
		if err := json.Unmarshal(text, &dashboard); err != nil || len(dashboard.Panels) == 0 {
			t.Fatalf("%s: %d panels, %v", file, len(dashboard.Panels), err)
		}
		for _, panel := range dashboard.Panels {
			if len(panel.Targets) == 0 && panel.Type != "row" {
				t.Errorf("%s: %s asks for nothing", dashboard.Title, panel.Title)
			}
			for _, target := range panel.Targets {
				await(t, dashboard.Title+": "+panel.Title, func() error {
					return answered(t.Context(), server, variables.Replace(target.Expr))
				})
			}
		}
	}
}

// answered returns an error unless an expression has a result with a number.
func answered(ctx context.Context, server *prometheusServer, expression string) error {
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

// checkAlerts: the rules are well formed, pass their tests, are evaluated without an error, and look at series
// that are there. None of them fires but, after five minutes, that about the cluster which is not there.
func checkAlerts(t *testing.T, server *prometheusServer) {
	promtool, err := harness.Promtool.Path(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"check", "rules", "--lint-fatal", manifest(t, "alerts/isthmus.yaml")},
		{"test", "rules", "testdata/alerts/isthmus.yaml", "testdata/alerts/weeks.yaml"},
	} {
		if text, err := exec.CommandContext(t.Context(), promtool, args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, text)
		}
	}
	var rules []prometheusRule
	await(t, "there are rules", func() error {
		if rules, err = server.Rules(t.Context()); err == nil && len(rules) == 0 {
			err = errors.New("none")
		}
		return err
	})
	for _, rule := range rules {
		await(t, rule.Name+" looks at series", func() error {
			selectors, err := server.Selectors(t.Context(), rule.Expression)
			if err == nil && len(selectors) == 0 {
				err = errors.New("it selects nothing")
			}
			for _, s := range selectors {
				err = errors.Join(err, answered(t.Context(), server, s))
			}
			return err
		})
	}
	await(t, "all rules are evaluated", func() error {
		rules, err := server.Rules(t.Context())
		for _, rule := range rules {
			if err == nil && (rule.Health != "ok" || rule.State == "firing" && rule.Name != "IsthmusClusterUnreached") {
				err = fmt.Errorf("%s is %s, %s", rule.Name, rule.Health, rule.State)
			}
		}
		return err
	})
}

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"isthmus/e2e/program"
)

// verbRun is what a run of the isthmus command printed, and its exit code.
type verbRun struct {
	stdout, stderr string
	code           int
}

// runVerb runs the isthmus command, or a link to it, to its end.
func runVerb(t *testing.T, file string, args ...string) verbRun {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(t.Context(), file, args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return verbRun{out.String(), errs.String(), cmd.ProcessState.ExitCode()}
}

// verbs: isthmus clusters and isthmus services show the world as it is, to people and to programs.
func (o *observed) verbs(t *testing.T) {
	isthmus, err := program.Isthmus.Path(t.Context())
	must(t, err)
	plugin := filepath.Join(t.TempDir(), "kubectl-isthmus")
	isthmus, err = filepath.Abs(isthmus)
	must(t, err)
	must(t, os.Symlink(isthmus, plugin))
	admin := o.gateways[0].MetricsAddr()
	for _, c := range []struct {
		args string
		want []string // patterns
	}{
		{"clusters", []string{
			`^\d\d:\d\d:\d\d\.000  ` + regexp.QuoteMeta(admin) + `: 4 links \(3 ready, 1 unreachable\)\n  CLUSTER  STATE  `,
			`(?m)^  local    ready        \d+\w+ +in-service   \S+ +\d+ +\d+ +\d+ +- +\w+ +-$`,
			`(?m)^  east     ready        \d+\w+ +in-service   - +\d+ +\d+ +\d+ +\d+ % `,
			`(?m)^  dead     unreachable  \d+\w+ +last-resort  .*(refused|EOF|reset)`,
			`(?m)^  behind   elsewhere  127\.0\.0\.1:4143  alive  +\d+\w+ +- +gateway\.test  `,
		}},
		{"services", []string{
			`(?m)^  shop/web-federated +federated +local, (east, north|north, east) +80: local \d+, (east \d+, north \d+|north \d+, east \d+) +[1-9]\d* +local `,
			`(?m)^  shop/cart-east +mirror +east `,
		}},
		{"services web-federated.shop.svc.cluster.local:80", []string{
			`: 1 service\n`, `(?m)^shop/web-federated prefers local, any \(min-ready `,
			`(?m)^  80    west-1a  - +- +local(, any)? +local \d+, any \d+ +\d+\w+ +\S+`,
		}},
	} {
		await(t, c.args, func() error {
			r := runVerb(t, plugin, append(strings.Fields(c.args), "--admin", admin)...)
			if r.code != 0 || r.stderr != "" || strings.Contains(r.stdout, "\x1b") {
				return fmt.Errorf("exit code %d, %q\n%s", r.code, r.stderr, r.stdout)
			}
			for _, want := range c.want {
				if !regexp.MustCompile(want).MatchString(r.stdout) {
					return fmt.Errorf("no %s in\n%s", want, r.stdout)
				}
			}
			return nil
		})
	}
	o.verbsForPrograms(t, isthmus, admin)
	o.verbsWithoutGateway(t, plugin)
}

// verbsForPrograms: -o json is one object in a line, with --watch too.
func (o *observed) verbsForPrograms(t *testing.T, isthmus, admin string) {
	var clusters struct {
		Gateway  string
		Local    struct{ State string }
		Clusters []struct{ Cluster, State, Standing string }
	}
	r := runVerb(t, isthmus, "clusters", "-o", "json", "--admin", admin)
	if err := json.Unmarshal([]byte(r.stdout), &clusters); err != nil || strings.Count(r.stdout, "\n") != 1 ||
		clusters.Gateway != admin || clusters.Local.State != "ready" || len(clusters.Clusters) != 4 {
		t.Errorf("%v, %+v of %+v", err, clusters, r)
	}
	var services struct {
		Services []struct {
			Service   string
			Federated bool
			Members   []struct{ Cluster string }
		}
	}
	r = runVerb(t, isthmus, "services", "shop/web-federated", "-o", "json", "--admin", admin)
	if err := json.Unmarshal([]byte(r.stdout), &services); err != nil || len(services.Services) != 1 || !services.Services[0].Federated || len(services.Services[0].Members) != 3 {
		t.Errorf("%v, %+v of %+v", err, services, r)
	}
	watch := exec.CommandContext(t.Context(), isthmus, "clusters", "--watch", "-o", "json", "--admin", admin)
	out, err := watch.StdoutPipe()
	must(t, err)
	must(t, watch.Start())
	if err := json.NewDecoder(out).Decode(&clusters); err != nil {
		t.Errorf("clusters --watch: %v", err)
	}
	must(t, watch.Process.Signal(os.Interrupt))
	if err := watch.Wait(); err != nil {
		t.Errorf("clusters --watch ends by a signal: %v", err)
	}
}

// verbsWithoutGateway: exit codes and texts where there is nothing to ask, or nothing that answers.
func (o *observed) verbsWithoutGateway(t *testing.T, plugin string) {
	silent, err := net.Listen("tcp", "127.0.0.1:0") // its backlog takes connections, and nobody answers
	must(t, err)
	atEnd(t, silent.Close)
	admin := o.gateways[0].MetricsAddr()
	for _, c := range []struct {
		args   string
		code   int
		stderr string
	}{
		{"clusters --admin 127.0.0.1:1", 1, "^kubectl isthmus clusters: dial tcp 127.0.0.1:1: connect: connection refused\n  Is the gateway running\\?"},
		{"clusters --admin " + o.gateways[0].Addr(), 1, "^kubectl isthmus clusters: "}, // speaks gRPC
		{"clusters --timeout 1500ms --admin " + silent.Addr().String(), 1, `^kubectl isthmus clusters: waiting for /debug/clusters of \S+, for 1.5s at most\n` +
			`kubectl isthmus clusters: \S+ has not answered within 1.5s \(--timeout\)\n$`},
		{"get web:80 --timeout 1500ms --addr " + silent.Addr().String(), 1, `^kubectl isthmus get: waiting for the first message of \S+, for 1.5s at most\n` +
			`kubectl isthmus get: \S+ has sent nothing within 1.5s \(--timeout\)\n`},
		{"services shop/none --admin " + admin, 1, "not on " + regexp.QuoteMeta(admin) + ": shop/none\n"},
		{"servces", 2, `^kubectl isthmus: unknown verb "servces": did you mean services\? \(kubectl isthmus --help explains\)\n$`},
		{"services -o yaml", 2, `^kubectl isthmus services: -o is "yaml": give table or json `},
	} {
		began := time.Now()
		r := runVerb(t, plugin, strings.Fields(c.args)...)
		if r.code != c.code || !regexp.MustCompile(c.stderr).MatchString(r.stderr) {
			t.Errorf("%s: exit code %d, stderr %q, want %s", c.args, r.code, r.stderr, c.stderr)
		}
		if took := time.Since(began); took > 15*time.Second {
			t.Errorf("%s took %v", c.args, took)
		}
	}
}

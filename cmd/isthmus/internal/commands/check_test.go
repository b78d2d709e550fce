package commands

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"isthmus/cmd/isthmus/internal/check"
	"isthmus/cmd/isthmus/internal/cli"
	"isthmus/cmd/isthmus/internal/reach"
	"isthmus/internal/adminapi"
)

// goodPages returns the pages of a replica without problems. The version of the replica is the
// version of this program.
func goodPages() (adminapi.Clusters, []adminapi.Service) {
	api := &adminapi.APIServer{
		Answered: noon, Clock: &adminapi.Clock{}, Version: "v1.36.3", Networks: &adminapi.PodNetworks{},
		Anchors: &adminapi.TrustAnchors{List: []adminapi.Anchor{{SHA256: "a",
			Expires: time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)}}},
	}
	ready := adminapi.ClusterStatus{State: adminapi.Ready, Standing: adminapi.InService, API: api}
	return adminapi.Clusters{
		Replica: adminapi.Replica{Version: testBuild.Version}, Local: adminapi.Cluster{ClusterStatus: ready},
		Secrets:  adminapi.LinkSecrets{Namespace: "linkerd", Listed: true},
		Clusters: []adminapi.Cluster{{Cluster: "east", Secret: "link-east", ClusterStatus: ready}},
		Writer:   &adminapi.SliceWriter{Identity: "isthmus-0", Holder: "isthmus-0", Leading: true},
	}, nil
}

func jsonOf(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// spoiled adds a problem of each level to a page.
func spoiled(c *adminapi.Clusters) {
	c.Clusters[0].API.Networks = nil // also changes the other page, which shares the pointer
	c.Clusters = append(c.Clusters,
		adminapi.Cluster{Secret: "odd", SecretRefused: "no \x1b[2Jlabel",
			ClusterStatus: adminapi.ClusterStatus{State: adminapi.Rejected}})
	c.Clusters[0].Standing, c.Clusters[0].StandingReason = adminapi.Withdrawn, "cordoned"
}

func TestMarks(t *testing.T) {
	for _, c := range []struct {
		env  map[string]string
		want string
	}{
		{map[string]string{"LANG": "en_US.UTF-8"}, "✓"}, {map[string]string{"LC_CTYPE": "C.utf8"}, "✓"},
		{map[string]string{"LANG": "en_US.UTF-8", "LC_ALL": "C"}, "[ok]  "}, {nil, "[ok]  "},
		{map[string]string{"LANG": "de_DE"}, "[ok]  "},
	} {
		if m := marksOf(func(name string) string { return c.env[name] }); m.byLevel[check.OK] != c.want {
			t.Errorf("%v: %q, want %q", c.env, m.byLevel[check.OK], c.want)
		}
	}
}

// TestCheckReplicas checks that a result that replicas share is listed once. Differing results are
// listed with the names of the replicas, and the difference is counted.
func TestCheckReplicas(t *testing.T) {
	page := func(changes ...func(*check.Input)) *check.Input {
		s := new(check.Input)
		s.Clusters, s.Services = goodPages()
		s.Writer.Leading = false
		for _, change := range append([]func(*check.Input){cordoned}, changes...) {
			change(s)
		}
		return s
	}
	leads := func(s *check.Input) { s.Writer.Leading = true }
	away := func(s *check.Input) { c := *s.Local.API; c.Error = "refused"; s.Clusters.Clusters[0].API = &c }
	member := func(s *check.Input) {
		s.Services = []adminapi.Service{{Service: "shop/web",
			Members: []adminapi.Member{{Cluster: "east"}, {Cluster: "a", Reason: "gone"},
				{Cluster: "b", Reason: "gone"}}}}
	}
	leader, other := page(leads), page()
	const cordon = "warning link-state east"
	for name, c := range map[string]struct {
		pages []*check.Input
		errs  []error
		want  []string
	}{
		"alike": {[]*check.Input{leader, other}, nil, []string{cordon}},
		"one finds more": {[]*check.Input{leader, page(away)}, nil,
			[]string{"failure api east (b)", cordon, "warning replicas : the replicas differ: api east"}},
		"a summary here, two results there": {[]*check.Input{leader, page(member)}, nil,
			[]string{cordon, "warning members shop/web (b)", "warning members shop/web (b)",
				"warning replicas : the replicas differ: members shop/web"}},
		"another version": {[]*check.Input{leader, page(func(s *check.Input) { s.Replica.Version = "v0" })}, nil,
			[]string{cordon,
				"warning version b: its version is v0, but the version of this program is " + testBuild.Version}},
		"two writers": {[]*check.Input{leader, leader}, nil,
			[]string{"failure replicas : more than one replica writes EndpointSlices: a, b", cordon}},
		"no writer": {[]*check.Input{other, other}, nil,
			[]string{cordon, "warning replicas : none of the replicas writes EndpointSlices"}},
		"one that is not ready": {[]*check.Input{leader, other, nil},
			[]error{nil, nil, errors.New("Pod c is not ready: CrashLoopBackOff\n  look")},
			[]string{"failure gateway c: its Pod is not ready: CrashLoopBackOff", cordon}},
		"one silent": {[]*check.Input{leader, nil}, []error{nil, errors.New("it has not answered\n  Is it there?")},
			[]string{"failure gateway b: it has not answered", cordon}},
	} {
		s := new(checkState)
		var answers []Answer[check.Input]
		for i, page := range c.pages {
			a := Answer[check.Input]{Replica: string(rune('a' + i)), Value: page, Origin: thisFormat}
			if c.errs != nil {
				a.Err = c.errs[i]
			}
			answers = append(answers, a)
		}
		s.merge(answers, testBuild)
		if n := len(c.pages); c.errs != nil &&
			slices.ContainsFunc(s.Results,
				func(r check.Result) bool { return r.Text == fmt.Sprint(n, " replicas agree") }) {
			t.Errorf("%s: %d replicas agree although some did not respond", name, n)
		}
		var bad []string
		for _, r := range s.Results {
			if r.Level == check.OK {
				continue
			}
			line := string(r.Level) + " " + r.Check + " " + r.Object
			if r.Section == check.SectionReplicas {
				line += ": " + r.Text
			}
			if r.Gateway != "" {
				line += " (" + r.Gateway + ")"
			}
			if r.Hint == "" {
				line += " without a hint"
			}
			bad = append(bad, line)
		}
		slices.Sort(bad)
		if !slices.Equal(bad, c.want) {
			t.Errorf("%s:\n  %s\nwant\n  %s", name, strings.Join(bad, "\n  "), strings.Join(c.want, "\n  "))
		}
	}
}

func cordoned(s *check.Input) {
	s.Clusters.Clusters[0].Standing, s.Clusters.Clusters[0].StandingReason = adminapi.Withdrawn, "cordoned"
}

// TestCheckWaits checks that the checks are repeated until none fails or the time is over.
func TestCheckWaits(t *testing.T) {
	var asked atomic.Int64
	clusters, services := goodPages()
	good := jsonOf(clusters)
	spoiled(&clusters)
	bad := jsonOf(clusters)
	admin := startAdmin(t,
		map[string]http.HandlerFunc{"/debug/services": answer(jsonOf(services)),
			"/debug/clusters": func(w http.ResponseWriter, _ *http.Request) {
				if asked.Add(1) < 4 {
					io.WriteString(w, bad)
					return
				}
				io.WriteString(w, good)
			}})
	run := func(wait time.Duration) (string, string, error) {
		var out, errs bytes.Buffer
		o := &checkOptions{
			Target: Target{Options: reach.Options{Address: admin}, Timeout: time.Minute},
			wait:   wait, every: time.Millisecond,
		}
		err := runCheck(t.Context(),
			cli.Process{Name: "isthmus check", Build: testBuild, Stdout: &out, Stderr: &errs}, o)
		return out.String(), errs.String(), err
	}
	if out, errs, err := run(time.Minute); err != nil || asked.Load() != 4 ||
		strings.Count(errs, "waiting, for 1m0s at most: 1 failure, first") != 1 ||
		strings.Count(out, "Gateway\n") != 1 {
		t.Errorf("%v after %d requests, stderr %q, stdout:\n%s", err, asked.Load(), errs, out)
	}
	asked.Store(-1 << 40)
	if _, _, err := run(20 * time.Millisecond); err == nil || asked.Load() == -1<<40 {
		t.Errorf("%v after %d requests", err, asked.Load()+1<<40)
	}
}

// TestCheckFromHere checks that the remaining checks run with the user's kubeconfig if no replica
// exists.
func TestCheckFromHere(t *testing.T) {
	t.Setenv("LC_ALL", "C")
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"kind":"PodList","apiVersion":"v1","items":[]}`)
	}))
	defer api.Close()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	kubeconfig := fmt.Sprintf(`{
		"apiVersion":"v1","kind":"Config","current-context":"c",
		"contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],
		"clusters":[{"name":"c","cluster":{"server":%q}}],
		"users":[{"name":"u","user":{"token":"secret"}}]
	}`, api.URL)
	if err := os.WriteFile(file, []byte(kubeconfig), 0o600); err != nil {
		t.Fatal(err)
	}
	pre := false
	preflight := func(_ context.Context, p preflightOptions) check.Input {
		if p.config.Host != api.URL || p.namespace != "mesh" || p.account != "dst" || p.pre != pre || p.exports != pre {
			t.Errorf("server %s, %s/%s, before an installation: %v", p.config.Host, p.namespace, p.account, p.pre)
		}
		seen := check.Input{FromHere: true}
		seen.Clusters, _ = goodPages()
		return seen
	}
	run := func(args ...string) (code int, out string) {
		program := &cli.Program{
			Name:   "isthmus",
			Build:  testBuild,
			Groups: []cli.Group{{Title: "Verbs", Commands: []cli.Command{checkCommand(preflight)}}},
		}
		var stdout, stderr bytes.Buffer
		args = append([]string{"check", "--kubeconfig", file, "-n", "mesh", "--service-account", "dst"}, args...)
		code = program.Run(t.Context(),
			cli.Process{Args: args, Stdout: &stdout, Stderr: &stderr, Signals: make(chan os.Signal)})
		return code, stdout.String() + stderr.String()
	}
	code, out := run()
	for _, want := range []string{"No replica responded. These checks ran on this machine",
		"[fail] no replica in namespace mesh", "; before an installation, run isthmus check --pre\n",
		"local: the API server answers"} {
		if code != 1 || !strings.Contains(out, want) {
			t.Errorf("exit code %d, %q is missing in\n%s", code, want, out)
		}
	}
	pre = true
	if code, out := run("--pre", "--exports"); code != 0 || !strings.Contains(out, "All is fine: ") ||
		strings.Contains(out, "[fail]") {
		t.Errorf("exit code %d\n%s", code, out)
	}
	for _, other := range []string{"--admin=127.0.0.1:1", "--pod=isthmus-0"} {
		if code, _, out := call("check", "--pre", other); code != 2 {
			t.Errorf("%s: exit code %d\n%s", other, code, out)
		}
	}
}

package client

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
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"isthmus/cmd/isthmus/internal/cli"
	"isthmus/internal/adminapi"
)

// checkJSON is a page of a gateway whose version is that of this program.
func checkJSON(results ...adminapi.CheckResult) string {
	text, err := json.Marshal(adminapi.Check{Version: testBuild.Version, Replica: "isthmus-0", Leading: true, At: noon, Results: results})
	if err != nil {
		panic(err)
	}
	return string(text)
}

var (
	fine    = adminapi.CheckResult{Section: "Kubernetes API", Check: "api", Object: "local", Level: "ok", Text: "it answers"}
	warning = adminapi.CheckResult{Section: "Trust", Check: "trust-anchors", Object: "east", Level: "warning", Text: "they expire", Hint: "rotate them"}
	failure = adminapi.CheckResult{Section: "Links", Check: "link-secret", Object: "odd", Level: "failure", Text: "no \x1b[2Jlabel", Hint: "mend it\nnow"}
	unread  = adminapi.CheckResult{Section: "Networks", Check: "pod-networks", Object: "east", Level: "unchecked", Text: "may not read Nodes"}
)

const checkTable = `Gateway
  ✓ ADMIN: it answers
  ✓ ADMIN: its version is that of this program, VERSION

Kubernetes API
  ✓ local, east: it answers

Links
  ✗ "odd: no \x1b[2Jlabel"
      → "mend it\nnow"

Trust
  ‼ east: they expire
      → rotate them

Networks
  ? east: not checked: may not read Nodes

1 failure, 1 warning, 1 not checked.
`

// TestCheckTable: each level, exit codes, and plain text where the locale has no more.
func TestCheckTable(t *testing.T) {
	t.Setenv("LC_ALL", "C.UTF-8")
	other := fine
	other.Object = "east"
	admin := startAdmin(t, map[string]http.HandlerFunc{"/debug/check": text(checkJSON(fine, other, warning, failure, unread))})
	want := strings.NewReplacer("ADMIN", admin, "VERSION", testBuild.Version).Replace(checkTable)
	code, out, err := call("check", "--admin", admin)
	if code != 1 || out != want || !strings.Contains(err, "1 check has failed") {
		t.Errorf("exit code %d, stderr %q, stdout:\n%s\nwant:\n%s", code, err, out, want)
	}
	t.Setenv("LC_ALL", "C")
	plain := strings.NewReplacer("✓", "[ok]  ", "✗", "[fail]", "‼", "[warn]", "  ? ", "  [skip] ", "→", "->").Replace(want)
	if _, out, _ := call("check", "--admin", admin); out != plain {
		t.Errorf("stdout:\n%s\nwant:\n%s", out, plain)
	}
	admin = startAdmin(t, map[string]http.HandlerFunc{"/debug/check": text(checkJSON(fine, warning, unread))})
	if code, out, err := call("check", "--admin", admin); code != 0 || err != "" || !strings.Contains(out, "1 warning, 1 not checked.\n") {
		t.Errorf("exit code %d, stderr %q, stdout:\n%s", code, err, out)
	}
	for _, args := range [][]string{{"check", "east"}, {"check", "--wait", "-1s"}, {"check", "--wait", "soon"}, {"check", "-o", "yaml"}, {"check", "--admin", "x"}} {
		if code, out, _ := call(args...); code != 2 || out != "" {
			t.Errorf("%q: exit code %d, %s", args, code, out)
		}
	}
}

func TestMarks(t *testing.T) {
	for _, c := range []struct {
		env  map[string]string
		want string
	}{
		{map[string]string{"LANG": "en_US.UTF-8"}, "✓"}, {map[string]string{"LC_CTYPE": "C.utf8"}, "✓"},
		{map[string]string{"LANG": "en_US.UTF-8", "LC_ALL": "C"}, "[ok]  "}, {nil, "[ok]  "}, {map[string]string{"LANG": "de_DE"}, "[ok]  "},
	} {
		if m := marksOf(func(name string) string { return c.env[name] }); m.byLevel[adminapi.CheckOK] != c.want {
			t.Errorf("%v: %q, want %q", c.env, m.byLevel[adminapi.CheckOK], c.want)
		}
	}
}

// TestCheckMany: what is fine of many clusters is summed up, and of what is not the first ones
// are shown.
func TestCheckMany(t *testing.T) {
	s := &checkState{marks: asciiMarks}
	for i := range 100 {
		good, bad := fine, warning
		good.Object, bad.Object = fmt.Sprint("c", i), fmt.Sprint("c", i)
		s.add(good)
		s.add(bad)
		good.Check, good.Text = "link-expiry", fmt.Sprint("is good until ", i)
		s.add(good)
	}
	s.sort()
	slices.SortStableFunc(s.results, func(a, b adminapi.CheckResult) int { return strings.Compare(a.Check, b.Check) })
	out := string(s.table())
	for _, want := range []string{"[ok]   c0, c1, c2, c3, c4 and 95 more: it answers\n", "[ok]   100 are fine (link-expiry): -o json has each\n", "[warn] c19: they expire\n      -> rotate them\n  [warn] 80 more like these: -o json has all\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if n := strings.Count(out, "rotate them"); n != 1 {
		t.Errorf("the same hint is there %d times", n)
	}
}

// TestCheckFields: the help lists the fields that there are.
func TestCheckFields(t *testing.T) {
	fields := func(types ...any) (names []string) {
		for _, v := range types {
			for _, f := range reflect.VisibleFields(reflect.TypeOf(v)) {
				name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
				names = append(names, name)
			}
		}
		slices.Sort(names)
		return names
	}
	var listed []string
	for _, m := range regexp.MustCompile(`"([a-z]+)":`).FindAllStringSubmatch(checkEnding, -1) {
		listed = append(listed, m[1])
	}
	slices.Sort(listed)
	if have := fields(checkSnapshot{}, checkedGateway{}, adminapi.CheckResult{}); !slices.Equal(have, listed) {
		t.Errorf("the help lists\n%q, there are\n%q", listed, have)
	}
}

// TestCheckReplicas: what replicas find alike is there once; what they find otherwise is there
// with their names, and counts.
func TestCheckReplicas(t *testing.T) {
	leader, other := &adminapi.Check{Version: "v1", Leading: true, Results: []adminapi.CheckResult{fine, warning}}, &adminapi.Check{Version: "v1", Results: []adminapi.CheckResult{fine, warning}}
	away := adminapi.CheckResult{Section: "Kubernetes API", Check: "api", Object: "east", Level: "failure", Text: "it does not answer", Hint: "look"}
	there := away
	there.Level, there.Text = "ok", "it answers"
	summary := adminapi.CheckResult{Section: "Services", Check: "members", Level: "ok", Text: "all serve"}
	member := adminapi.CheckResult{Section: "Services", Check: "members", Object: "shop/web", Level: "warning", Text: "one does not serve", Hint: "look"}
	for name, c := range map[string]struct {
		pages []*adminapi.Check
		errs  []error
		want  []string
	}{
		"alike": {[]*adminapi.Check{leader, other}, nil, []string{"warning trust-anchors east"}},
		"one finds more": {[]*adminapi.Check{leader, {Version: "v1", Results: []adminapi.CheckResult{fine, warning, away}}}, nil,
			[]string{"failure api east (b)", "warning replicas : the replicas differ: api east", "warning trust-anchors east"}},
		"they differ": {[]*adminapi.Check{{Version: "v1", Leading: true, Results: []adminapi.CheckResult{there}}, {Version: "v1", Results: []adminapi.CheckResult{away}}}, nil,
			[]string{"failure api east (b)", "warning replicas : the replicas differ: api east"}},
		"a summary here, two results there": {[]*adminapi.Check{{Version: "v1", Leading: true, Results: []adminapi.CheckResult{summary}}, {Version: "v1", Results: []adminapi.CheckResult{member, member}}}, nil,
			[]string{"warning members shop/web (b)", "warning members shop/web (b)", "warning replicas : the replicas differ: members shop/web"}},
		"another version": {[]*adminapi.Check{leader, {Version: "v0", Results: leader.Results}}, nil,
			[]string{"warning trust-anchors east", "warning version b: its version is v0, that of this program v1"}},
		"two writers": {[]*adminapi.Check{leader, leader}, nil, []string{"failure replicas : more than one of them writes EndpointSlices: a, b", "warning trust-anchors east"}},
		"no writer":   {[]*adminapi.Check{other, other}, nil, []string{"warning replicas : none of them writes EndpointSlices", "warning trust-anchors east"}},
		"one that is not ready": {[]*adminapi.Check{leader, other, nil}, []error{nil, nil, &notReadyError{"ns/c", "CrashLoopBackOff", "look"}},
			[]string{"failure gateway c: its Pod is not ready: CrashLoopBackOff", "warning trust-anchors east"}},
		"one silent": {[]*adminapi.Check{leader, nil}, []error{nil, errors.New("it has not answered\n  Is it there?")},
			[]string{"failure gateway b: it has not answered", "warning trust-anchors east"}},
	} {
		s := new(checkState)
		var answers []answer
		for i, page := range c.pages {
			a := answer{gateway: string(rune('a' + i)), value: page}
			if c.errs != nil {
				a.err = c.errs[i]
			}
			answers = append(answers, a)
		}
		s.merge(answers, "v1")
		if n := len(c.pages); c.errs != nil && slices.ContainsFunc(s.results, func(r adminapi.CheckResult) bool { return r.Text == fmt.Sprint(n, " replicas agree") }) {
			t.Errorf("%s: %d replicas agree, of which some have not answered", name, n)
		}
		var bad []string
		for _, r := range s.results {
			if r.Level == adminapi.CheckOK {
				continue
			}
			line := string(r.Level) + " " + r.Check + " " + r.Object
			if r.Section == sectionGateway {
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

// TestCheckWaits: the checks are repeated until none has failed, or the time is over.
func TestCheckWaits(t *testing.T) {
	var asked atomic.Int64
	admin := startAdmin(t, map[string]http.HandlerFunc{"/debug/check": func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) < 4 {
			io.WriteString(w, checkJSON(failure))
			return
		}
		io.WriteString(w, checkJSON(fine))
	}})
	run := func(wait time.Duration) (string, string, error) {
		var out, errs bytes.Buffer
		o := &checkOptions{adminOptions: adminOptions{printing: printing{"table", time.Minute}, targeting: targeting{flag: "--admin", address: admin}}, wait: wait, every: time.Millisecond, version: testBuild.Version}
		err := runCheck(t.Context(), cli.Process{Name: "isthmus check", Stdout: &out, Stderr: &errs}, o)
		return out.String(), errs.String(), err
	}
	if out, errs, err := run(time.Minute); err != nil || asked.Load() != 4 || strings.Count(errs, "waiting, for 1m0s at most: 1 failure, first") != 1 || strings.Count(out, "Gateway\n") != 1 {
		t.Errorf("%v after %d requests, stderr %q, stdout:\n%s", err, asked.Load(), errs, out)
	}
	asked.Store(-1 << 40)
	if _, _, err := run(20 * time.Millisecond); err == nil || asked.Load() == -1<<40 {
		t.Errorf("%v after %d requests", err, asked.Load()+1<<40)
	}
}

// TestCheckFromHere: where there is no gateway, all else is checked from here, with the user's
// kubeconfig.
func TestCheckFromHere(t *testing.T) {
	t.Setenv("LC_ALL", "C")
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"kind":"PodList","apiVersion":"v1","items":[]}`)
	}))
	defer api.Close()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	kubeconfig := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"c","contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],"clusters":[{"name":"c","cluster":{"server":%q}}],"users":[{"name":"u","user":{"token":"secret"}}]}`, api.URL)
	if err := os.WriteFile(file, []byte(kubeconfig), 0o600); err != nil {
		t.Fatal(err)
	}
	pre := false
	preflight := func(_ context.Context, p Preflight) []adminapi.CheckResult {
		if p.Config.Host != api.URL || p.Namespace != "mesh" || p.Account != "dst" || p.Pre != pre {
			t.Errorf("server %s, %s/%s, before an installation: %v", p.Config.Host, p.Namespace, p.Account, p.Pre)
		}
		return []adminapi.CheckResult{fine}
	}
	check := func(args ...string) (code int, out string) {
		program := &cli.Program{Name: "isthmus", Groups: []cli.Group{{Title: "Verbs", Verbs: Verbs(testBuild, preflight)}}}
		var stdout, stderr bytes.Buffer
		args = append([]string{"check", "--kubeconfig", file, "-n", "mesh", "--service-account", "dst"}, args...)
		code = program.Run(t.Context(), cli.Process{Args: args, Stdout: &stdout, Stderr: &stderr, Signals: make(chan os.Signal)})
		return code, stdout.String() + stderr.String()
	}
	code, out := check()
	for _, want := range []string{"No gateway was asked: what follows was checked from here", "[fail] no gateway in namespace mesh", "; before an installation: isthmus check --pre\n", "[ok]   local: it answers"} {
		if code != 1 || !strings.Contains(out, want) {
			t.Errorf("exit code %d, no %q in\n%s", code, want, out)
		}
	}
	pre = true
	if code, out := check("--pre"); code != 0 || !strings.Contains(out, "All is fine: 1 check.") || strings.Contains(out, "[fail]") {
		t.Errorf("exit code %d\n%s", code, out)
	}
	for _, other := range []string{"--admin=127.0.0.1:1", "--pod=isthmus-0"} {
		if code, _, out := call("check", "--pre", other); code != 2 {
			t.Errorf("%s: exit code %d\n%s", other, code, out)
		}
	}
}

// FuzzCheckPage: whatever gateways send, nothing reaches the terminal that it may obey.
func FuzzCheckPage(f *testing.F) {
	f.Add(checkJSON(fine, warning, failure, unread), checkJSON(fine))
	f.Add(`{"results":[{"level":"\u001b","object":"\u202e"}]}`, `{}`)
	f.Fuzz(func(t *testing.T, one, two string) {
		var answers []answer
		for _, text := range []string{one, two} {
			a := answer{gateway: "g", value: new(adminapi.Check)}
			if err := json.Unmarshal([]byte(text), a.value); err != nil {
				a.err = err
			}
			answers = append(answers, a)
		}
		s := &checkState{marks: asciiMarks}
		s.merge(answers, "v1")
		s.sort()
		line, err := jsonLine(s.snapshot())
		if err != nil || !json.Valid(line) {
			t.Fatalf("%v: %s", err, line)
		}
		for _, text := range []string{string(s.table()), string(line)} {
			if strings.ContainsFunc(strings.ReplaceAll(text, "\n", ""), unprintable) {
				t.Errorf("%q", text)
			}
		}
	})
}

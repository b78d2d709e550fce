package main

import (
	"bytes"
	"context"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"go.uber.org/goleak"

	"isthmus/cmd/isthmus/internal/cli"
)

func TestMain(m *testing.M) {
	_ = os.Unsetenv("KUBERNETES_SERVICE_HOST") // tests may run in a Pod, where a replica shuts down more slowly
	goleak.VerifyTestMain(m)
}

// call runs isthmus and returns its exit code and output.
func call(args ...string) (code int, stdout, stderr string) {
	var out, err bytes.Buffer
	code = newProgram("isthmus").Run(context.Background(), cli.Process{
		Args:    args,
		Stdin:   strings.NewReader(""),
		Stdout:  &out,
		Stderr:  &err,
		Signals: make(chan os.Signal),
	})
	return code, out.String(), err.String()
}

func TestHelp(t *testing.T) {
	for _, c := range []struct {
		args []string
		want []string
	}{
		{
			[]string{"help"},
			[]string{
				"Usage: isthmus COMMAND",
				"isthmus get web.shop",
				"\nInspect a running replica:\n  clusters ",
				"\nServe:\n  gateway ",
				"(alias: destination)",
			},
		},
		{
			[]string{"help", "gateway"},
			[]string{"Usage: isthmus gateway", "--meshed-http2-client-params JSON", "(default 50ms)"},
		},
		{[]string{"destination", "--addr=:1", "-h"}, []string{"Usage: isthmus gateway"}},
		{[]string{"version", "--client"}, []string{"isthmus ", "go1."}},
		{[]string{"--version"}, []string{"isthmus ", "go1."}},
		{[]string{"gateway", "-version"}, []string{"isthmus ", "go1."}},
	} {
		t.Run(strings.Join(c.args, " "), func(t *testing.T) {
			code, out, err := call(c.args...)
			if code != 0 || err != "" {
				t.Errorf("exit code %d, stderr %q", code, err)
			}
			for _, want := range c.want {
				if !strings.Contains(out, want) {
					t.Errorf("the output lacks %q:\n%s", want, out)
				}
			}
		})
	}
}

// TestCalledAs checks that the kubectl plugin is the same program under another name.
func TestCalledAs(t *testing.T) {
	for file, want := range map[string]string{
		"/usr/bin/isthmus": "isthmus", "isthmus-1": "isthmus", "/a/kubectl-isthmus": "kubectl isthmus",
		"kubectl-isthmus.exe":         "kubectl isthmus",
		"/a/kubectl_complete-isthmus": "kubectl isthmus __complete",
	} {
		name, first := calledAs(file)
		if got := strings.Join(append([]string{name}, first...), " "); got != want {
			t.Errorf("%s: %q, want %q", file, got, want)
		}
	}
	var out bytes.Buffer
	for _, args := range []string{"help", "help gateway", "gateway -help", "help get"} {
		out.Reset()
		code := newProgram(
			"kubectl isthmus",
		).Run(t.Context(), cli.Process{Args: strings.Fields(args), Stdout: &out, Stderr: &out})
		rest := strings.ReplaceAll(out.String(), "kubectl isthmus ", "")
		if code != 0 || !strings.Contains(out.String(), "Usage: kubectl isthmus ") ||
			strings.Contains(rest, "isthmus gateway") ||
			strings.Contains(rest, "isthmus get") {
			t.Errorf("%s: exit code %d:\n%s", args, code, out.String())
		}
	}
}

// TestHelpIsComplete checks that the help of each command explains every flag, fits a terminal and
// shows the usage.
func TestHelpIsComplete(t *testing.T) {
	for _, group := range newProgram("isthmus").Groups {
		for _, v := range group.Commands {
			var b bytes.Buffer
			v.Help(&b)
			for _, s := range v.Flags {
				s.Flags.VisitAll(func(x *pflag.Flag) {
					if !regexp.MustCompile(`(?m)^ +(-\w, )?--` + x.Name + `( |$)`).MatchString(b.String()) {
						t.Errorf("%s: %s is not explained", v.Use, x.Name)
					}
				})
			}
			for line := range strings.Lines(b.String()) {
				if len(line) > 100 {
					t.Errorf("%s: too long: %s", v.Use, line)
				}
			}
			if verb, _, _ := strings.Cut(v.Use, " "); !strings.Contains(b.String(), "\nUsage: isthmus "+verb) ||
				verb != "gateway" && !strings.Contains(b.String(), "\nExamples:\n") {
				t.Errorf("the help of %s lacks the usage or examples", v.Use)
			}
		}
	}
}

// TestUsageErrors checks that a usage error prints one line with a hint to stderr and exits with
// code 2.
func TestUsageErrors(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{
			"serve",
			`isthmus: unknown command "serve": the commands are gateway, clusters, services, exports, explain, ` +
				`check, get, profile, link, unlink, cordon, uncordon, post-render, version, completion and help ` +
				`(isthmus --help explains)`,
		},
		{"destination --pace=soon", `isthmus destination: --pace is "soon"`},
		{
			"gateway --enable-ipv6 false",
			`isthmus gateway: unexpected argument "false": gateway does not accept arguments; ` +
				`flags begin with a dash, and a boolean's value follows "="`,
		},
		{"gateway --enable-endpoint-slices=false", "--enable-ipv6 needs EndpointSlices: set --enable-ipv6=false or"},
		{`gateway --stream-queue-capacity=0`, `--stream-queue-capacity is "0": use a number from 1`},
		{
			`gateway --controller-namespace=`,
			`--controller-namespace is "": use the namespace of Linkerd's control plane`,
		},
		{`gateway --stream-stall-timeout=0`, `--stream-stall-timeout is "0": use a duration above 0`},
		{
			`gateway --max-connection-age=1ms`,
			`--max-connection-age is "1ms": use a duration of a second or more, such as 30m, or 0 for no limit`,
		},
		{
			`gateway --max-concurrent-streams=4294967296`,
			`--max-concurrent-streams is "4294967296": use a number from 1 to 4294967295`,
		},
		{`gateway --max-streams=0`, `--max-streams is "0": use a number from 1 to 4294967295`},
		{`gateway --view-memory=many`, `--view-memory is "many": use a number of bytes such as 64Mi`},
		{`gateway --view-memory=1000`, `--view-memory is "1000": use 1Mi or more`},
		{`gateway --drain=-1s`, `--drain is "-1s": use a duration of 0 or more`},
		{`gateway --addr=8086`, `--addr is "8086": use HOST:PORT, or :PORT for all`},
		{
			`gateway --admin-hosts=https://a.example`,
			`--admin-hosts is "https://a.example": use comma-separated DNS names`,
		},
		{`gateway --log-level=loud`, `--log-level is "loud": use panic, fatal, error, warn, info, debug or trace`},
		{
			`gateway --meshed-http2-client-params={`,
			`--meshed-http2-client-params is "{": unexpected end of JSON input: use JSON like`,
		},
		{
			`gateway --meshed-http2-client-params={"keep_alive":{"interval":{"seconds":-1}}}`,
			`keep_alive.interval is -1s 0ns: use a duration above 0`,
		},
		{
			`gateway --meshed-http2-client-params={"keep_alive":{"timeout":{"nanos":2000000000}}}`,
			`keep_alive.timeout is 0s 2000000000ns`,
		},
		{`gateway --prefer=`, `--prefer is "": it is empty: write tiers, best first`},
		{`gateway --prefer=local,,any`, `--prefer is "local,,any": tier 2 is empty`},
		{`gateway --min-ready=0`, `--min-ready is "0": write the number of endpoints that must be ready`},
		{`gateway --return-after=2h`, `--return-after is "2h": write a duration from 0s to 1h`},
		{`gateway --cordon-local=maybe`, `--cordon-local is "maybe": use false, last-resort or true`},
		{`gateway --when-lost=true`, `--when-lost is "true": use keep, last-resort or withdraw`},
		{`gateway --lost-after=999ms`, `--lost-after is "999ms": use a duration from 1s to 24h`},
		{`gateway --region=eu!1`, `--region is "eu!1": use the region name`},
		{`gateway --exports=yes`, `--exports is "yes": use off or plan or on`},
		{`gateway --unlinked-after=169h`, `--unlinked-after is "169h": use a duration from 10s to 168h`},
		{`gateway --max-exports-per-namespace=0`, `--max-exports-per-namespace is "0": use a number from 1 to 5000`},
		{
			`gateway --max-exports-per-namespace=5001`,
			`--max-exports-per-namespace is "5001": use a number from 1 to 5000`,
		},
		{`gateway --max-exports-per-namespace=`, `--max-exports-per-namespace is "": use a number from 1 to 5000`},
		{`gateway --max-exports-per-link=-1`, `--max-exports-per-link is "-1": use a number from 1 to 5000`},
		{`gateway --max-exports-per-link=many`, `--max-exports-per-link is "many": use a number from 1 to 5000`},
		{
			`gateway --max-exports-per-link=4294967297`,
			`--max-exports-per-link is "4294967297": use a number from 1 to 5000`,
		},
		{
			`gateway --export-sources=labels,mcs`,
			`--export-sources is "labels,mcs": use labels, serviceexports, or both`,
		},
		{`gateway --cluster-name=East`, `--cluster-name is "East": use a name that would be valid for a namespace: `},
		{`gateway --export-exclude-labels=a/b/c`, `"a/b/c" is not a label key pattern`},
		{`gateway --export-namespaces=Shop`, `"Shop" is not a namespace pattern`},
		{`gateway --local-federated-selector=!`, `--local-federated-selector is "!": `},
		{`gateway --local-excluded-annotations=a_/*,c`, `"a_/*" is not a valid key`},
		{"get a --token {", "isthmus get: --token: unexpected end of JSON input: use JSON like"},
	} {
		t.Run(c.args, func(t *testing.T) {
			code, out, err := call(strings.Fields(c.args)...)
			if code != 2 || out != "" {
				t.Errorf("exit code %d, stdout %q", code, out)
			}
			if !strings.Contains(err, c.want) || strings.Count(err, "\n") != 1 {
				t.Errorf("stderr %q, want one line with %q", err, c.want)
			}
		})
	}
	if code, _, err := call(); code != 2 || !strings.Contains(err, "Usage: isthmus COMMAND") {
		t.Errorf("no arguments: exit code %d, stderr %q", code, err)
	}
}

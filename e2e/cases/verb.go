package cases

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"isthmus/e2e/harness"
)

// Tool is the isthmus command for cases.
type Tool struct {
	Path string
	Dir  string // working and home directory, with a kubeconfig for each cluster
}

type verbRun struct {
	stdout, stderr string
	code           int
}

const verbLimit = time.Minute // for each run

// parseIsthmus parses: isthmus WORD..., which must succeed.
func parseIsthmus(_ *parser, args []string) (action, error) { return runVerb(0, args), nil }

// parseFails parses: fails CODE WORD..., which must exit with the code.
func parseFails(_ *parser, args []string) (action, error) {
	code, err := strconv.Atoi(args[0])
	if err != nil || code < 1 || code > 2 {
		return nil, fmt.Errorf("%q is not an exit code of failures: 1 or 2", args[0])
	}
	return runVerb(code, args[1:]), nil
}

// parseShows parses: shows REGEX WORD..., which repeats the command until the standard output
// matches.
func parseShows(_ *parser, args []string) (action, error) {
	want, err := regexp.Compile(args[0])
	if err != nil {
		return nil, err
	}
	return fromAdmin(func(ctx context.Context, r *run) error {
		if err := isthmus(ctx, r, args[1:]); err != nil {
			return err
		}
		return r.verb.expect("standard output", r.verb.stdout, want, true)
	}), nil
}

// parseOutput parses: stdout REGEX, stderr REGEX and no-stdout REGEX, which check the last run.
func parseOutput(stream string, matches bool) func(*parser, []string) (action, error) {
	return func(_ *parser, args []string) (action, error) {
		want, err := regexp.Compile(args[0])
		if err != nil {
			return nil, err
		}
		return func(_ context.Context, r *run) error {
			if r.verb == nil {
				return errors.New("the case has not run the isthmus command yet")
			}
			text := r.verb.stdout
			if stream == "standard error" {
				text = r.verb.stderr
			}
			return r.verb.expect(stream, text, want, matches)
		}, nil
	}
}

func (v *verbRun) expect(stream, text string, want *regexp.Regexp, matches bool) error {
	if want.MatchString(text) == matches {
		return nil
	}
	not := map[bool]string{true: "does not match", false: "matches"}[matches]
	return fmt.Errorf("%s %s %q\n%s", stream, not, want, v)
}

func (v *verbRun) String() string {
	return fmt.Sprintf("exit code %d\nstandard output:\n%s\nstandard error:\n%s", v.code, v.stdout, v.stderr)
}

func runVerb(code int, args []string) action {
	return func(ctx context.Context, r *run) error {
		if err := isthmus(ctx, r, args); err != nil {
			return err
		}
		if r.verb.code != code {
			return fmt.Errorf("want exit code %d\n%s", code, r.verb)
		}
		return nil
	}
}

// isthmus runs the command and stores its result. The command has its own environment and no input.
func isthmus(ctx context.Context, r *run, args []string) error {
	tool, g := r.runner.env.Tool, r.runner.env.Gateway
	if tool.Path == "" {
		return errors.New("no isthmus command to run")
	}
	another := ""
	if r.another != nil {
		another = r.another.MetricsAddr()
	}
	words := []string{}
	for _, a := range args {
		if g != nil {
			a = strings.NewReplacer("$ANOTHER", another, "$ADMIN", g.MetricsAddr(), "$ADDR", g.Addr()).Replace(a)
		}
		words = append(words, a)
	}
	ctx, cancel := context.WithTimeout(ctx, verbLimit)
	defer cancel()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, tool.Path, words...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = tool.Dir, &stdout, &stderr
	cmd.Env = []string{
		"KUBECONFIG=" + tool.kubeconfigs(),
		"HOME=" + tool.Dir,
		"PATH=" + os.Getenv("PATH"),
		"LANG=C.UTF-8",
	}
	if err := cmd.Run(); err != nil && (cmd.ProcessState == nil || !cmd.ProcessState.Exited()) {
		return fmt.Errorf("isthmus %s: %w\n%s%s", strings.Join(words, " "), err, stdout.String(), stderr.String())
	}
	r.verb = &verbRun{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
	return nil
}

// newTool returns a Tool that uses the directory dir.
func newTool(ctx context.Context, binary, dir string, clusters map[string]Cluster) (Tool, error) {
	var err error
	if binary == "" {
		if binary, err = harness.Isthmus.Path(ctx); err != nil {
			return Tool{}, err
		}
	}
	if binary, err = filepath.Abs(binary); err != nil {
		return Tool{}, err
	}
	t := Tool{Path: binary, Dir: dir}
	for _, name := range clusterNames {
		w, err := newWriter(name, clusters[name].REST())
		if err != nil {
			return Tool{}, err
		}
		text, err := w.Kubeconfig(w.Server(), w.Admin())
		w.Close()
		if err := errors.Join(err, os.WriteFile(t.kubeconfig(name), text, 0o600)); err != nil {
			return Tool{}, err
		}
	}
	return t, nil
}

func (t Tool) kubeconfig(cluster string) string { return filepath.Join(t.Dir, cluster+".kubeconfig") }

// kubeconfigs returns the paths of all kubeconfigs, separated by colons. The first one contains the
// current context, which is the local cluster.
func (t Tool) kubeconfigs() string {
	var paths []string
	for _, name := range clusterNames {
		paths = append(paths, t.kubeconfig(name))
	}
	return strings.Join(paths, string(filepath.ListSeparator))
}

package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// newDemo returns a program with that name.
func newDemo(name string) *Program {
	loud, output := false, ""
	return &Program{Name: name, Short: map[string][]string{"--list": {"list", "--loud"}}, Intro: "demo shows commands.",
		Examples: []string{"demo list x"}, Groups: []Group{
			{"Look in", []Command{{
				Use: "list [NAME…]", Aliases: []string{"ls"}, Summary: "print all arguments",
				Intro: "demo list lists.", Ending: "Example: demo list x",
				Flags: []Section{NewSection("Flags", func(s *pflag.FlagSet) {
					s.BoolVar(&loud, "loud", false, "Shout.")
					Choice(s, &output, "output", "o", "`FORMAT`: table or json.", "table", "json")
				})},
				Run: func(_ context.Context, p Process) error {
					_, err := fmt.Fprint(p.Stdout, p.Name, p.Args, loud)
					return err
				},
			}}},
			{"Break", []Command{
				{Use: "fail [ARG…]", Summary: "fail", Intro: "demo fail fails.",
					Flags: []Section{NewSection("Flags", func(s *pflag.FlagSet) {
						s.String("why", "luck", "`REASON` to give. It may be long.")
					})}, Run: func(_ context.Context, p Process) error { return fmt.Errorf("broken %q", p.Args) }},
				{Use: "misuse", Summary: "fail",
					Run: func(context.Context, Process) error { return fmt.Errorf("x: %w", Usagef("no %s", "y")) }},
				{Use: "one NAME", Example: "east", Summary: "take one argument",
					Run: func(_ context.Context, p Process) error {
						_, err := fmt.Fprint(p.Stdout, p.Name, p.Args)
						return err
					}},
			}},
		}}
}

const demoOverview = `demo shows commands.

Usage: demo COMMAND [FLAGS]

Look in:
  list            print all arguments (alias: ls)

Break:
  fail            fail
  misuse          fail
  one             take one argument
  completion      print a script that completes commands and flags in your shell
  help [COMMAND]  explain demo, or a command and its flags

Examples:
  demo list x
`

const listHelp = `demo list lists.

Flags:
      --loud            Shout.
  -o, --output FORMAT   FORMAT: table or json. (default "table")

Example: demo list x
`

// TestProgram checks what a command receives, and the effects of its errors.
func TestProgram(t *testing.T) {
	for _, c := range []struct {
		args        string
		code        int
		out, stderr string
	}{
		{"list a b", 0, "demo list[a b] false", ""},
		{"list a -loud b -- -c", 0, "demo list[a b -c] true", ""},
		{"--loud list", 2, "", "demo: unknown flag: --loud: the command comes first (demo --help explains)\n"},
		{"ls", 0, "demo ls[] false", ""},
		{"--list x", 0, "demo list[x] true", ""},
		{"list -h", 0, listHelp, ""},
		{"ls a -help", 0, listHelp, ""},
		{"list --quiet", 2, "", "demo list: unknown flag: --quiet (demo list --help explains)\n"},
		{"ls --loud=x", 2, "",
			`demo ls: --loud is "x": strconv.ParseBool: parsing "x": invalid syntax (demo ls --help explains)` + "\n"},
		{"ls -oyaml", 2, "", `demo ls: --output is "yaml": use table or json (demo ls --help explains)` + "\n"},
		{"ls -o yaml", 2, "", `demo ls: --output is "yaml": use table or json (demo ls --help explains)` + "\n"},
		{"misuse x", 2, "",
			`demo misuse: unexpected argument "x": misuse does not accept arguments; flags begin with a dash, and ` +
				`a boolean's value follows "=" (demo misuse --help explains)` + "\n"},
		{"one", 2, "", "demo one: no NAME given: add one, such as east (demo one --help explains)\n"},
		{"one a b", 2, "", `demo one: unexpected argument "b": use only one NAME (demo one --help explains)` + "\n"},
		{"one a", 0, "demo one[a]", ""},
		{"fail -why x a -- --help", 1, "", "demo fail: broken [\"a\" \"--help\"]\n"},
		{"misuse", 2, "", "demo misuse: x: no y (demo misuse --help explains)\n"},
		{"misuse --help", 0, "fail\n", ""},
		{"", 2, "", demoOverview + "demo: no command given (demo --help explains)\n"},
		{"lost", 2, "", "demo: unknown command \"lost\": did you mean list? (demo --help explains)\n"},
		{"what", 2, "",
			"demo: unknown command \"what\": the commands are list, fail, misuse, one, " +
				"completion and help (demo --help explains)\n"},
		{"help what", 2, "",
			"demo: unknown command \"what\": the commands are list, fail, misuse, one, " +
				"completion and help (demo --help explains)\n"},
		{"help", 0, demoOverview, ""},
		{"-help", 0, demoOverview, ""},
		{"help help", 0, demoOverview, ""},
		{"help -h", 0, demoOverview, ""},
		{"help misuse", 0, "fail\n", ""},
		{"help ls", 0, listHelp, ""},
		{"help fail", 0,
			"demo fail fails.\n\nFlags:\n      --why REASON   REASON to give. It may be long. (default \"luck\")\n",
			""},
	} {
		code, out, stderr := run(t, "demo", strings.Fields(c.args)...)
		if code != c.code || out != c.out || stderr != c.stderr {
			t.Errorf("%q: exit code %d, stdout %q, stderr %q", c.args, code, out, stderr)
		}
	}
}

// TestPlugin checks that all texts of a plugin contain the name of the other program.
func TestPlugin(t *testing.T) {
	for args, want := range map[string]string{
		"help":       strings.ReplaceAll(demoOverview, "demo ", "kubectl demo "),
		"help list":  strings.ReplaceAll(listHelp, "demo ", "kubectl demo "),
		"list":       "kubectl demo list[] false",
		"misuse":     "kubectl demo misuse: x: no y (kubectl demo misuse --help explains)\n",
		"lost":       "kubectl demo: unknown command \"lost\": did you mean list? (kubectl demo --help explains)\n",
		"list -what": "kubectl demo list: unknown shorthand flag: 'w' in -what (kubectl demo list --help explains)\n",
	} {
		if _, out, stderr := run(t, "kubectl demo", strings.Fields(args)...); out+stderr != want {
			t.Errorf("%s: %q, want %q", args, out+stderr, want)
		}
	}
}

// TestCompletion checks the completions of partly typed arguments.
func TestCompletion(t *testing.T) {
	for args, want := range map[string]string{
		"":               "list fail misuse one completion help :4",
		"m":              "misuse :4",
		"list ":          ":4",
		"list --l":       "--loud :4",
		"list --output ": "table json :4",
		"list -o j":      "table json :4",
		"fail --w":       "--why :4",
		"help ":          "list fail misuse one completion help :4",
		"help list ":     ":4",
		"completion f":   "fish :4",
	} {
		args := append([]string{CompleteCommand}, strings.Split(args, " ")...)
		code, out, _ := run(t, "demo", args...)
		var got []string
		for line := range strings.Lines(out) {
			name, _, _ := strings.Cut(strings.TrimSpace(line), "\t")
			got = append(got, name)
		}
		if code != 0 || strings.Join(got, " ") != want {
			t.Errorf("%q: exit code %d, %q, want %q", args, code, got, want)
		}
	}
	if _, out, _ := run(t, "demo", CompleteCommand, "fail", "--w"); !strings.HasPrefix(out, "--why\tREASON to give\n") {
		t.Errorf("%q", out)
	}
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if code, out, err := run(t, "demo", "completion", shell); code != 0 || err != "" ||
			!strings.Contains(out, "demo") {
			t.Errorf("%s: exit code %d, %q, %q", shell, code, out, err)
		}
	}
}

func run(t *testing.T, name string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	code = newDemo(name).Run(t.Context(), Process{Args: args, Stdout: &out, Stderr: &err})
	return code, out.String(), err.String()
}

// TestConfirm checks that only a user at a terminal can confirm.
func TestConfirm(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	hanging, end := io.Pipe()
	defer end.Close()
	for _, c := range []struct {
		ctx         context.Context
		stdin       io.Reader
		interactive bool
		want        string
	}{
		{t.Context(), strings.NewReader("y\n"), true, ""},
		{t.Context(), strings.NewReader(" YES "), true, ""},
		{t.Context(), strings.NewReader("no\n"), true, "not confirmed: nothing has been changed"},
		{t.Context(), strings.NewReader(""), true, "not confirmed: nothing has been changed"},
		{ended, hanging, true, "interrupted: nothing has been changed"},
		{t.Context(), strings.NewReader("y\n"), false,
			"confirmation is required, but standard input is not a terminal: use --yes"},
		{t.Context(), nil, true, "confirmation is required, but standard input is not a terminal: use --yes"},
	} {
		var asked bytes.Buffer
		err := Process{Stdin: c.stdin, Stderr: &asked, Interactive: c.interactive}.Confirm(c.ctx, "Go?")
		text := ""
		if err != nil {
			text = err.Error()
		}
		_, usage := errors.AsType[UsageError](err)
		if text != c.want || (asked.String() == "") != usage || !usage && asked.String() != "Go? [y/N] " {
			t.Errorf("%v, asked %q, want %q", err, &asked, c.want)
		}
	}
}

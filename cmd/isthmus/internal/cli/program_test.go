package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
)

// TestProgram: what a verb gets, and what its errors become.
func TestProgram(t *testing.T) {
	program := Program{Name: "demo", Intro: "demo shows verbs.", Examples: []string{"demo list x"}, Verbs: []Verb{
		{
			Name: "list", Aliases: []string{"ls", "--list"}, Summary: "print all arguments and then, in a second line of the overview, nothing more",
			Run: func(_ context.Context, p Process) error {
				_, err := fmt.Fprint(p.Stdout, p.Args)
				return err
			},
			Help: func(w io.Writer) { fmt.Fprint(w, "how to list") },
		},
		{Name: "fail", Summary: "fail", Run: func(context.Context, Process) error { return errors.New("broken") }},
		{Name: "misuse", Summary: "fail", Run: func(context.Context, Process) error { return fmt.Errorf("x: %w", Usagef("no %s", "y")) }},
	}}
	overview := `demo shows verbs.

Usage: demo VERB [FLAGS]

  list         print all arguments and then, in a second line of the overview,
               nothing more (alias: ls)
  fail         fail
  misuse       fail
  help [VERB]  explain demo, or a verb and its flags

Examples:
  demo list x
`
	for _, c := range []struct {
		args        string
		code        int
		out, stderr string
	}{
		{"list a b", 0, "[a b]", ""},
		{"ls", 0, "[]", ""},
		{"--list -h", 0, "[-h]", ""},
		{"fail", 1, "", "demo fail: broken\n"},
		{"fail --help", 0, overview, ""},
		{"fail --help x", 1, "", "demo fail: broken\n"},
		{"misuse", 2, "", "demo misuse: x: no y (demo misuse --help explains)\n"},
		{"", 2, "", overview + "demo: no verb given (demo --help explains)\n"},
		{"lost", 2, "", "demo: unknown verb \"lost\": list, fail, misuse and help are known (demo --help explains)\n"},
		{"help lost", 2, "", "demo help: unknown verb \"lost\": list, fail, misuse and help are known (demo help --help explains)\n"},
		{"help", 0, overview, ""},
		{"--h", 0, overview, ""},
		{"help help", 0, overview, ""},
		{"help fail", 0, overview, ""},
		{"help ls", 0, "how to list", ""},
	} {
		var out, stderr bytes.Buffer
		code := program.Run(t.Context(), Process{Args: strings.Fields(c.args), Stdout: &out, Stderr: &stderr})
		if code != c.code || out.String() != c.out || stderr.String() != c.stderr {
			t.Errorf("%q: exit code %d, stdout %q, stderr %q", c.args, code, out.String(), stderr.String())
		}
	}
}

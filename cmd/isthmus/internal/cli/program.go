package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"isthmus/internal/adminapi"
)

// CompleteCommand is the name of the command that shells call to complete a command line.
const CompleteCommand = cobra.ShellCompRequestCmd

// Program is a set of commands under one name.
type Program struct {
	// Name is what users type to run the program, such as "isthmus" or, for a kubectl plugin,
	// "kubectl isthmus". Help text in the source code refers to the program by the last word of
	// Name. When a program called "kubectl isthmus" prints help text, it replaces "isthmus " with
	// "kubectl isthmus " throughout the text.
	Name     string
	Build    adminapi.Build
	Intro    string // first line of the overview
	Groups   []Group
	Examples []string
	// Short maps each shorthand, such as --version, to the arguments that replace it.
	Short map[string][]string
}

// Group is a titled group of commands in the overview of a program.
type Group struct {
	Title    string
	Commands []Command
}

// Run runs the command that p.Args specifies, and prints errors to p.Stderr. Run returns the exit
// code: 0 for success, 1 if the command failed, and 2 for a UsageError.
func (g *Program) Run(ctx context.Context, p Process) int {
	root := g.root(p)
	root.SetArgs(g.normal(root, p.Args))
	c, err := root.ExecuteContextC(ctx)
	if err == nil {
		return 0
	}
	label := called(c)
	if _, ok := errors.AsType[UsageError](err); ok {
		fmt.Fprintf(p.Stderr, "%s: %v (%s --help explains)\n", label, err, label)
		return 2
	}
	fmt.Fprintf(p.Stderr, "%s: %v\n", label, err)
	return 1
}

func called(c *cobra.Command) string {
	if c.HasParent() && c.CalledAs() != "" {
		return called(c.Parent()) + " " + c.CalledAs()
	}
	return c.CommandPath()
}

// normal converts the arguments to the form that cobra expects. Long flags get a second dash,
// because cobra reads letters after a single dash as separate flags. The arguments "help COMMAND"
// become "COMMAND --help". The result is never nil, because cobra replaces nil with the arguments
// of the process.
func (g *Program) normal(root *cobra.Command, args []string) []string {
	args = append([]string{}, args...)
	known := map[string]bool{"help": true}
	for _, c := range root.Commands() {
		c.Flags().VisitAll(func(f *pflag.Flag) { known[f.Name] = len(f.Name) > 1 })
	}
	for i, a := range args {
		if a == "--" {
			break
		}
		given, _, _ := strings.Cut(a, "=")
		if name, dash := strings.CutPrefix(given, "-"); dash && known[name] {
			args[i] = "-" + a
		}
	}
	if len(args) == 0 {
		return args
	}
	if args[0] == "help" {
		args = args[1:min(len(args), 2)]
		if c, _, _ := root.Find(args); c == root && len(args) > 0 && !strings.HasPrefix(args[0], "-") {
			return args // which is not a command
		}
		return append(args, "--help")
	}
	if full := g.Short[args[0]]; full != nil {
		return slices.Concat(full, args[1:])
	}
	return args
}

func (g *Program) root(p Process) *cobra.Command {
	root := &cobra.Command{
		Use:                        lastWord(g.Name),
		Annotations:                map[string]string{cobra.CommandDisplayNameAnnotation: g.Name},
		SilenceErrors:              true,
		SilenceUsage:               true,
		SuggestionsMinimumDistance: 2,
		Args:                       unknownCommand,
		RunE: func(*cobra.Command, []string) error {
			printRenamed(p.Stderr, g.overview, g.Name)
			return Usagef("no command given")
		},
	}
	root.SetOut(p.Stdout)
	root.SetErr(p.Stderr)
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		if invalid, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
			err = fmt.Errorf("--%s is %q: %w", invalid.GetFlag().Name, invalid.GetValue(), errors.Unwrap(err))
		}
		if c == root {
			err = fmt.Errorf("%w: the command comes first", err)
		}
		return UsageError{err}
	})
	helps := map[*cobra.Command]func(io.Writer){root: g.overview}
	for i := range g.Groups {
		for j := range g.Groups[i].Commands {
			v := &g.Groups[i].Commands[j]
			c := v.forCobra()
			c.RunE = func(c *cobra.Command, args []string) error {
				own := p
				own.Name = called(c)
				own.Args = args
				own.Build = g.Build
				return v.run(c.Context(), c.Flags(), own)
			}
			root.AddCommand(c)
			helps[c] = v.Help
		}
	}
	root.InitDefaultCompletionCmd()
	if c, _, err := root.Find([]string{"completion"}); err == nil {
		c.Short, c.Long = completionSummary, c.Long+strings.ReplaceAll(pluginHelp, "PROGRAM", root.Name())
		c.Args = cobra.ArbitraryArgs
		c.RunE = func(_ *cobra.Command, args []string) error {
			return Usagef("unknown shell %q: choose bash, zsh, fish or powershell", strings.Join(args, " "))
		}
	}
	ordinary := root.HelpFunc()
	root.SetHelpFunc(func(c *cobra.Command, args []string) {
		if help := helps[c]; help != nil {
			printRenamed(p.Stdout, help, g.Name)
			return
		}
		ordinary(c, args)
	})
	return root
}

func unknownCommand(root *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if like := root.SuggestionsFor(args[0]); len(like) > 0 {
		return Usagef("unknown command %q: did you mean %s?", args[0], strings.Join(like, " or "))
	}
	var names []string
	for _, c := range root.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	return Usagef("unknown command %q: the commands are %s and help", args[0], strings.Join(names, ", "))
}

func (g *Program) overview(w io.Writer) {
	name := lastWord(g.Name)
	fmt.Fprintf(w, "%s\n\nUsage: %s COMMAND [FLAGS]\n", g.Intro, name)
	line := func(command, summary string) { fmt.Fprintf(w, "  %-15s %s\n", command, summary) }
	for _, group := range g.Groups {
		fmt.Fprintf(w, "\n%s:\n", group.Title)
		for _, v := range group.Commands {
			command, _, _ := strings.Cut(v.Use, " ")
			summary := v.Summary
			for _, a := range v.Aliases {
				summary += " (alias: " + a + ")"
			}
			line(command, summary)
		}
	}
	line("completion", completionSummary)
	line("help [COMMAND]", "explain "+name+", or a command and its flags")
	fmt.Fprintln(w, "\nExamples:")
	for _, e := range g.Examples {
		fmt.Fprintf(w, "  %s\n", e)
	}
}

// printRenamed prints text, but replaces the short name of the program, such as "isthmus", with the
// full name, such as "kubectl isthmus".
func printRenamed(w io.Writer, text func(io.Writer), name string) {
	var b bytes.Buffer
	text(&b)
	io.WriteString(w, strings.ReplaceAll(b.String(), lastWord(name)+" ", name+" "))
}

func lastWord(name string) string { return name[strings.LastIndex(name, " ")+1:] }

const completionSummary = "print a script that completes commands and flags in your shell"

const pluginHelp = `
As kubectl plugin: kubectl asks a program kubectl_complete-PROGRAM, which may be a
link to this one:
  ln -s "$(command -v PROGRAM)" ~/.local/bin/kubectl-PROGRAM
  ln -s "$(command -v PROGRAM)" ~/.local/bin/kubectl_complete-PROGRAM`

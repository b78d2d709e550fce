package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// Program is a set of verbs under one name.
type Program struct {
	// Name is how users call it: "isthmus" or, as plugin of another program,
	// "kubectl isthmus". Its last word is what all texts are written with.
	Name     string
	Intro    string // the first line of the overview
	Groups   []Group
	Examples []string
}

// Group is some verbs, under a title of the overview.
type Group struct {
	Title string
	Verbs []Verb
}

// Run runs the verb that p's arguments begin with and returns the exit code: 0,
// 1 if the verb has failed, 2 for a UsageError. It prints errors to p.Stderr.
func (g *Program) Run(ctx context.Context, p Process) int {
	root := g.root(p)
	root.SetArgs(g.normal(p.Args))
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

// called returns how the user called a command.
func called(c *cobra.Command) string {
	if c.HasParent() && c.CalledAs() != "" {
		return called(c.Parent()) + " " + c.CalledAs()
	}
	return c.CommandPath()
}

// normal returns the arguments as cobra takes them: a verb in place of an alias that
// begins with a dash, and two dashes before names of flags. It is never nil: that
// would stand for those of the process.
func (g *Program) normal(args []string) []string {
	args = append([]string{}, args...)
	if len(args) == 0 {
		return args
	}
	if isHelp(args[0]) {
		args[0] = "help"
	}
	for v := range g.verbs {
		switch {
		case strings.HasPrefix(args[0], "-") && slices.Contains(v.Aliases, args[0]):
			args = slices.Concat([]string{v.name()}, v.AliasArgs, args[1:])
		case v.Own == nil && (args[0] == v.name() || slices.Contains(v.Aliases, args[0])):
			v.doubleDash(args[1:])
		}
	}
	return args
}

func isHelp(arg string) bool { return slices.Contains([]string{"-h", "--h", "-help", "--help"}, arg) }

// verbs is all verbs, in the order of the overview.
func (g *Program) verbs(yield func(*Verb) bool) {
	for _, group := range g.Groups {
		for i := range group.Verbs {
			if !yield(&group.Verbs[i]) {
				return
			}
		}
	}
}

// root returns the program for cobra.
func (g *Program) root(p Process) *cobra.Command {
	root := &cobra.Command{
		Use:                        lastWord(g.Name),
		Annotations:                map[string]string{cobra.CommandDisplayNameAnnotation: g.Name},
		SilenceErrors:              true,
		SilenceUsage:               true,
		SuggestionsMinimumDistance: 2,
		Args:                       unknownVerb,
		RunE: func(*cobra.Command, []string) error {
			printRenamed(p.Stderr, g.overview, g.Name)
			return Usagef("no verb given")
		},
	}
	root.SetOut(p.Stdout)
	root.SetErr(p.Stderr)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return Usagef("%w: the verb comes first", err) })
	helps := map[*cobra.Command]func(io.Writer){}
	add := func(v *Verb) *cobra.Command {
		c := v.command()
		c.RunE = func(c *cobra.Command, args []string) error {
			own := p
			own.Name, own.Args = called(c), args
			return v.Run(c.Context(), own)
		}
		root.AddCommand(c)
		helps[c] = v.Help
		return c
	}
	for v := range g.verbs {
		add(v)
	}
	add(completionVerb(root)).ValidArgs = shells
	root.SetHelpFunc(func(c *cobra.Command, _ []string) {
		help, ok := helps[c]
		if !ok {
			help = g.overview
		}
		printRenamed(p.Stdout, help, g.Name)
	})
	root.SetHelpCommand(helpCommand())
	return root
}

// unknownVerb is the error for a first argument that is no verb.
func unknownVerb(root *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if like := root.SuggestionsFor(args[0]); len(like) > 0 {
		return Usagef("unknown verb %q: did you mean %s?", args[0], strings.Join(like, " or "))
	}
	var names []string
	for _, c := range root.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	return Usagef("unknown verb %q: %s and help are known", args[0], strings.Join(names, ", "))
}

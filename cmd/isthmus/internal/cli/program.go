package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Verb is one command of a program, as "isthmus get" is one.
type Verb struct {
	Name string
	// Aliases work like Name. Those that begin with a dash are not listed.
	Aliases []string
	Summary string // what it does, for the overview
	Run     func(ctx context.Context, p Process) error
	Help    func(io.Writer) // explains its flags; nil: the overview is enough
}

// Program is a set of verbs under one name.
type Program struct {
	Name     string
	Intro    string // the first line of the overview
	Verbs    []Verb // in the order of the overview
	Examples []string
}

// Run runs the verb that p's arguments begin with and returns the exit code: 0,
// 1 if the verb has failed, 2 for a UsageError. It prints errors to p.Stderr.
func (g *Program) Run(ctx context.Context, p Process) int {
	label, err := g.dispatch(ctx, p)
	if err == nil {
		return 0
	}
	if _, ok := errors.AsType[UsageError](err); ok {
		fmt.Fprintf(p.Stderr, "%s: %v (%s --help explains)\n", label, err, label)
		return 2
	}
	fmt.Fprintf(p.Stderr, "%s: %v\n", label, err)
	return 1
}

// dispatch runs the verb. The label that it returns is for messages: the
// program's name and, once it is known, the verb's.
func (g *Program) dispatch(ctx context.Context, p Process) (label string, err error) {
	if len(p.Args) == 0 {
		g.overview(p.Stderr)
		return g.Name, Usagef("no verb given")
	}
	typed := p.Args[0]
	if isHelp(typed) {
		typed = "help"
	}
	p.Args = p.Args[1:]
	label = g.Name + " " + typed
	if typed == "help" {
		return label, g.help(p)
	}
	v, err := g.find(typed)
	if err != nil {
		return g.Name, err
	}
	if strings.HasPrefix(typed, "-") {
		label = g.Name + " " + v.Name
	}
	if v.Help == nil && len(p.Args) == 1 && isHelp(p.Args[0]) {
		return label, g.help(Process{Stdout: p.Stdout})
	}
	return label, v.Run(ctx, p)
}

func isHelp(arg string) bool { return slices.Contains([]string{"-h", "--h", "-help", "--help"}, arg) }

// find returns the verb of a name or alias.
func (g *Program) find(name string) (*Verb, error) {
	var names []string
	for i := range g.Verbs {
		v := &g.Verbs[i]
		if v.Name == name || slices.Contains(v.Aliases, name) {
			return v, nil
		}
		names = append(names, v.Name)
	}
	return nil, Usagef("unknown verb %q: %s and help are known", name, strings.Join(names, ", "))
}

// help prints the overview, or the help of the verb that p's arguments name.
func (g *Program) help(p Process) error {
	if len(p.Args) == 0 || p.Args[0] == "help" || isHelp(p.Args[0]) {
		g.overview(p.Stdout)
		return nil
	}
	v, err := g.find(p.Args[0])
	switch {
	case err != nil:
		return err
	case v.Help == nil:
		g.overview(p.Stdout)
	default:
		v.Help(p.Stdout)
	}
	return nil
}

// overview prints all verbs.
func (g *Program) overview(w io.Writer) {
	fmt.Fprintf(w, "%s\n\nUsage: %s VERB [FLAGS]\n\n", g.Intro, g.Name)
	for _, v := range g.Verbs {
		summary := v.Summary
		for _, a := range v.Aliases {
			if !strings.HasPrefix(a, "-") {
				summary += " (alias: " + a + ")"
			}
		}
		printVerb(w, v.Name, summary)
	}
	printVerb(w, "help [VERB]", "explain "+g.Name+", or a verb and its flags")
	fmt.Fprintln(w, "\nExamples:")
	for _, e := range g.Examples {
		fmt.Fprintf(w, "  %s\n", e)
	}
}

func printVerb(w io.Writer, name, summary string) {
	for _, line := range wrap(summary, 65) {
		fmt.Fprintf(w, "  %-12s %s\n", name, line)
		name = ""
	}
}

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// init leaves commands in the order of the overview.
func init() { cobra.EnableCommandSorting = false }

// Command is one command of a program, as "isthmus get" is one.
type Command struct {
	Use     string   // its name, and what follows it besides flags: "get AUTHORITY"
	Aliases []string // work like the name
	Summary string   // what it does, for the overview
	Intro   string   // the help's text before the flags; empty: the summary
	Ending  string   // and after them, if there is more to explain
	Flags   []Section
	// OneOf are pairs of flags of which only one may be given. One that has its default value is not.
	OneOf [][2]string
	// Such is what the only argument of Use may be, for the error if it is missing.
	Such string
	// Run runs the command. Its context ends at a signal, unless the command has OwnSignals and
	// reads [Process].Signals.
	Run        func(ctx context.Context, p Process) error
	OwnSignals bool
}

// run checks the flags and how many arguments there are, and runs the command.
func (c *Command) run(ctx context.Context, given *pflag.FlagSet, p Process) error {
	set := func(name string) bool {
		f := given.Lookup(name)
		return f.Changed && f.Value.String() != f.DefValue
	}
	for _, of := range c.OneOf {
		if set(of[0]) && set(of[1]) {
			return Usagef("both --%s and --%s are given: give one of them", of[0], of[1])
		}
	}
	name, want, _ := strings.Cut(c.Use, " ")
	switch given := len(p.Args); {
	case strings.Contains(want, "…"):
	case want == "" && given > 0:
		return Usagef(`unexpected argument %q: %s takes none; `+
			`flags begin with a dash, and a boolean's value follows "="`, p.Args[0], name)
	case want != "" && (given == 0 || p.Args[0] == ""):
		return Usagef("no %s given: name one, such as %s", want, c.Such)
	case want != "" && given > 1:
		return Usagef("unexpected argument %q: give one %s", p.Args[1], want)
	}
	if !c.OwnSignals {
		var done func()
		ctx, done = p.interruptible(ctx)
		defer done()
	}
	return c.Run(ctx, p)
}

// Section is some flags of a command, under a title of the help.
type Section struct {
	Title string
	Flags *pflag.FlagSet
}

// NewSection returns a section with the flags that define defines.
func NewSection(title string, define func(*pflag.FlagSet)) Section {
	s := Section{title, pflag.NewFlagSet(title, pflag.ContinueOnError)}
	s.Flags.SortFlags = false
	define(s.Flags)
	return s
}

// helpWidth is how wide the help of flags is.
const helpWidth = 100

// Help prints what the command does and all its flags.
func (c *Command) Help(w io.Writer) {
	intro := c.Intro
	if intro == "" {
		intro = c.Summary
	}
	fmt.Fprintln(w, intro)
	for _, s := range c.Flags {
		fmt.Fprintf(w, "\n%s:\n%s", s.Title, s.Flags.FlagUsagesWrapped(helpWidth))
	}
	if c.Ending != "" {
		fmt.Fprintf(w, "\n%s\n", c.Ending)
	}
}

// forCobra returns the command for cobra, without its run function, which the program adds.
func (c *Command) forCobra() *cobra.Command {
	cmd := &cobra.Command{
		Use:               c.Use,
		Aliases:           c.Aliases,
		Short:             c.Summary,
		Args:              cobra.ArbitraryArgs, // the command checks them
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	for _, s := range c.Flags {
		s.Flags.VisitAll(func(f *pflag.Flag) {
			short := *f // with the first sentence of its usage, which shells show
			first, _, _ := strings.Cut(f.Usage, ". ")
			short.Usage = strings.TrimSuffix(strings.ReplaceAll(first, "`", ""), ".")
			cmd.Flags().AddFlag(&short)
		})
	}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if slices.Contains(fileFlags, f.Name) {
			return
		}
		var values []string
		if chosen, ok := f.Value.(*choice); ok {
			values = chosen.of
		}
		complete := cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)
		if err := cmd.RegisterFlagCompletionFunc(f.Name, complete); err != nil {
			panic(err) // a flag that was there a moment ago
		}
	})
	return cmd
}

// fileFlags are those whose values are names of files.
var fileFlags = []string{"kubeconfig", "ca-file"}

// choice is the value of a flag that is one of some words.
type choice struct {
	value *string
	of    []string
}

// Choice adds a flag that is one of some words, the first of them by default.
func Choice(s *pflag.FlagSet, value *string, name, shorthand, usage string, of ...string) {
	*value = of[0]
	s.VarP(&choice{value, of}, name, shorthand, usage)
}

func (c *choice) String() string { return *c.value }
func (*choice) Type() string     { return "string" }

func (c *choice) Set(text string) error {
	if !slices.Contains(c.of, text) {
		return errors.New("give " + strings.Join(c.of, " or "))
	}
	*c.value = text
	return nil
}

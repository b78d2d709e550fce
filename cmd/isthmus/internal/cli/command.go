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

// By default, cobra sorts commands by name.
func init() { cobra.EnableCommandSorting = false }

// Command is one command of a program, such as "isthmus get".
type Command struct {
	Use     string   // name and arguments without flags, such as "get AUTHORITY"
	Aliases []string // other names
	Summary string   // one line for the overview
	Intro   string   // help text before the flags; if empty, Summary
	Ending  string   // help text after the flags
	Flags   []Section
	// OneOf lists pairs of mutually exclusive flags. A flag that is set to its default value counts
	// as unset.
	OneOf [][2]string
	// Example is a valid argument. If the argument is missing, the error message suggests Example.
	Example string
	// Run runs the command. Unless OwnSignals is true, a signal cancels the context of Run. If
	// OwnSignals is true, Run must read [Process].Signals.
	Run        func(ctx context.Context, p Process) error
	OwnSignals bool
}

// run checks the flags and the number of arguments, and runs the command.
func (c *Command) run(ctx context.Context, given *pflag.FlagSet, p Process) error {
	set := func(name string) bool {
		f := given.Lookup(name)
		return f.Changed && f.Value.String() != f.DefValue
	}
	for _, of := range c.OneOf {
		if set(of[0]) && set(of[1]) {
			return Usagef("--%s and --%s cannot be used together", of[0], of[1])
		}
	}
	name, want, _ := strings.Cut(c.Use, " ")
	switch given := len(p.Args); {
	case strings.Contains(want, "…"):
	case want == "" && given > 0:
		return Usagef(`unexpected argument %q: %s does not accept arguments; `+
			`flags begin with a dash, and a boolean's value follows "="`, p.Args[0], name)
	case want != "" && (given == 0 || p.Args[0] == ""):
		return Usagef("no %s given: add one, such as %s", want, c.Example)
	case want != "" && given > 1:
		return Usagef("unexpected argument %q: use only one %s", p.Args[1], want)
	}
	if !c.OwnSignals {
		var done func()
		ctx, done = p.interruptible(ctx)
		defer done()
	}
	return c.Run(ctx, p)
}

// Section is a titled group of flags in the help text of a command.
type Section struct {
	Title string
	Flags *pflag.FlagSet
}

// NewSection returns a section with the flags that the define function registers.
func NewSection(title string, define func(*pflag.FlagSet)) Section {
	s := Section{title, pflag.NewFlagSet(title, pflag.ContinueOnError)}
	s.Flags.SortFlags = false
	define(s.Flags)
	return s
}

const helpWidth = 100

// Help writes a description of the command and a list of its flags to w.
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

// forCobra converts c to a cobra command. The caller must set the run function of the result.
func (c *Command) forCobra() *cobra.Command {
	cmd := &cobra.Command{
		Use:               c.Use,
		Aliases:           c.Aliases,
		Short:             c.Summary,
		Args:              cobra.ArbitraryArgs, // the command checks its arguments
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	for _, s := range c.Flags {
		s.Flags.VisitAll(func(f *pflag.Flag) {
			short := *f // a copy with only the first sentence of the usage, which shells show
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
			panic(err) // the flag was just added
		}
	})
	return cmd
}

var fileFlags = []string{"kubeconfig", "ca-file"}

// choice is the value of a flag that accepts a fixed set of words.
type choice struct {
	value *string
	of    []string
}

// Choice adds a flag that accepts one of the given words. The first word is the default.
func Choice(s *pflag.FlagSet, value *string, name, shorthand, usage string, of ...string) {
	*value = of[0]
	s.VarP(&choice{value, of}, name, shorthand, usage)
}

func (c *choice) String() string { return *c.value }
func (*choice) Type() string     { return "string" }

func (c *choice) Set(text string) error {
	if !slices.Contains(c.of, text) {
		return errors.New("use " + strings.Join(c.of, " or "))
	}
	*c.value = text
	return nil
}

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

// init leaves verbs in the order of the overview.
func init() { cobra.EnableCommandSorting = false }

// Verb is one command of a program, as "isthmus get" is one.
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
	// Run runs the verb. Its context ends at a signal, unless the verb has OwnSignals and reads [Process].Signals.
	Run        func(ctx context.Context, p Process) error
	OwnSignals bool
}

// run checks the flags and how many arguments there are, and runs the verb.
func (v *Command) run(ctx context.Context, given *pflag.FlagSet, p Process) error {
	set := func(name string) bool { f := given.Lookup(name); return f.Changed && f.Value.String() != f.DefValue }
	for _, of := range v.OneOf {
		if set(of[0]) && set(of[1]) {
			return Usagef("both --%s and --%s are given: give one of them", of[0], of[1])
		}
	}
	name, want, _ := strings.Cut(v.Use, " ")
	switch given := len(p.Args); {
	case strings.Contains(want, "…"):
	case want == "" && given > 0:
		return Usagef(`unexpected argument %q: %s takes none; flags begin with a dash, and a boolean's value follows "="`, p.Args[0], name)
	case want != "" && (given == 0 || p.Args[0] == ""):
		return Usagef("no %s given: name one, such as %s", want, v.Such)
	case want != "" && given > 1:
		return Usagef("unexpected argument %q: give one %s", p.Args[1], want)
	}
	if !v.OwnSignals {
		var done func()
		ctx, done = p.interruptible(ctx)
		defer done()
	}
	return v.Run(ctx, p)
}

// Section is some flags of a verb, under a title of the help.
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

// Help prints what the verb does and all its flags.
func (v *Command) Help(w io.Writer) {
	intro := v.Intro
	if intro == "" {
		intro = v.Summary
	}
	fmt.Fprintln(w, intro)
	for _, s := range v.Flags {
		fmt.Fprintf(w, "\n%s:\n%s", s.Title, s.Flags.FlagUsagesWrapped(helpWidth))
	}
	if v.Ending != "" {
		fmt.Fprintf(w, "\n%s\n", v.Ending)
	}
}

// command returns the verb for cobra. Its run function is left to the program.
func (v *Command) forCobra() *cobra.Command {
	c := &cobra.Command{
		Use:               v.Use,
		Aliases:           v.Aliases,
		Short:             v.Summary,
		Args:              cobra.ArbitraryArgs, // the verb checks them
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	for _, s := range v.Flags {
		s.Flags.VisitAll(func(f *pflag.Flag) {
			short := *f // with the first sentence of its usage, which shells show
			first, _, _ := strings.Cut(f.Usage, ". ")
			short.Usage = strings.TrimSuffix(strings.ReplaceAll(first, "`", ""), ".")
			c.Flags().AddFlag(&short)
		})
	}
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if slices.Contains(fileFlags, f.Name) {
			return
		}
		var values []string
		if c, ok := f.Value.(*choice); ok {
			values = c.of
		}
		complete := cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)
		if err := c.RegisterFlagCompletionFunc(f.Name, complete); err != nil {
			panic(err) // a flag that was there a moment ago
		}
	})
	return c
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

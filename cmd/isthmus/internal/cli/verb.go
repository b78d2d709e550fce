package cli

import (
	"context"
	"flag"
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
type Verb struct {
	Use string // its name, and what follows it besides flags: "get AUTHORITY"
	// Aliases work like the name. Those that begin with a dash are not listed, and
	// only the first argument of all can be one.
	Aliases []string
	// AliasArgs are arguments that such an alias stands for besides the name.
	AliasArgs []string
	Summary   string // what it does, for the overview
	Intro     string // the help's text before the flags; empty: the summary
	Ending    string // and after them, if there is more to explain
	Flags     []Section
	// Values are what is suggested for a flag, by its name.
	Values map[string][]string
	// Own are the flags of a verb that parses its own arguments: flags are then among
	// Process.Args. nil: those in Flags are parsed for it.
	Own *Flags
	Run func(ctx context.Context, p Process) error
}

func (v *Verb) name() string { name, _, _ := strings.Cut(v.Use, " "); return name }

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

// Help prints what the verb does and all its flags.
func (v *Verb) Help(w io.Writer) {
	if v.Own != nil {
		v.Own.Help(w)
		return
	}
	intro := v.Intro
	if intro == "" {
		intro = v.Summary
	}
	fmt.Fprintln(w, intro)
	for _, s := range v.Flags {
		fmt.Fprintf(w, "\n%s:\n", s.Title)
		s.Flags.VisitAll(func(x *pflag.Flag) {
			value, usage := pflag.UnquoteUsage(x)
			flagHelp{x.Name, x.Shorthand, value, usage, x.DefValue}.print(w)
		})
	}
	if v.Ending != "" {
		fmt.Fprintf(w, "\n%s\n", v.Ending)
	}
}

// command returns the verb for cobra. Its run function is left to the program.
func (v *Verb) command() *cobra.Command {
	c := &cobra.Command{
		Use:                v.Use,
		Short:              v.Summary,
		Args:               cobra.ArbitraryArgs, // the verb checks them
		ValidArgsFunction:  cobra.NoFileCompletions,
		DisableFlagParsing: v.Own != nil,
	}
	for _, a := range v.Aliases {
		if !strings.HasPrefix(a, "-") {
			c.Aliases = append(c.Aliases, a)
		}
	}
	for _, s := range v.Flags {
		s.Flags.VisitAll(func(x *pflag.Flag) { addFlag(c, x) })
	}
	if v.Own != nil { // for completion only
		v.Own.set.VisitAll(func(x *flag.Flag) { addFlag(c, pflag.PFlagFromGoFlag(x)) })
	}
	c.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return UsageError{err} })
	c.Flags().VisitAll(func(x *pflag.Flag) {
		complete := cobra.FixedCompletions(v.Values[x.Name], cobra.ShellCompDirectiveNoFileComp)
		if slices.Contains(fileFlags, x.Name) {
			return
		}
		if err := c.RegisterFlagCompletionFunc(x.Name, complete); err != nil {
			panic(err) // a flag that was there a moment ago
		}
	})
	return c
}

// addFlag adds a flag with the first sentence of its usage, which shells show.
func addFlag(c *cobra.Command, x *pflag.Flag) {
	short := *x
	first, _, _ := strings.Cut(x.Usage, ". ")
	short.Usage = strings.TrimSuffix(strings.ReplaceAll(first, "`", ""), ".")
	c.Flags().AddFlag(&short)
}

// fileFlags are those whose values are names of files.
var fileFlags = []string{"kubeconfig"}

// known reports whether the verb has a flag of that name.
func (v *Verb) known(name string) bool {
	return name == "help" || slices.ContainsFunc(v.Flags, func(s Section) bool { return s.Flags.Lookup(name) != nil })
}

// doubleDash puts a second dash before the names of flags in the verb's arguments
// that have one, since cobra takes those for letters.
func (v *Verb) doubleDash(args []string) {
	for i, a := range args {
		if a == "--" {
			break
		}
		given, _, _ := strings.Cut(a, "=")
		if name, dash := strings.CutPrefix(given, "-"); dash && len(name) > 1 && v.known(name) {
			args[i] = "-" + a
		}
	}
}

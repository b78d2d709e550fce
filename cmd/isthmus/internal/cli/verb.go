package cli

import (
	"context"
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
	Use     string   // its name, and what follows it besides flags: "get AUTHORITY"
	Aliases []string // work like the name
	Summary string   // what it does, for the overview
	Intro   string   // the help's text before the flags; empty: the summary
	Ending  string   // and after them, if there is more to explain
	Flags   []Section
	// Values are what is suggested for a flag, by its name.
	Values map[string][]string
	Run    func(ctx context.Context, p Process) error
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

// Help prints what the verb does and all its flags.
func (v *Verb) Help(w io.Writer) {
	intro := v.Intro
	if intro == "" {
		intro = v.Summary
	}
	fmt.Fprintln(w, intro)
	for _, s := range v.Flags {
		fmt.Fprintf(w, "\n%s:\n", s.Title)
		s.Flags.VisitAll(func(f *pflag.Flag) { printFlag(w, f) })
	}
	if v.Ending != "" {
		fmt.Fprintf(w, "\n%s\n", v.Ending)
	}
}

// command returns the verb for cobra. Its run function is left to the program.
func (v *Verb) command() *cobra.Command {
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
		complete := cobra.FixedCompletions(v.Values[f.Name], cobra.ShellCompDirectiveNoFileComp)
		if slices.Contains(fileFlags, f.Name) {
			return
		}
		if err := c.RegisterFlagCompletionFunc(f.Name, complete); err != nil {
			panic(err) // a flag that was there a moment ago
		}
	})
	return c
}

// fileFlags are those whose values are names of files.
var fileFlags = []string{"kubeconfig", "ca-file"}

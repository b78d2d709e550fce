package cli

import (
	"errors"
	"flag"
	"fmt"
	"io"
)

// Flags are those of a verb that parses its own arguments, in sections for the help.
// They take one dash or two, and the value of a boolean follows "=".
type Flags struct {
	set           *flag.FlagSet
	intro, ending string // what the help prints before the flags and after them
	sections      []section
	helpAsked     bool // set by Parse
}

type section struct {
	title string
	flags *flag.FlagSet
}

// NewFlags returns a flag set without flags. The help prints intro before the
// flags and, unless it is empty, ending after them.
func NewFlags(verb, intro, ending string) *Flags {
	f := &Flags{set: flag.NewFlagSet(verb, flag.ContinueOnError), intro: intro, ending: ending}
	f.set.SetOutput(io.Discard) // Program.Run prints errors
	f.set.Usage = func() {}
	return f
}

// Section adds the flags that define defines, under a title of the help.
func (f *Flags) Section(title string, define func(*flag.FlagSet)) {
	s := section{title, flag.NewFlagSet(title, flag.ContinueOnError)}
	define(s.flags)
	s.flags.VisitAll(func(x *flag.Flag) { f.set.Var(x.Value, x.Name, x.Usage) })
	f.sections = append(f.sections, s)
}

// Names returns the names of all flags, sorted.
func (f *Flags) Names() (names []string) {
	f.set.VisitAll(func(x *flag.Flag) { names = append(names, x.Name) })
	return names
}

// Lookup returns a flag; nil: there is none of that name.
func (f *Flags) Lookup(name string) *flag.Flag { return f.set.Lookup(name) }

// Parse reads flags and positional arguments in any order; after "--" all are
// positional. It stops at -h and --help: see HelpAsked. Errors are usage errors.
func (f *Flags) Parse(args []string) (positional []string, err error) {
	for len(args) > 0 {
		if err := f.set.Parse(args); errors.Is(err, flag.ErrHelp) {
			f.helpAsked = true
			return nil, nil
		} else if err != nil {
			return nil, UsageError{err}
		}
		rest := f.set.Args()
		if n := len(args) - len(rest); n > 0 && args[n-1] == "--" {
			return append(positional, rest...), nil
		}
		if len(rest) > 0 {
			positional, rest = append(positional, rest[0]), rest[1:]
		}
		args = rest
	}
	return positional, nil
}

// HelpAsked reports whether Parse has met -h or --help.
func (f *Flags) HelpAsked() bool { return f.helpAsked }

// Help prints what the verb does and all its flags.
func (f *Flags) Help(w io.Writer) {
	fmt.Fprintln(w, f.intro)
	for _, s := range f.sections {
		fmt.Fprintf(w, "\n%s:\n", s.title)
		s.flags.VisitAll(func(x *flag.Flag) {
			value, usage := flag.UnquoteUsage(x)
			flagHelp{x.Name, "", value, usage, x.DefValue}.print(w)
		})
	}
	if f.ending != "" {
		fmt.Fprintf(w, "\n%s\n", f.ending)
	}
}

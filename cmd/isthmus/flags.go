package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
)

// flags is a verb's flag set, in sections for the help.
type flags struct {
	set           *flag.FlagSet
	before, after string // what the help says before the flags and after them
	sections      []section
	asked         bool // set by parse: help is asked for
}

type section struct {
	title string
	flags *flag.FlagSet
}

func newFlags(verb, before, after string) *flags {
	f := &flags{set: flag.NewFlagSet(verb, flag.ContinueOnError), before: before, after: after}
	f.set.SetOutput(io.Discard) // errors are told by run
	f.set.Usage = func() {}
	return f
}

// section adds the flags that define makes, under a title of the help.
func (f *flags) section(title string, define func(*flag.FlagSet)) {
	s := section{title, flag.NewFlagSet(title, flag.ContinueOnError)}
	define(s.flags)
	s.flags.VisitAll(func(x *flag.Flag) { f.set.Var(x.Value, x.Name, x.Usage) })
	f.sections = append(f.sections, s)
}

// parse reads flags and positional arguments in any order; after "--" all are
// positional. It sets asked for -h and --help.
func (f *flags) parse(args []string) (positional []string, err error) {
	for len(args) > 0 {
		if err := f.set.Parse(args); errors.Is(err, flag.ErrHelp) {
			f.asked = true
			return nil, nil
		} else if err != nil {
			return nil, usageError{err}
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

// help explains the verb.
func (f *flags) help(w io.Writer) {
	fmt.Fprintln(w, f.before)
	for _, s := range f.sections {
		fmt.Fprintf(w, "\n%s:\n", s.title)
		s.flags.VisitAll(func(x *flag.Flag) { explain(w, x) })
	}
	if f.after != "" {
		fmt.Fprintf(w, "\n%s\n", f.after)
	}
}

// explain writes one flag's part of the help.
func explain(w io.Writer, x *flag.Flag) {
	value, usage := flag.UnquoteUsage(x)
	dashes := "--"
	if len(x.Name) == 1 {
		dashes = "-"
	}
	fmt.Fprintf(w, "  %s%s", dashes, x.Name)
	if value != "" {
		fmt.Fprintf(w, " %s", strings.ToUpper(value))
	}
	fmt.Fprintln(w)
	switch {
	case x.DefValue == "":
	case value == "" && x.DefValue == "true":
		usage += fmt.Sprintf(" Default: true (--%s=false turns it off).", x.Name)
	default:
		usage += fmt.Sprintf(" Default: %s.", x.DefValue)
	}
	const width = 72
	line := ""
	for word := range strings.FieldsSeq(usage) {
		if line != "" && len(line)+1+len(word) > width {
			fmt.Fprintf(w, "        %s\n", line)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	fmt.Fprintf(w, "        %s\n", line)
}

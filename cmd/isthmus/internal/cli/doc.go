// Package cli is what a command-line program with verbs is made of: the choice of
// the verb, flags and their help, usage errors and exit codes.
//
//	program := cli.Program{Name: "isthmus", Intro: "…", Verbs: []cli.Verb{{
//		Name:    "get",
//		Summary: "show the endpoints of a service",
//		Run:     func(ctx context.Context, p cli.Process) error { … },
//		Help:    func(w io.Writer) { newGetFlags().Help(w) },
//	}}}
//	os.Exit(program.Run(ctx, process))
//
// A verb parses its own arguments:
//
//	f := cli.NewFlags("get", "isthmus get shows …", "")
//	f.Section("Flags", func(s *flag.FlagSet) {
//		s.BoolVar(&once, "once", false, "Print the first state and exit.")
//	})
//	positional, err := f.Parse(p.Args)
//	if err == nil && f.HelpAsked() {
//		f.Help(p.Stdout)
//	}
//
// Guarantees:
//
//   - Exit code 0 for what went as asked, 1 for what failed, 2 for arguments that
//     can't be used. Each error is one message on standard error, which names the
//     verb; that of a [UsageError] also names the help.
//   - "help", "help VERB", "VERB --help" and "VERB -h" work for every verb that
//     passes its arguments through [Flags.Parse], and print to standard output.
//   - Flags take one dash or two, and stand before, between or after positional
//     arguments; after "--" all arguments are positional.
//   - Nothing here ends the process, reads os.Args or handles signals, so that tests
//     run whole programs. A verb that ends at a signal reads [Process].Signals.
//
// Nothing here is safe for concurrent use, nor has to be: a process parses its
// arguments once.
//
// ARCHITECTURE.md, at the module's root, shows how the packages work together.
package cli

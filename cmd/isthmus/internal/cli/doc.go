// Package cli is what a command-line program with commands is made of: the choice of
// the command, flags and their help, completion, usage errors and exit codes. It is a
// frame around cobra, which nothing else here has to know.
//
//	program := cli.Program{Name: "isthmus", Intro: "…", Groups: []cli.Group{{"Look in", []cli.Command{{
//		Use:     "get AUTHORITY",
//		Summary: "show the endpoints of a service",
//		Intro:   "isthmus get shows …",
//		Flags:   []cli.Section{cli.NewSection("Flags", func(s *pflag.FlagSet) { s.BoolVar(&once, "once", …) })},
//		Run:     func(ctx context.Context, p cli.Process) error { … },
//	}}}}}
//	os.Exit(program.Run(ctx, process))
//
// A command is run once its flags are read: [Process].Args are its arguments without flags, as many
// as Use has: none, one, or any number where that has "…". A program is run once, since the flags
// of its commands keep their values.
//
// Guarantees:
//
//   - Exit code 0 for what went as asked, 1 for what failed, 2 for arguments that
//     can't be used. Each error is one message on standard error, which names the
//     command; that of a [UsageError] also names the help.
//   - "help", "help VERB", "VERB --help" and "VERB -h" work for every command, and print
//     to standard output. So does "completion SHELL", and commands that are almost right
//     are suggested.
//   - All texts have the program's name as the user typed it: they are written with
//     "isthmus", and name "kubectl isthmus" for those who called it so.
//   - Flags take one dash or two, and stand before, between or after other arguments;
//     after "--" all are arguments. Only flags of one letter may be given together.
//   - A signal ends the context of the command, unless it has [Command].OwnSignals. Arguments are
//     as many as its usage has.
//   - Nothing here ends the process, reads os.Args or asks for signals, so that tests
//     run whole programs.
//
// Nothing here is safe for concurrent use, nor has to be: a process parses its
// arguments once.
//
// ARCHITECTURE.md, at the module's root, shows how the packages work together.
package cli

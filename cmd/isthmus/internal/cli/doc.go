// Package cli builds command-line programs with several commands. The package selects the command,
// parses flags, and provides help, shell completion, usage errors and exit codes. Package cli wraps
// cobra, so that other packages do not need to use cobra directly.
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
// A command runs after its flags have been parsed. [Process].Args contains the remaining arguments.
// The Use field of a command determines how many arguments the command accepts: none, exactly one,
// or, if the field contains "…", any number. A program can only be run once, because the flags of
// its commands keep their values.
//
// Callers may rely on the following:
//
//   - The exit code is 0 for success, 1 for a failure, and 2 for invalid arguments.
//   - Each error is reported on standard error as a single message that names the command. The
//     message of a [UsageError] also says how to print the help.
//   - "help", "help COMMAND", "COMMAND --help" and "COMMAND -h" work for every command and print to
//     standard output. "completion SHELL" also prints to standard output.
//   - For a mistyped command, the error suggests similar commands.
//   - Messages contain the program's name as the user typed it. Messages in the source code say
//     "isthmus", and users of the kubectl plugin see "kubectl isthmus".
//   - Flags may be written with one dash or two, and may appear before, between or after other
//     arguments. Everything after "--" is an argument. Only single-letter flags can be combined.
//   - A signal cancels the context of the command, unless the command sets [Command].OwnSignals.
//   - Tests can run whole programs, because the package does not exit the process, read os.Args or
//     subscribe to signals.
//
// A [Program] is not safe for concurrent use.
//
// See ARCHITECTURE.md at the root of the module for how the packages work together.
package cli

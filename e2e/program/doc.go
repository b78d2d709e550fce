// Package program finds the repository's commands and runs them as child processes, for tests, benchmarks and the demo.
//
// A [Program] is a command of the repository, or a tool that it depends on: a ready-made one that the environment names, or
// else that in the repository's bin folder, which Path brings up to date first.
//
//	path, err := program.Isthmus.Path(ctx)
//	...
//	p, err := program.Start(program.Config{Path: path, Args: []string{"gateway"}, Output: &log})
//	...
//	err = p.Await(ctx, func(ctx context.Context) error { return ready(ctx, addr) })
//
// A [Process] never outlives the process that started it, however that one ends: its standard input is a pipe from there,
// which ends, and on Linux the kernel kills it. Ctrl-C does not reach it: the starter ends it. A [Tail] keeps the end of its
// log for an error message.
package program

package main

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
)

// versionVerb prints the version.
func versionVerb(p process, args []string) error {
	if len(args) > 0 {
		return usagef("unexpected argument %q: version takes none", args[0])
	}
	fmt.Fprintln(p.stdout, version())
	return nil
}

// version tells what this is, from what the Go tool wrote into the program.
func version() string {
	number, revision := "unknown", ""
	if info, ok := debug.ReadBuildInfo(); ok {
		number = cmp.Or(info.Main.Version, number)
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				revision = ", commit " + s.Value
			}
		}
	}
	return fmt.Sprintf("isthmus %s (%s, %s/%s%s)", number, runtime.Version(), runtime.GOOS, runtime.GOARCH, revision)
}

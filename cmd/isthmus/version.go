package main

import (
	"cmp"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"isthmus/cmd/isthmus/internal/cli"
)

// runVersion prints what a bug report should begin with.
func runVersion(p cli.Process) error {
	if err := p.NoArguments("version"); err != nil {
		return err
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	printVersion(p.Stdout, info)
	return nil
}

const versionIntro = `isthmus version prints the version of this program and what it was built with: put
it into bug reports.

Usage: isthmus version`

// libraries are those whose versions matter most in a bug report.
var libraries = []struct{ title, module string }{
	{"Kubernetes client", "k8s.io/client-go"},
	{"proxy API", "github.com/linkerd/linkerd2-proxy-api"},
	{"gRPC", "google.golang.org/grpc"},
}

// printVersion prints what the Go tool has written into the program.
func printVersion(w io.Writer, info *debug.BuildInfo) {
	fmt.Fprintln(w, version(info))
	line := func(title, value string) { fmt.Fprintf(w, "  %-18s %s\n", title, value) }
	line("commit", commit(info))
	line("Go", fmt.Sprintf("%s %s/%s", runtime.Version(), runtime.GOOS, runtime.GOARCH))
	for _, l := range libraries {
		line(l.title, moduleVersion(info, l.module))
	}
}

// version returns the program's name and version.
func version(info *debug.BuildInfo) string {
	return "isthmus " + cmp.Or(info.Main.Version, "unknown")
}

// commit describes what the program was built from.
func commit(info *debug.BuildInfo) string {
	settings := make(map[string]string)
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	text := cmp.Or(settings["vcs.revision"], "unknown")
	if at := settings["vcs.time"]; at != "" {
		text += " of " + at
	}
	if settings["vcs.modified"] == "true" {
		text += ", with changes that are not committed"
	}
	return text
}

// moduleVersion returns the version of a module that the program is built with.
func moduleVersion(info *debug.BuildInfo, path string) string {
	for _, m := range info.Deps {
		if m.Path == path {
			if m.Replace != nil {
				m = m.Replace
			}
			return m.Version
		}
	}
	return "unknown"
}

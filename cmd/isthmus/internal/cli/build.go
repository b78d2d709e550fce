package cli

import (
	"cmp"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"isthmus/internal/adminapi"
)

// The Makefile sets release to the version in the file VERSION. If release is empty, the Go tool
// derives the version from the Git tags and the commit.
var release string

// OwnBuild describes the build of this program in the format of /debug/version.
func OwnBuild() adminapi.Build {
	info := buildInfo()
	return adminapi.Build{
		Version: cmp.Or(info.Main.Version, "unknown"),
		Commit:  commit(info),
		Go:      runtime.Version(),
		Format:  adminapi.Format,
	}
}

// WriteVersion prints the information that a bug report should start with.
func WriteVersion(w io.Writer) { printVersion(w, buildInfo()) }

// Revision returns the commit that this program was built from.
func Revision() string {
	text, _ := revision(buildInfo())
	return text
}

func buildInfo() *debug.BuildInfo {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = new(debug.BuildInfo)
	}
	info.Main.Version = cmp.Or(release, info.Main.Version)
	return info
}

// libraries lists the modules whose versions matter most in a bug report.
var libraries = []struct{ title, module string }{
	{"Kubernetes client", "k8s.io/client-go"},
	{"proxy API", "github.com/linkerd/linkerd2-proxy-api"},
	{"gRPC", "google.golang.org/grpc"},
}

func printVersion(w io.Writer, info *debug.BuildInfo) {
	fmt.Fprintln(w, "isthmus", cmp.Or(info.Main.Version, "unknown"))
	line := func(title, value string) { fmt.Fprintf(w, "  %-18s %s\n", title, value) }
	line("commit", commit(info))
	line("Go", fmt.Sprintf("%s %s/%s", runtime.Version(), runtime.GOOS, runtime.GOARCH))
	for _, l := range libraries {
		line(l.title, moduleVersion(info, l.module))
	}
}

// revision returns the commit from which the program was built, and the commit's time.
func revision(info *debug.BuildInfo) (text, at string) {
	all := make(map[string]string)
	for _, s := range info.Settings {
		all[s.Key] = s.Value
	}
	text = cmp.Or(all["vcs.revision"], "unknown")
	if all["vcs.modified"] == "true" {
		text += "-modified"
	}
	return text, all["vcs.time"]
}

func commit(info *debug.BuildInfo) string {
	text, at := revision(info)
	if at != "" {
		text += " of " + at
	}
	return text
}

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

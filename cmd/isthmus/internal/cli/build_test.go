package cli

import (
	"runtime/debug"
	"strings"
	"testing"
)

func TestVersion(t *testing.T) {
	for _, c := range []struct {
		name string
		info debug.BuildInfo
		want []string
	}{
		{"nothing is known", debug.BuildInfo{},
			[]string{"isthmus unknown\n", "  commit             unknown\n", "  Kubernetes client  unknown\n"}},
		{"a release", debug.BuildInfo{
			Main: debug.Module{Version: "v1.2.3"},
			Deps: []*debug.Module{{Path: "k8s.io/client-go", Version: "v0.37.1"},
				{Path: "google.golang.org/grpc", Version: "v1.0.0", Replace: &debug.Module{Version: "v1.85.0"}}},
			Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"},
				{Key: "vcs.time", Value: "2026-11-22T00:00:00Z"}, {Key: "vcs.modified", Value: "false"}},
		}, []string{
			"isthmus v1.2.3\n", "  commit             abc of 2026-11-22T00:00:00Z\n",
			"  Kubernetes client  v0.37.1\n", "  gRPC               v1.85.0\n",
		}},
		{"local changes",
			debug.BuildInfo{Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"},
				{Key: "vcs.modified", Value: "true"}}},
			[]string{"  commit             abc-modified\n"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out strings.Builder
			printVersion(&out, &c.info)
			if built, _ := revision(&c.info); !strings.Contains(out.String(), "commit             "+built) {
				t.Errorf("the metric has %s, which is not in\n%s", built, &out)
			}
			for _, want := range append(c.want, "  Go                 go") {
				if !strings.Contains(out.String(), want) {
					t.Errorf("%q is not in\n%s", want, out.String())
				}
			}
		})
	}
}

// TestRelease checks that make's VERSION is the version of the program.
func TestRelease(t *testing.T) {
	release = "v9.8.7"
	t.Cleanup(func() { release = "" })
	if got := OwnBuild().Version; got != release {
		t.Errorf("version %s", got)
	}
}

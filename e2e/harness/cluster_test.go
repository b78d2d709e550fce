package harness

import (
	"strings"
	"testing"
)

// TestStartWithoutDir: what a cluster keeps never goes into the working directory.
func TestStartWithoutDir(t *testing.T) {
	t.Chdir(t.TempDir())
	if _, err := StartCluster(t.Context(), ClusterConfig{Name: "west", Binary: "/bin/false"}); err == nil ||
		!strings.Contains(err.Error(), "no Dir") {
		t.Error(err)
	}
}

package harness

import (
	"strings"
	"testing"
)

// TestStartWithoutDir checks that a cluster never stores its state in the working directory.
func TestStartWithoutDir(t *testing.T) {
	t.Chdir(t.TempDir())
	if _, err := StartCluster(t.Context(), ClusterConfig{Name: "west", Binary: "/bin/false"}); err == nil ||
		!strings.Contains(err.Error(), "no Dir") {
		t.Error(err)
	}
}

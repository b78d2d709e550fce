package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"isthmus/e2e/harness"
)

// userEnvironment is that of a user's shell, whose kubectl is this test's binary. It has nothing of a make that runs the tests.
func userEnvironment(t *testing.T) []string {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	dir := t.TempDir()
	must(t, os.Symlink(self, filepath.Join(dir, "kubectl")))
	env := slices.DeleteFunc(os.Environ(), func(e string) bool {
		name, _, _ := strings.Cut(e, "=")
		return strings.HasPrefix(name, "MAKE") || slices.Contains([]string{"MFLAGS", "KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUSTOMIZE", "IMAGE", "VERSION"}, name)
	})
	return append(env, "PATH="+dir+":"+os.Getenv("PATH"), "KUBECACHEDIR="+t.TempDir())
}

// shell runs a command as a user does at the root of a clone, for a cluster, and returns what it prints.
func shell(t *testing.T, server *harness.Cluster, command string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-euc", command)
	cmd.Dir = ".."
	cmd.Env = append(userEnvironment(t), "KUBECONFIG="+server.Kubeconfig())
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// mustShell is shell, for a command that must succeed.
func mustShell(t *testing.T, server *harness.Cluster, command string) string {
	t.Helper()
	out, err := shell(t, server, command)
	if err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
	return out
}

// readCommands returns the blocks of commands of a section of README.md, each with its commands, without comments.
func readCommands(t *testing.T, heading string) (blocks [][]string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "README.md"))
	must(t, err)
	_, section, found := strings.Cut(string(text), "\n## "+heading+"\n")
	if !found {
		t.Fatalf("README.md has no section %s", heading)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	for _, block := range regexp.MustCompile("(?s)\n```sh\n(.*?)\n```\n").FindAllStringSubmatch(section, -1) {
		var commands []string
		for line := range strings.SplitSeq(strings.ReplaceAll(block[1], "\\\n", ""), "\n") {
			command, _, _ := strings.Cut(line, "  #")
			commands = append(commands, strings.TrimSpace(command))
		}
		blocks = append(blocks, commands)
	}
	return blocks
}

package cluster_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"isthmus/e2e/program"
)

// TestCommandLine handles a cluster as a person does.
func TestCommandLine(t *testing.T) {
	binary, err := program.Controlplane.Path(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	run := func(args ...string) string {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), binary, append(args, "--dir", root)...).CombinedOutput()
		if err != nil {
			t.Fatalf("controlplane %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	listed := func(want string) { // in the end: what does not answer within a second is taken for paused
		t.Helper()
		eventually(t, "the list", func() error {
			if out := run("list"); !regexp.MustCompile(`(?m)^west +` + want + ` `).MatchString(out) {
				return fmt.Errorf("it prints %q; want west %s", out, want)
			}
			return nil
		})
	}
	t.Cleanup(func() { _ = exec.Command(binary, "kill", "west", "--dir", root).Run() }) // if it fails before stop
	kubeconfig := filepath.Join(root, "west", "kubeconfig")
	if out := run("start", "west"); out != "west is ready: --kubeconfig "+kubeconfig+"\n" {
		t.Errorf("start prints %q", out)
	}
	listed(`ready +[0-9]+`)
	pid := pidOf(t, filepath.Join(root, "west"))
	run("start", "west")
	if again := pidOf(t, filepath.Join(root, "west")); again != pid {
		t.Errorf("starting what runs has replaced process %d by %d", pid, again)
	}
	if out := run("list", "--paths", "west"); out != kubeconfig+"\n" {
		t.Errorf("list --paths prints %q", out)
	}
	run("pause", "west")
	listed(`paused or starting +[0-9]+`)
	run("resume", "west")
	listed(`ready +[0-9]+`)
	run("kill", "west")
	listed(`stopped +-`)
	run("start", "west")
	listed(`ready +[0-9]+`)
	run("pause", "west") // stop has to end it all the same
	run("stop", "west")
	listed(`stopped +-`)
	run("stop", "west")
}

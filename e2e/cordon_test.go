package e2e

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestCordonVerbs: one switch on a link takes its cluster out and brings it back, under a live stream. It refuses to leave
// a service with nothing.
func TestCordonVerbs(t *testing.T) {
	t.Parallel()
	w := newLinked(t)
	w.ok(t, "link east --context east --apply")
	all, west := slices.Concat(w.pods["west"], w.pods["east"]), w.pods["west"]
	w.expect(t, "east is linked", all)

	w.refused(t, 2, "cordon east", "shop/web-federated port 80: 4 of 6 endpoints .now local 4, east 2, 1 stream.", "standard input is no terminal: give --yes")
	w.refused(t, 0, "cordon east --dry-run", "would update link Secret linkerd/cluster-credentials-east")
	w.refused(t, 2, "cordon local --yes", "its cordon is the gateway's flag --cordon-local")
	w.refused(t, 2, "cordon east --yes --over 2h", "--over is 2h0m0s: give 0s to 1h0m0s")
	w.refused(t, 1, "cordon north --yes", `links "north": there are east`)
	w.answers(t, "cordon east", "n\n", 1, "not confirmed: nothing has been changed")
	w.stays(t, "the answer was no", all)
	w.answers(t, "cordon east", "y\n", 0, `Cordon east\? The endpoints of east leave all services at once. \[y/N\]`)
	w.expect(t, "east is cordoned at a terminal", west)
	w.answers(t, "uncordon east", "yes\n", 0, "Services with a member in east, which will be used again:")
	w.expect(t, "it is uncordoned at a terminal", all)
	w.ok(t, "cordon east --yes", "the gateway follows: endpoints of east leave all services at once")
	w.expect(t, "east is cordoned", west)
	w.ok(t, "uncordon east --yes --over 1s", "endpoints of east come back over 1s")
	w.expect(t, "the cordon has ended", all)
	if s, _ := w.secret(t); s.Annotations["isthmus.io/cordon"] != "" || s.Annotations["isthmus.io/cordon-over"] != "1s" {
		t.Errorf("annotations %v", s.Annotations)
	}
	w.ok(t, "cordon east --yes --last-resort", "Where other clusters have endpoints")
	w.expect(t, "east is of last resort", west)
	w.offer(t, "west")
	w.expect(t, "nothing but the last resort is there", w.pods["east"])
	w.refused(t, 1, "cordon east --yes", "shop/web-federated port 80: NOTHING", "1 of these would be left with nothing: --last-resort")
	w.ok(t, "cordon east --yes --force", "NOTHING")
	w.expect(t, "east is cordoned by force", nil)
	w.ok(t, "uncordon east --yes")
	w.expect(t, "the cordon has ended again", w.pods["east"])
	w.offer(t, "west", west...)
	w.expect(t, "west is back", all)

	if s, _ := w.secret(t); len(s.Annotations) == 0 || s.Annotations["isthmus.io/cordon-over"] != "" {
		t.Errorf("annotations %v", s.Annotations)
	}
	w.ok(t, "cordon east --yes")
	w.ok(t, "link east --context east --apply")
	w.expect(t, "a rotation keeps the cordon", west)
	for more, want := range map[string]verbRun{
		"":        {code: 1, stderr: "what this leaves can't be found out: "},
		"--force": {code: 1, stderr: "it is written, but not known to have reached the gateway: "},
	} {
		r := runVerb(t, w.isthmus, strings.Fields("cordon east --yes --admin 127.0.0.1:1 --kubeconfig "+w.kubeconfig+" "+more)...)
		if r.code != want.code || !strings.Contains(r.stderr, want.stderr) {
			t.Errorf("without a gateway, %s: %+v", more, r)
		}
	}
	must(t, w.clients["west"].CoreV1().Secrets("linkerd").Delete(t.Context(), "cluster-credentials-east", metav1.DeleteOptions{}))
	w.refused(t, 1, "uncordon east --yes", `links "east": there are no links`)
}

// answers runs a verb at a terminal, types an answer, and checks what the verb prints and its exit code.
func (w *linked) answers(t *testing.T, command, answer string, code int, want string) {
	t.Helper()
	user, terminal := openTerminal(t)
	_, err := user.WriteString(answer) // which the terminal keeps until it is read
	must(t, err)
	cmd := exec.CommandContext(t.Context(), w.isthmus, append(strings.Fields(command), "--kubeconfig", w.kubeconfig, "--admin", w.gateway.MetricsAddr())...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = terminal, terminal, terminal
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	must(t, terminal.Close())
	text, err := io.ReadAll(user)
	if !errors.Is(err, unix.EIO) { // its end, once the other side is closed
		t.Fatal(err)
	}
	must(t, user.Close())
	if cmd.ProcessState.ExitCode() != code {
		t.Errorf("isthmus %s, answered %q: exit code %d\n%s", command, answer, cmd.ProcessState.ExitCode(), text)
	}
	expectLines(t, command, string(text), []string{want})
}

// openTerminal returns both sides of a terminal.
func openTerminal(t *testing.T) (user, terminal *os.File) {
	t.Helper()
	user, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	must(t, err)
	must(t, unix.IoctlSetPointerInt(int(user.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(user.Fd()), unix.TIOCGPTN)
	must(t, err)
	terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	must(t, err)
	return user, terminal
}

//go:build linux

package commands

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"isthmus/cmd/isthmus/internal/cli"
)

// openTerminal returns both ends of a new terminal. Text that is written to user can be read from
// screen.
func openTerminal(t *testing.T) (screen, user *os.File) {
	t.Helper()
	screen, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { screen.Close() })
	fd := int(screen.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	user, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { user.Close() })
	return screen, user
}

// TestTerminal checks that only terminals receive colors, unless the environment turns colors
// off.
func TestTerminal(t *testing.T) {
	const page = `{"local": {"cluster": "local", "state": "ready"}, "linkSecrets": {"listed": true}}`
	admin := startAdmin(t, map[string]http.HandlerFunc{"/debug/clusters": answer(page)})
	for _, c := range []struct {
		noColor, term string
		colors        bool
	}{{"", "xterm", true}, {"1", "xterm", false}, {"", "dumb", false}} {
		t.Setenv("NO_COLOR", c.noColor)
		t.Setenv("TERM", c.term)
		terminal, user := openTerminal(t)
		code := newProgram().Run(t.Context(),
			cli.Process{Args: []string{"clusters", "--admin", admin}, Stdout: user, Stderr: user})
		shown := make([]byte, 4096)
		n, err := terminal.Read(shown)
		for !bytes.Contains(shown[:n], []byte("ready")) && err == nil {
			var more int
			more, err = terminal.Read(shown[n:])
			n += more
		}
		if code != 0 || err != nil || strings.Contains(string(shown[:n]), "\x1b[32mready\x1b[0m") != c.colors {
			t.Errorf("%+v: exit code %d, %v, %q", c, code, err, shown[:n])
		}
	}
	file, err := os.Create(t.TempDir() + "/out")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	t.Setenv("TERM", "xterm")
	if wantsColor(file) || isTerminal(file) || isTerminal(new(bytes.Buffer)) {
		t.Error("a file counts as a terminal")
	}
}

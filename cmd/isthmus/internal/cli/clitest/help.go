package clitest

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"isthmus/cmd/isthmus/internal/cli"
)

// CheckHelp checks that the help explains every flag, in lines that fit a terminal.
func CheckHelp(t *testing.T, f *cli.Flags) {
	t.Helper()
	var b bytes.Buffer
	f.Help(&b)
	for _, name := range f.Names() {
		forms := []string{"  --" + name + " ", "  --" + name + "\n", "  -" + name + " "}
		if !slices.ContainsFunc(forms, func(s string) bool { return strings.Contains(b.String(), s) }) {
			t.Errorf("%s is not explained", name)
		}
	}
	for line := range strings.Lines(b.String()) {
		if len(line) > 100 {
			t.Errorf("too long: %s", line)
		}
	}
}

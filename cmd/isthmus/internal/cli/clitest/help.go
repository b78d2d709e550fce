package clitest

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"isthmus/cmd/isthmus/internal/cli"
)

// CheckHelp checks that a verb's help explains every flag, in lines that fit a terminal.
func CheckHelp(t *testing.T, v cli.Verb) {
	t.Helper()
	var b bytes.Buffer
	v.Help(&b)
	var names []string
	for _, s := range v.Flags {
		s.Flags.VisitAll(func(x *pflag.Flag) { names = append(names, x.Name) })
	}
	for _, name := range names {
		if !regexp.MustCompile(`(?m)^  (-\w, )?--?` + name + `( |$)`).MatchString(b.String()) {
			t.Errorf("%s is not explained", name)
		}
	}
	for line := range strings.Lines(b.String()) {
		if len(line) > 100 {
			t.Errorf("too long: %s", line)
		}
	}
}

package client

import (
	"slices"
	"strings"
	"testing"

	"isthmus/cmd/isthmus/internal/cli/clitest"
)

func TestHelpIsComplete(t *testing.T) {
	clitest.CheckHelp(t, newGetFlags(&options{}))
	clitest.CheckHelp(t, newProfileFlags(&options{}))
}

func TestInterspersed(t *testing.T) {
	var o options
	rest, err := newGetFlags(&o).Parse(strings.Fields("--once web:80 -o json --addr=a:1 -- -x"))
	if want := (options{addr: "a:1", output: "json", once: true}); err != nil || o != want || !slices.Equal(rest, []string{"web:80", "-x"}) {
		t.Errorf("%+v, %q, %v", o, rest, err)
	}
}

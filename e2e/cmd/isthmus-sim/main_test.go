package main

import (
	"bytes"
	"errors"
	"flag"
	"strings"
	"testing"

	"isthmus/e2e/cmd/internal/cli"
)

func TestArguments(t *testing.T) {
	for _, x := range []struct {
		args  []string
		usage bool
	}{
		{nil, false},
		{[]string{"-seed", "7", "-rounds", "3", "-faults", "^refuse$"}, false},
		{[]string{"-duration", "1m"}, false},
		{[]string{"-seeds", "2"}, false},
		{[]string{"-seeds", "0"}, true},
		{[]string{"-seeds", "-1"}, true},
		{[]string{"-faults", "("}, true},
		{[]string{"-no-such-flag"}, true},
		{[]string{"more"}, true},
	} {
		a, err := parse(x.args, &bytes.Buffer{})
		if errors.As(err, new(cli.UsageError)) != x.usage {
			t.Errorf("%q: %v", x.args, err)
		}
		if err == nil && (a.sim.Seed == 0 || a.sim.Rounds == 0 && a.sim.Duration == 0) {
			t.Errorf("%q: it has no seed, or would never end", x.args)
		}
	}
}

func TestHelp(t *testing.T) {
	var out bytes.Buffer
	if _, err := parse([]string{"-help"}, &out); !errors.Is(err, flag.ErrHelp) {
		t.Fatal(err)
	}
	for _, want := range []string{"usage: isthmus-sim", "refuse, silent", "-bulkhead"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the help does not mention %q", want)
		}
	}
}

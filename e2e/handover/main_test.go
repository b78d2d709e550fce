package handover

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

var long = flag.Bool("long", false, "print tables for many flags, and check the limits of time that are promised")

func TestMain(m *testing.M) {
	flag.Parse()
	if *long {
		promise()
	}
	// Cases wait most of the time: they need not take turns.
	if err := flag.Set("test.parallel", "20"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	goleak.VerifyTestMain(m)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

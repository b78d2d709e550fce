package faults

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

var long = flag.Bool("long", false, "use long faults, larger crowds of proxies and the documented limits")

func TestMain(m *testing.M) {
	flag.Parse()
	if *long {
		promise()
	}
	if err := chosen(flag.Lookup("test.run").Value.String()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	// Tests and faults mostly wait, so many of them can run in parallel.
	if err := flag.Set("test.parallel", "40"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	goleak.VerifyTestMain(m)
}

// chosen returns an error if -run has the form set by make faults FAULT=REGEX but matches no fault.
func chosen(run string) error {
	_, names, ok := strings.Cut(run, "Test(Faults|OwnCluster)$/")
	if !ok {
		return nil
	}
	pattern, err := regexp.Compile(names)
	if err == nil &&
		!slices.ContainsFunc(
			slices.Concat(serverFaults(), connectionFaults(), ownFaults()),
			func(f fault) bool { return pattern.MatchString(f.name) },
		) {
		err = fmt.Errorf("no fault has a name that matches %s", names)
	}
	return err
}

// turns limits the tests that use all processors to two at a time.
var turns = make(chan struct{}, 2)

// inTurn waits for one of the turns and holds it until the test ends. Tests that mostly wait do not
// call inTurn.
func inTurn(t *testing.T) {
	t.Helper()
	t.Parallel()
	turns <- struct{}{}
	t.Cleanup(func() { <-turns })
}

// either returns the value for the default or for the long form of the suite.
func either[T any](short, lasting T) T {
	if *long {
		return lasting
	}
	return short
}

// Time limits. The defaults are for tests that run in parallel on a busy machine. The function
// promise sets the documented limits.
var (
	// patience limits the time until a change reaches a proxy.
	patience = 30 * time.Second
	// recovery limits the time until a recovered cluster is watched again, and until a state is
	// shown.
	recovery = 30 * time.Second
	// notice limits the time until a fault is detected. Isthmus detects a hanging cluster by pings
	// or by a list that receives no more data.
	notice = 40 * time.Second
)

func promise() { patience, recovery, notice = 10*time.Second, 10*time.Second, 20*time.Second }

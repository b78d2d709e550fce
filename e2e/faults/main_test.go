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

var long = flag.Bool("long", false, "let faults last, and let more proxies come")

func TestMain(m *testing.M) {
	flag.Parse()
	if *long {
		promise()
	}
	if err := chosen(flag.Lookup("test.run").Value.String()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	// Tests and faults wait most of the time: they need not take turns.
	if err := flag.Set("test.parallel", "40"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	goleak.VerifyTestMain(m)
}

// chosen returns an error when -run is as make faults FAULT=REGEX sets it, and there is no such fault.
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
		err = fmt.Errorf("there is no fault whose name matches %s", names)
	}
	return err
}

// turns lets two of the tests that keep all processors busy run at a time.
var turns = make(chan struct{}, 2)

// inTurn waits until it is the test's turn, which it has to its end. Tests that mostly wait run beside.
func inTurn(t *testing.T) {
	t.Helper()
	t.Parallel()
	turns <- struct{}{}
	t.Cleanup(func() { <-turns })
}

// either returns what goes with the form of the suite that is run.
func either[T any](short, lasting T) T {
	if *long {
		return lasting
	}
	return short
}

// Limits of time. They are those of the short form, which runs beside other tests on machines that may be busy; promise
// sets those that the gateway promises.
var (
	// patience is how long a change may take to arrive at a proxy, on a machine that is busy with everything at once.
	patience = 30 * time.Second
	// recovery is how long a cluster that is back may take to be followed, and a state to be seen.
	recovery = 30 * time.Second
	// notice is how long a fault may take to be noticed: a cluster that hangs is found by pings, or by a list that
	// falls silent.
	notice = 40 * time.Second
)

// promise sets the limits that the gateway promises.
func promise() { patience, recovery, notice = 10*time.Second, 10*time.Second, 20*time.Second }

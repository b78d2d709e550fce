package faults

import (
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

var long = flag.Bool("long", false, "let faults last, and let more proxies come")

func TestMain(m *testing.M) {
	flag.Parse()
	// Faults wait most of the time: they need not take turns.
	if err := flag.Set("test.parallel", "40"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	goleak.VerifyTestMain(m)
}

// either returns what goes with the form of the suite that is run.
func either[T any](short, lasting T) T {
	if *long {
		return lasting
	}
	return short
}

const (
	// patience is how long a change may take to arrive at a proxy, on a machine that is busy with everything at once.
	patience = 10 * time.Second
	// recovery is how long a cluster that is back may take to be followed, and a state to be seen.
	recovery = 10 * time.Second
	// notice is how long a fault may take to be noticed: a cluster that hangs is found by pings, or by a list that
	// falls silent.
	notice = 20 * time.Second
)

package main

import (
	"os"
	"runtime/debug"
)

// gcPercent is how much garbage there may be, in percent of what is in use. What
// an idle gateway has in use is little, so that with Go's 100 it would collect
// again and again while thousands of proxies connect.
const gcPercent = 200

// tuneMemory sets gcPercent, unless the environment has a GOGC.
func tuneMemory() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
}

// returnMemory gives back to the system what it took to read all clusters, which
// is more than what is kept of them. It collects, which takes some milliseconds.
func returnMemory() { debug.FreeOSMemory() }

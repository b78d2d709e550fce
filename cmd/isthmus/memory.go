package main

import (
	"os"
	"runtime/debug"
)

// gcPercent is how much garbage there may be, in percent of the live heap. The heap
// of an idle gateway is small, so that with Go's default of 100 it would collect
// again and again while thousands of proxies connect.
const gcPercent = 200

// tuneMemory sets gcPercent, unless the environment has a GOGC.
func tuneMemory() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
}

// returnMemory returns to the system the memory that listing all clusters took,
// which is more than what is kept of them. It takes some milliseconds.
func returnMemory() { debug.FreeOSMemory() }

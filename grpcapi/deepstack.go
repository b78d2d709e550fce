package grpcapi

import (
	"fmt"
	"runtime/debug"
)

// runDeep runs f on a goroutine of its own, and returns or panics when f does.
//
// It is for what needs more stack than the 4 KiB that the goroutine of a call gets by
// with as long as its stream has few updates: to receive the request, to send the first messages, to encode. The goroutine of
// a call lives for as long as its stream, up to an hour, half of its stack is taken by
// gRPC's own frames, and Go shrinks a stack only if less than a quarter of it is in use.
// docs/performance.md has what this saves.
func runDeep(f func()) {
	panicked := make(chan string)
	go func() {
		defer close(panicked)
		defer func() {
			if r := recover(); r != nil { // this stack is about to be lost
				panicked <- fmt.Sprintf("%v\n%s", r, debug.Stack())
			}
		}()
		growStack(0)
		f()
	}()
	if r, ok := <-panicked; ok {
		panic(r)
	}
}

// growStack makes the goroutine's stack as large as it becomes anyway, at once: to move a
// stack costs by the frames on it, so that it is cheap as long as there are hardly any.
//
//go:noinline
func growStack(at int) byte {
	var room [5 << 10]byte // of 8 KiB
	return room[at]
}

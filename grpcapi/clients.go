package grpcapi

import (
	"context"
	"net/netip"
	"runtime"
	"sync"
	"time"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/tap"
)

const (
	// callBytes is about how much memory a call takes, without its headers: its goroutine's
	// stack, and what gRPC and its stream keep.
	callBytes = 11 << 10
	// headerBytes is about how much gRPC takes for each of a call's headers, without the
	// texts, which it keeps for as long as the call.
	headerBytes = 64
)

// clients is how much memory each client address takes: its calls, and the views that
// they were the first to need. The zero value is ready to use.
type clients struct {
	mu  sync.Mutex
	by  map[netip.Addr]int64 // none is 0
	all int64                // their sum
}

// add changes what an address takes.
func (c *clients) add(client netip.Addr, bytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.by == nil {
		c.by = make(map[netip.Addr]int64)
	}
	c.all += bytes
	if now := c.by[client] + bytes; now != 0 {
		c.by[client] = now
	} else {
		delete(c.by, client)
	}
}

// mayExceed reports whether a client may have what it has, although there is no more
// memory: it takes less than the average address, so that no client can lock out the
// others. The client with the most calls never does. Together they exceed the
// limit by half of it at most.
func (c *clients) mayExceed(client netip.Addr, limit int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.by[client]*int64(len(c.by)) < min(c.all, limit) && c.all <= limit+limit/2
}

// callMemory is what a call takes of the budget.
type callMemory struct {
	client netip.Addr
	bytes  int64
}

// callContext is a call's context. It lives for as long as gRPC keeps anything of the call. That
// is longer than the call is open, if its client does not take the answer.
type callContext struct{ context.Context }

// refusalKey is the key of the error that refuses a call, in its context.
type refusalKey struct{}

// refusedWithin is how long a call that is refused waits for its request, if gRPC receives
// that first.
const refusedWithin = time.Second

// refusal returns the error that refuses a call with this context, or nil.
func refusal(ctx context.Context) error {
	err, _ := ctx.Value(refusalKey{}).(error)
	return err
}

// admit takes a call's memory. The context that it returns is the call's. Its error refuses the call, or the context's
// refusal does; then no memory is taken.
//
// The latter is for a call with a deadline. If a tap refuses it, gRPC keeps its context's timer
// until then, which the client may choose centuries away; a call that has begun it cleans up.
func (b *budget) admit(ctx context.Context, client netip.Addr, info *tap.Info) (context.Context, callMemory, error) {
	taken := callMemory{client, costOfCall(info.Header)}
	b.clients.add(client, taken.bytes)
	used, calls := b.used.Add(taken.bytes), b.calls.Add(taken.bytes)
	if used-b.idle.Load() > b.max && calls > b.max/2 && !b.clients.mayExceed(client, b.max) {
		b.leave(taken)
		b.collect()
		err := b.refuse(info.FullMethodName + " of " + client.String())
		if _, timed := ctx.Deadline(); !timed {
			return ctx, callMemory{}, err
		}
		ctx, cancel := context.WithTimeout(context.WithValue(ctx, refusalKey{}, err), refusedWithin)
		_ = cancel // it ends with its parent
		return ctx, callMemory{}, nil
	}
	return ctx, taken, nil
}

// keep returns the context of a call that leaves its memory once gRPC keeps nothing of the call any more. What may outlive it must
// not hold this context: also a timer that has been stopped, which the runtime may keep until it is due.
func (b *budget) keep(ctx context.Context, taken callMemory) context.Context {
	kept := &callContext{ctx}
	runtime.AddCleanup(kept, b.leave, taken)
	return kept
}

// leave returns the memory of a call.
func (b *budget) leave(taken callMemory) {
	b.clients.add(taken.client, -taken.bytes)
	b.calls.Add(-taken.bytes)
	b.give(taken.bytes)
}

// collectEvery is the least time between two collections that refused calls begin.
const collectEvery = 5 * time.Second

// collect begins a collection: until the next one, calls that are over count as well. It
// does so once in collectEvery at most.
func (b *budget) collect() {
	now, last := time.Now().UnixNano(), b.collected.Load()
	if time.Duration(now-last) >= collectEvery && b.collected.CompareAndSwap(last, now) {
		go runtime.GC()
	}
}

// costOfCall is about how much memory a call with these headers takes.
func costOfCall(headers metadata.MD) int64 {
	bytes := callBytes
	for name, values := range headers {
		bytes += len(name)
		for _, v := range values {
			bytes += headerBytes + len(v)
		}
	}
	return int64(bytes)
}

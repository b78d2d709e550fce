package bench

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"isthmus/e2e/object"
	"isthmus/e2e/poll"
	"isthmus/internal/apisim"
)

const (
	floodNamespace = "flood"
	// floodEvery is how often the events of that time are written.
	floodEvery = 10 * time.Millisecond
)

// flood writes objects of ever new names to an API server: Pods, Services, and their slices.
type flood struct {
	server         *apisim.Server
	oldest, newest int // numbers of the objects that there are: from the first up to, and without, the second

	cancel  context.CancelFunc
	running sync.WaitGroup
	written atomic.Int64 // events
	err     error        // read after running
}

// start writes so many events a second until end. Once there are as many objects as the limit, the oldest are deleted for new
// ones, which is an event too; 0: none are.
func (f *flood) start(ctx context.Context, rate, limit int) {
	ctx, f.cancel = context.WithCancel(ctx)
	f.written.Store(0)
	f.running.Go(func() {
		began := time.Now()
		for f.err == nil && poll.Pause(ctx, floodEvery) == nil {
			due := int64(time.Since(began).Seconds() * float64(rate))
			for f.err == nil && f.written.Load() < due && ctx.Err() == nil {
				f.err = f.event(limit)
			}
		}
	})
}

// end ends what start began, and returns how many events that were.
func (f *flood) end() (int64, error) {
	f.cancel()
	f.running.Wait()
	return f.written.Load(), f.err
}

func (f *flood) event(limit int) error {
	f.written.Add(1)
	if limit > 0 && f.newest-f.oldest >= limit {
		f.oldest++
		return f.server.Delete(floodObject(f.oldest - 1))
	}
	f.newest++
	return f.server.Put(floodObject(f.newest - 1))
}

// subside deletes all objects.
func (f *flood) subside() error {
	for ; f.oldest < f.newest; f.oldest++ {
		if err := f.server.Delete(floodObject(f.oldest)); err != nil {
			return err
		}
	}
	return nil
}

// floodObject returns an object of the flood by number.
func floodObject(i int) runtime.Object {
	name := fmt.Sprintf("flood-%09d", i/3)
	switch i % 3 {
	case 0:
		return object.Service(floodNamespace, name)
	case 1:
		return object.Mesh(object.Pod(floodNamespace, name, ""))
	}
	address := fmt.Sprintf("172.%d.%d.%d", 16+i>>16&0xf, i>>8&0xff, i&0xff)
	return object.Slice(floodNamespace, name, "0", object.PodEndpoint(address, floodNamespace, name))
}

package grpcapi

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"

	"isthmus/federation"
	"isthmus/grpcapi/internal/wiretest"
	"isthmus/grpcapi/wire"
)

// keeper is a sink that wants one address to stay.
type keeper struct {
	addr   string
	took   atomic.Int64
	t      *testing.T
	broken atomic.Bool
	fold   wiretest.Proxy // of the stream's goroutine
}

func (k *keeper) SendMsg(m any) error {
	u := &pb.Update{}
	if err := wiretest.Unmarshal(wire.NewCodec(), m, u); err != nil {
		return err
	}
	k.fold.Apply(u)
	k.took.Add(1)
	for a := range k.fold.Endpoints {
		if a.String() == k.addr {
			return nil
		}
	}
	if !k.broken.Swap(true) {
		k.t.Errorf("%s was taken away by %v", k.addr, u)
	}
	return nil
}

// TestPolicySwitches: an endpoint on the client's own node is served whatever the
// traffic policy, so a stream must never be without it while that switches. It
// lets the table and streams run at the same time, as fast as they can.
func TestPolicySwitches(t *testing.T) {
	w := newWorld(t, Options{Pace: -1, Linger: -1})
	here, there := pod("10.0.0.1:80"), pod("10.0.0.2:80")
	here.Node, there.Node = "n1", "n2"
	share := func(local bool) federation.Share {
		return federation.Share{State: federation.Present, NodeLocal: local, Slices: []*federation.Slice{sliceOf("", here, there)}}
	}
	w.share("", share(false))
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	var keepers []*keeper
	for range 8 {
		k := &keeper{addr: "10.0.0.1:80", t: t}
		keepers = append(keepers, k)
		st := w.server.newGet(target{service: web, port: 80}, token{Node: "n1"}, k, &caller{cancel: cancel})
		wg.Go(func() { _ = serve(ctx, st) }) // hung up
	}
	for i := range 3000 {
		w.share("", share(i%2 == 0))
	}
	cancel()
	wg.Wait()
	for i, k := range keepers {
		if k.took.Load() == 0 {
			t.Errorf("stream %d was sent nothing", i)
		}
	}
}
